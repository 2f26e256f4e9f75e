#include "protocol/responses/custom_input.h"

#include "base/json.h"
#include "base/utf8.h"
#include "protocol/grammar/constraint.h"

namespace reprise::protocol::responses {
namespace {

constexpr std::string_view kOpening = "{\"input\":\"";

// Returns true if white space may precede this character of the opening.
bool may_be_blank(std::size_t at) {
  return kOpening[at] == '{' || kOpening[at] == ':' || kOpening[at - 1] == '{' || kOpening[at - 1] == ':';
}

bool is_blank(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

}  // namespace

std::string CustomInput::push(std::string_view json) {
  const std::size_t before = given_.size();
  json_ += json;
  for (const char c : json) put(c);
  return given_.substr(before);
}

void CustomInput::put(char c) {
  using Kind = grammar::CharStep::Kind;
  if (state_ == State::kOpening) {
    if (c == kOpening[read_]) {
      if (++read_ == kOpening.size()) state_ = State::kText;
    } else if (!is_blank(c) || !may_be_blank(read_)) {
      state_ = State::kOtherForm;
    }
    return;
  }
  if (state_ != State::kText) return;
  if (progress_ == 0 && static_cast<unsigned char>(c) < 0x20) {  // models forget to escape
    given_ += c;
    return;
  }
  const grammar::CharStep step = grammar::json_step(progress_, static_cast<std::uint8_t>(c));
  progress_ = step.kind == Kind::kPart ? step.progress : 0;
  if (step.kind == Kind::kWhole) append_utf8(given_, step.code_point);
  if (step.kind == Kind::kQuote) state_ = State::kEnded;
}

std::string CustomInput::finish() {
  if (state_ == State::kText || state_ == State::kEnded) return {};
  const auto arguments = Json::parse(json_);
  const std::string* input =
      arguments.ok() && arguments->is_object() ? arguments->find_string(grammar::kInputName) : nullptr;
  given_ = input != nullptr ? *input : json_;
  return given_;
}

}  // namespace reprise::protocol::responses
