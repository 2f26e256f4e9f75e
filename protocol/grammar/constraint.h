#pragma once
// Constraint: the required form of a reply, as the client specified it. compile.h compiles it.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace reprise::protocol::grammar {

struct TextRule {
  enum class Kind : std::uint8_t {
    kAny,
    kRegex,  // matches the whole text; Python dialect
    kLark,
  } kind = Kind::kAny;
  std::string text{};
};

/// The one parameter of a tool that takes text instead of JSON arguments.
inline constexpr const char* kInputName = "input";

/// Tool calls, in the syntax that the model writes.
struct CallsConstraint {
  enum class Arguments : std::uint8_t {
    kJson,    // a JSON object
    kXml,     // <parameter=key>\nvalue\n</parameter>\n per argument; strings are not quoted
    kPython,  // key=value, …
  };
  struct Tool {
    std::string name{};  // for error messages
    /// Text around the arguments. A piece that equals a special token's text may be written as that token.
    std::vector<std::string> before{};
    std::vector<std::string> after{};
    Json parameters{};    // JSON schema; null: unknown
    bool strict = false;  // false: if the schema is not supported, arguments are not constrained
    /// If not kAny, the arguments are a single text, `kInputName`, with this form; `parameters` is ignored.
    TextRule input{};
  };
  Arguments arguments = Arguments::kJson;
  std::vector<Tool> tools{};  // the tools that may be called
  /// Text that starts a call. Empty: the reply is one call. Set: the reply is free text in which each mark
  /// starts a call, or, with a constraint of another kind, either a value of that kind or a call.
  std::string mark{};
};

struct Constraint {
  enum class Kind : std::uint8_t {
    kNone,
    kJsonObject,
    kJsonSchema,  // JSON Schema in `json`
    kRegex,       // regular expression in `text`, for the whole reply
    kChoice,      // one of `choices`
    kGbnf,        // GBNF grammar in `text`
    kLark,        // Lark grammar in `text`
    kCalls,       // tool calls as in `calls`
  };
  Kind kind = Kind::kNone;
  Json json{};
  std::string text{};
  std::vector<std::string> choices{};
  CallsConstraint calls{};
  /// Pattern of the whitespace between JSON tokens, also in arguments. None: one optional space after commas
  /// and colons.
  std::optional<std::string> whitespace{};
  /// name of the request member, for errors
  std::string field{};
  /// If set, reasoning may precede the reply: free text up to think_close, then blank lines.
  std::string think_open{};  // optional opening tag; empty: the prompt has opened it
  std::string think_close{};

  explicit operator bool() const { return kind != Kind::kNone; }
  /// Returns a string that identifies the constraint, for caching compiled programs.
  std::string key() const;
};

}  // namespace reprise::protocol::grammar
