#pragma once
// An answer in one piece: events of the engine in, one JSON object out.
//
// Threading: one actor's. Memory grows with the reply, which max_tokens and the model's context bound.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/api/reply.h"
#include "protocol/openai/reply_text.h"
#include "protocol/openai/request.h"
#include "protocol/reply/reply_message.h"

namespace reprise::protocol::openai {

class WholeReply final : public Reply {
 public:
  /// A completion's text is passed on as it is, a chat's is read for its marks.
  WholeReply(const ReplyOptions& options, ReplyContext context);

  void admitted(const Admitted& event, std::int64_t now, std::string& out) override;
  void started(const Started& event, std::string& out) override;
  void delta(Delta event, std::string& out) override;
  void finished(const Finished& event, std::string& out) override;
  void done(const Done& event, std::string& out) override;

 private:
  struct Choice {
    std::optional<ReplyParser> parser{};
    MessageBuilder message{};
    std::string text{};  // of a completion
    std::vector<ReplyToken> tokens{};
    SharedTokens prompt{};  // where token ids were asked for
    FinishReason finish = FinishReason::kLength;
    double logprob = 0;  // of all its tokens, where they have one
    std::size_t length = 0;
  };

  Choice& choice(std::uint32_t index);
  std::vector<std::uint32_t> order_shown() const;
  void append_choice(std::uint32_t which, std::uint32_t index, std::string& out) const;

  const ReplyOptions options_;
  const ReplyContext context_;
  ReplyHead head_{};
  std::vector<Choice> choices_;
  std::string prompt_text_;             // where it is to be told
  std::uint32_t reasoning_tokens_ = 0;  // of all choices
};

}  // namespace reprise::protocol::openai
