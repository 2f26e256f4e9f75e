#pragma once
// CustomInput extracts the text of a custom tool's call from its streamed JSON arguments: {"input": "…"}.
//
// In this form the text is returned as it arrives. For other arguments it is known only at the end: their
// `input`, or, if there is none, all arguments as the model wrote them.
//
// Threading: one thread at a time. Memory grows with the arguments.

#include <cstdint>
#include <string>
#include <string_view>

#include "protocol/grammar/characters.h"

namespace reprise::protocol::responses {

class CustomInput {
 public:
  /// Adds a piece of the arguments. Returns the text it completes that was not returned before.
  std::string push(std::string_view json);
  /// Ends the arguments. Returns the rest of the text.
  std::string finish();

 private:
  enum class State : std::uint8_t { kOpening, kText, kEnded, kOtherForm };

  void put(char c);

  State state_ = State::kOpening;
  std::size_t read_ = 0;  // characters matched of the opening
  grammar::CharProgress progress_ = 0;
  std::string json_;
  std::string given_;  // text returned so far
};

}  // namespace reprise::protocol::responses
