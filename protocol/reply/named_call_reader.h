#pragma once
// Calls as a name, a separator and JSON arguments, between marks of their own:
//
//   <|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{…}<|tool_call_end|>      Kimi
//   <｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{…}\n```<｜tool▁call▁end｜>         DeepSeek
//   f[ARGS]{…}                                                                           Mistral
//
// Threading: one thread at a time.

#include <cstddef>
#include <cstdint>
#include <string>

#include "protocol/reply/call_reader.h"
#include "protocol/reply/json_value_scanner.h"
#include "protocol/reply/mark_finder.h"

namespace reprise::protocol {

class NamedCallReader : public CallReader {
 public:
  /// Keeps a reference.
  explicit NamedCallReader(const ReplyFormat& format);

  Step put(char c, CallSink& out) override;
  void stop(CallSink&) override {}  // arguments never wait
  bool between_calls() const override {
    return calls_ > 0 && (state_ == State::kBetween || state_ == State::kItemEnd);
  }

 private:
  enum class State : std::uint8_t {
    kBetween,         // the mark of an item, or the closing one, comes
    kHeader,          // up to the separator
    kTypedName,       // a line
    kArgumentsStart,  // spaces and a fence
    kArguments,
    kItemEnd,
  };

  Step between(char c);
  Step header(char c, CallSink& out);
  Step arguments(char c, CallSink& out);
  Step item_end(char c);
  Step begin(CallSink& out, std::size_t held);

  const ReplyFormat& format_;

  State state_;
  std::size_t calls_ = 0;
  std::string mark_{};    // as far as it has come
  std::string header_{};  // the text before the arguments
  MarkFinder separator_;
  JsonValueScanner scanner_{};
};

}  // namespace reprise::protocol
