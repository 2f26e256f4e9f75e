#pragma once
// An answer in one piece: events of the engine in, one JSON object out.
//
// Threading: one actor's. Memory grows with the reply, which max_tokens and the model's context bound.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/openai/reply_text.h"
#include "protocol/openai/request.h"
#include "protocol/reply/reply_message.h"
#include "protocol/reply/reply_parser.h"

namespace reprise::protocol {

class WholeReply {
 public:
  /// `format` and `parser` are for chats; a completion's text is passed on as it is.
  WholeReply(ReplyHead head, ReplyOptions options, ReplyFormat format, ReplyParserOptions parser);

  void started(const Started& event);
  void delta(Delta event);
  void finished(const Finished& event);
  /// The body, once. Nothing may follow.
  std::string done(const Done& event);

 private:
  struct Choice {
    std::optional<ReplyParser> parser{};
    MessageBuilder message{};
    std::string text{};  // of a completion
    std::vector<ReplyToken> tokens{};
    SharedTokens prompt{};  // where token ids were asked for
    FinishReason finish = FinishReason::kLength;
  };

  Choice& choice(std::uint32_t index);
  void append_choice(std::uint32_t index, std::string& out) const;

  const ReplyHead head_;
  const ReplyOptions options_;
  const ReplyFormat format_;
  ReplyParserOptions parser_options_;
  std::vector<Choice> choices_;
};

}  // namespace reprise::protocol
