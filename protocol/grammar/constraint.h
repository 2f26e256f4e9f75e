#pragma once
// Constraint: what a reply must be, as a client says it (compile.h makes a program of it).
//
// Threading: plain values.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace reprise::protocol::grammar {

/// What a text must be.
struct TextRule {
  enum class Kind : std::uint8_t {
    kAny,
    kRegex,  // all of it matches; of Python's dialect
    kLark,
  } kind = Kind::kAny;
  std::string text{};
};

/// The one parameter of a tool that takes a text instead of arguments.
inline constexpr const char* kInputName = "input";

/// Calls of tools, in the form that a model writes them.
struct CallsConstraint {
  enum class Arguments : std::uint8_t {
    kJson,    // an object
    kXml,     // <parameter=key>\nvalue\n</parameter>\n for each, strings as they are
    kPython,  // key=value, …
  };
  struct Tool {
    std::string name{};  // for errors
    /// What stands in front of the arguments and behind them; a piece that is a special token's text may come as that.
    std::vector<std::string> before{};
    std::vector<std::string> behind{};
    Json parameters{};    // their schema; null: none is known
    bool strict = false;  // false: where the schema cannot be kept, any arguments will do
    /// Not kAny: the arguments are one text, `kInputName`, that this holds for, whatever `parameters` say.
    TextRule input{};
  };
  Arguments arguments = Arguments::kJson;
  std::vector<Tool> tools{};  // one of these is called
  /// The reply is text, and whenever this mark comes in it a call follows; empty: the reply is one call. Beside a
  /// constraint of another kind: the reply is that, or a call behind this mark.
  std::string mark{};
};

struct Constraint {
  enum class Kind : std::uint8_t {
    kNone,
    kJsonObject,  // any
    kJsonSchema,  // json
    kRegex,       // text: all of the reply
    kChoice,      // choices: one of these
    kGbnf,        // text
    kLark,        // text
    kCalls,       // calls, and nothing else of this
  };
  Kind kind = Kind::kNone;
  Json json{};
  std::string text{};
  std::vector<std::string> choices{};
  CallsConstraint calls{};
  /// A pattern for the whitespace between the tokens of JSON, also in arguments of tools. None: a blank may follow a comma
  /// or a colon, and nothing else may come.
  std::optional<std::string> whitespace{};
  /// What the client calls it, for errors.
  std::string field{};
  /// Reasoning may stand before it: free text up to think_close, and blank lines behind. Empty: none.
  std::string think_open{};  // may stand at the beginning; empty: the prompt has opened it
  std::string think_close{};

  explicit operator bool() const { return kind != Kind::kNone; }
  /// The same for the same constraint: to compile each once.
  std::string key() const;
};

}  // namespace reprise::protocol::grammar
