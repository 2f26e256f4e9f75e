#pragma once
// From the pieces of a reply to the assistant's message, as clients get it and send it back.
//
// Threading: plain values and pure functions.

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "protocol/reply/reply_parser.h"

namespace reprise::protocol {

/// Collects the pieces of one reply.
class MessageBuilder {
 public:
  void add(const ReplyPiece& piece);
  void add(const ReplyPieces& pieces);

  const std::string& content() const { return content_; }
  const std::string& reasoning() const { return reasoning_; }
  bool has_calls() const { return !calls_.empty(); }

  /// {"role": "assistant", "content": …, "reasoning_content"?: …, "tool_calls"?: […]} as OpenAI has it, with
  /// arguments as a string. Content is null where there are calls and no text.
  Json message() const;

 private:
  struct Call {
    std::string id, name, arguments;
  };

  std::string content_;
  std::string reasoning_;
  std::vector<Call> calls_;
};

/// All pieces of a reply to its message.
Json assistant_message(const ReplyPieces& pieces);

/// A message, or an array of messages, for a template: content that is an array of texts and refusals becomes
/// one text, with a line break between two of them as other servers have it; what stands in `reasoning` alone comes as
/// `reasoning_content`, too; arguments of calls that are text
/// of a JSON object become that object; and a missing or null content beside calls becomes "", as most
/// templates want them, unless `null_content` (ReplyFormat) says that this one knows null. All else stays as
/// it is, also arguments that are no JSON, and content with a part of another kind.
Json template_form(Json message_or_messages, bool null_content = false);

}  // namespace reprise::protocol
