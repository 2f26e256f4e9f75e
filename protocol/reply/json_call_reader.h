#pragma once
// Calls as JSON objects with a name and arguments, one or a list of them:
//
//   {"name": "f", "arguments": {…}}        [{"name": "f", "arguments": {…}}, …]
//
// Members come in any order; others than the two are skipped. Arguments are given out as they come once the
// name is known. Arguments in a string that holds an object are unpacked; none, or null, are {}. Line breaks
// inside strings, which JSON forbids and models write, are escaped.
//
// Without marks around it (bare), an object is a call only if its name is one of the request's tools.
//
// Threading: one thread at a time.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "protocol/reply/call_reader.h"
#include "protocol/reply/json_value_scanner.h"

namespace reprise::protocol {

class JsonCallReader : public CallReader {
 public:
  /// `close`: the mark behind the calls; empty: they end where the JSON ends. Keeps references to both.
  JsonCallReader(std::string_view close, bool bare, const ToolSchemas& tools)
      : close_(close), bare_(bare), tools_(tools) {}

  Step put(char c, CallSink& out) override;
  void stop(CallSink& out) override;
  bool between_calls() const override { return state_ == State::kBetween && calls_ > 0; }

 private:
  enum class State : std::uint8_t {
    kBetween,     // before an object, or behind all of them
    kKeyOrEnd,    // behind { or ,
    kKey,         // inside the quotes
    kColon,       // behind a key
    kValueStart,  // behind the colon
    kValue,
    kAfterValue,  // , or } comes
  };
  enum class Role : std::uint8_t { kName, kArguments, kWrapper, kOther };

  Step between(char c);
  Step key_ended();
  Step value(char c, CallSink& out);
  Step value_ended(CallSink& out, std::size_t held);
  Step name_known(CallSink& out);
  Step object_ended(CallSink& out, std::size_t held);
  void begin(CallSink& out, std::size_t held);
  void add_argument(std::string_view json, CallSink& out);
  void give_kept_arguments(CallSink& out, std::size_t held);

  const std::string_view close_;
  const bool bare_;
  const ToolSchemas& tools_;

  State state_ = State::kBetween;
  bool in_list_ = false;
  std::size_t calls_ = 0;
  std::size_t close_matched_ = 0;

  // Of the object being read.
  bool wrapped_ = false;  // inside {"function": {…}}
  Role role_ = Role::kOther;
  std::string key_{};
  std::string name_{};
  bool begun_ = false;
  bool arguments_seen_ = false;  // whole, or being read
  bool streams_ = false;         // these arguments can be given out as they come
  std::string kept_{};           // a name, or arguments that cannot be given out yet
  std::string kept_arguments_{};
  JsonValueScanner scanner_{};
};

}  // namespace reprise::protocol
