#pragma once
// The messages and tools of a chat, before a template sees them.
//
// Roles and content parts that are not supported (images, audio) are refused with their location:
// "messages[3].content[0].type". In tool results and in history such parts are replaced by a text. Nothing
// else is changed: the template gets what the client sent.
//
// All functions throw BadRequest.

#include <string>
#include <string_view>

#include "base/json.h"
#include "protocol/api/api_error.h"
#include "protocol/api/body_limits.h"
#include "protocol/api/common_fields.h"
#include "protocol/api/fields.h"

namespace reprise::protocol {

/// Limits the text in all messages of a request (BodyLimits::prompt_bytes). `field` names it in errors.
class TextBudget {
 public:
  TextBudget(const BodyLimits& limits, std::string field)
      : max_(limits.prompt_bytes), field_(std::move(field)) {}

  void count(std::string_view text) {
    bytes_ += text.size();
    if (bytes_ > max_) {
      refuse_field(field_, "too_long", "must not have more than " + std::to_string(max_) + " bytes of text");
    }
  }

 private:
  const std::size_t max_;
  const std::string field_;
  std::size_t bytes_ = 0;
};

/// Returns the text that replaces an unsupported content part: an image, a file, audio.
///
/// In a new user message such a part is refused by name. In history and tool results it becomes this text,
/// because clients resend their history with every request, and refusing it would end the session. `type` is
/// the API's spelling: "image", "image_url" and "input_image" all count as an image.
inline std::string omitted_part(std::string_view type) {
  if (type.starts_with("input_")) type.remove_prefix(6);
  if (type.ends_with("_url")) type.remove_suffix(4);
  return "[" + std::string(type) + " omitted: this model takes text only]";
}

/// Validates messages in OpenAI's format. Replaces unsupported parts by omitted_part() where allowed.
void check_messages(Json::Array& messages, const BodyLimits& limits);
void check_tools(const Json::Array& tools, const BodyLimits& limits);

/// If continue_final_message is set, or llama-server would do so by default, the last message becomes the
/// beginning of the reply. Throws BadRequest.
void read_continuation(const Fields& fields, ApiFlavor flavor, ChatPrompt& chat);

}  // namespace reprise::protocol
