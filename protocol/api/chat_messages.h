#pragma once
// The messages and tools of a chat, before a template sees them.
//
// Roles and content parts that cannot be answered for (images, audio) are refused with the place where they
// stand: "messages[3].content[0].type". In results of tools and in history such parts become a text.
// Nothing else is changed: the template gets what the client sent.
//
// Threading: pure functions, which throw BadRequest; a budget has one owner.

#include <string>
#include <string_view>

#include "base/json.h"
#include "protocol/api/api_error.h"
#include "protocol/api/body_limits.h"
#include "protocol/api/common_fields.h"
#include "protocol/api/fields.h"

namespace reprise::protocol {

/// How much text the messages of a request may hold, all together (BodyLimits::prompt_bytes).
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

/// What stands in a prompt for a part of a message that models here cannot take: an image, a file, a sound.
///
/// In a new message of the user's such a part is refused by name. In what was said before, and in results of tools, it
/// becomes this text: clients send their history again with every request, so that a refusal there would end the session.
/// `type` as the API spells it: "image", "image_url", "input_image" are all an image.
inline std::string omitted_part(std::string_view type) {
  if (type.starts_with("input_")) type.remove_prefix(6);
  if (type.ends_with("_url")) type.remove_suffix(4);
  return "[" + std::string(type) + " omitted: this model takes text only]";
}

/// As OpenAI has them; parts of messages may be replaced by omitted_part().
void check_messages(Json::Array& messages, const BodyLimits& limits);
void check_tools(const Json::Array& tools, const BodyLimits& limits);

/// Where continue_final_message says so, or llama-server would do so, the last message becomes the reply's opening.
/// Throws BadRequest.
void read_continuation(const Fields& fields, Manners manners, ChatPrompt& chat);

}  // namespace reprise::protocol
