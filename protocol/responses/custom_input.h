#pragma once
// CustomInput: the text of a custom tool's call, from the JSON of its arguments as it comes: {"input": "…"}.
//
// What comes in that form is given out as it comes. Of other arguments it is known at the end alone: the text is their
// `input`, or all of them as the model wrote them where there is none.
//
// Threading: one thread at a time. Memory grows with the arguments.

#include <cstdint>
#include <string>
#include <string_view>

#include "protocol/grammar/characters.h"

namespace reprise::protocol::responses {

class CustomInput {
 public:
  /// More of the arguments. Returns what of the text is known by them, and was not given out before.
  std::string push(std::string_view json);
  /// There are no more. Returns what is missing of the text.
  std::string finish();

 private:
  enum class State : std::uint8_t { kOpening, kText, kEnded, kOtherForm };

  void put(char c);

  State state_ = State::kOpening;
  std::size_t read_ = 0;  // of the opening
  grammar::CharProgress progress_ = 0;
  std::string json_;
  std::string given_;  // of the text
};

}  // namespace reprise::protocol::responses
