#pragma once
// How much text the messages of a request may hold, all together (BodyLimits::prompt_bytes).
//
// Threading: one owner.

#include <string>
#include <string_view>

#include "protocol/api/api_error.h"
#include "protocol/api/body_limits.h"

namespace reprise::protocol {

class TextBudget {
 public:
  /// `field` names it in errors: "messages".
  TextBudget(const BodyLimits& limits, std::string field)
      : most_(limits.prompt_bytes), field_(std::move(field)) {}

  /// Throws BadRequest.
  void count(std::string_view text) {
    bytes_ += text.size();
    if (bytes_ > most_) {
      refuse_field(field_, "too_long", "must not have more than " + std::to_string(most_) + " bytes of text");
    }
  }

 private:
  const std::size_t most_;
  const std::string field_;
  std::size_t bytes_ = 0;
};

}  // namespace reprise::protocol
