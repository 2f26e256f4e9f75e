#pragma once
// ReasoningBudget: limits the reasoning tokens of one reply. It follows the reply token by token. When the
// budget is used up, or after end_now(), forced() returns the tokens that close the reasoning, one by one.
//
// Reasoning is what ReplyParser recognizes. All tokens up to the close mark count, over all blocks of a
// reply, except marks that one token completes and forced tokens.
//
// A caller that lags behind the sampling may note tokens that were sampled before they could be forced; the
// closing tokens are then recomputed from there.
//
// Threading: one thread at a time.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/token.h"
#include "protocol/chat/chat_format.h"
#include "protocol/service.h"

namespace reprise::protocol {

class ReasoningBudget {
 public:
  using BytesOf = std::function<std::string(TokenId)>;
  static constexpr std::uint64_t kUnlimited = UINT64_MAX;

  /// `prompt_tail`: the end of the prompt's text. Requires: `chat` has reasoning marks and an encoder.
  ReasoningBudget(ChatFormatPtr chat, BytesOf bytes_of, std::string_view prompt_tail, std::uint64_t tokens);

  void note(TokenId token);
  /// Ends the budget at the tokens used so far.
  void end_now();

  /// Returns the token that must come next; none: any.
  std::optional<TokenId> forced();
  /// Returns the number of reply tokens before the first forced one; kUnlimited: none will be forced.
  std::uint64_t free_tokens() const;

  ReasoningEnd ended_by() const { return ended_by_; }

 private:
  TokenList closing_tokens() const;

  const ChatFormatPtr chat_;
  const BytesOf bytes_of_;
  ReplyParser parser_;
  std::string tail_;  // the end of prompt and reply
  std::uint64_t limit_;
  bool limit_is_clients_ = false;
  std::uint64_t seen_ = 0;  // tokens of the reply
  std::uint64_t used_ = 0;  // reasoning tokens
  TokenList closing_;       // tokens still to be forced
  ReasoningEnd ended_by_ = ReasoningEnd::kModel;
};

}  // namespace reprise::protocol
