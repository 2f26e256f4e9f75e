#pragma once
// Converts the pieces of a reply to an assistant message in OpenAI's form, and such messages to the form that
// templates expect.

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "protocol/reply/reply_parser.h"

namespace reprise::protocol {

class MessageBuilder {
 public:
  void add(const ReplyPiece& piece);
  void add(const ReplyPieces& pieces);

  const std::string& content() const { return content_; }
  const std::string& reasoning() const { return reasoning_; }
  bool has_calls() const { return !calls_.empty(); }

  /// Returns {"role": "assistant", "content": ..., "reasoning_content"?: ..., "tool_calls"?: [...]} in
  /// OpenAI's form, with arguments as strings. Content is null if there are calls and no text.
  Json message() const;

 private:
  struct Call {
    std::string id, name, arguments;
  };

  std::string content_;
  std::string reasoning_;
  std::vector<Call> calls_;
};

Json assistant_message(const ReplyPieces& pieces);

/// Converts a message, or an array of messages, to the form that templates expect:
/// - Content that is an array of texts and refusals is joined with line breaks, as other servers do.
/// - `reasoning` is copied to `reasoning_content` if that is missing.
/// - Call arguments that are the text of a JSON object become the object.
/// - Missing or null content next to calls becomes "", unless `null_content` (ReplyFormat).
/// Everything else is unchanged, including arguments that are not JSON and content with other parts.
Json template_form(Json message_or_messages, bool null_content = false);

}  // namespace reprise::protocol
