#pragma once
// Calls as Python writes them: [f(key="value", other=1), g()]. Keyword arguments only; they become one JSON
// object, given out as they come. The same marks may hold JSON calls instead, if the prompt asked for them.
//
// Threading: one thread at a time.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "protocol/reply/call_reader.h"
#include "protocol/reply/json_call_reader.h"
#include "protocol/reply/python_literal.h"

namespace reprise::protocol {

class PythonCallReader : public CallReader {
 public:
  /// `close`: the mark behind the calls. Keeps references to both.
  PythonCallReader(std::string_view close, const ToolSchemas& tools)
      : close_(close), json_(close, false, tools) {}

  Step put(char c, CallSink& out) override;
  void stop(CallSink& out) override;
  bool between_calls() const override;

 private:
  enum class State : std::uint8_t {
    kBetween,  // a call, or the closing mark, comes
    kName,     // up to (
    kKeyOrEnd,
    kKey,  // up to =
    kValue,
    kJson,  // the other form
  };

  Step between(char c, CallSink& out);
  Step json(char c, CallSink& out);
  Step name(char c, CallSink& out);
  Step value(char c, CallSink& out);
  Step call_ended(CallSink& out);

  const std::string_view close_;
  JsonCallReader json_;

  State state_ = State::kBetween;
  bool list_ = false;
  std::size_t calls_ = 0;
  std::size_t close_matched_ = 0;
  std::string word_{};  // a name or a key
  bool has_arguments_ = false;
  PythonLiteral literal_{};
};

}  // namespace reprise::protocol
