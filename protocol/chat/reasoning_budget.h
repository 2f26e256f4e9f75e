#pragma once
// ReasoningBudget: limits the reasoning of one reply. It follows the reply token by token, and when the budget is used up, or
// after end_now(), it names the tokens that close the reasoning: those must come next, one after the other.
//
// Reasoning is what ReplyParser takes for it. Its tokens count up to the close mark, whoever opened it, over all blocks of
// a reply; marks that one token completes do not count, nor do tokens that were forced.
//
// Callers that run behind the sampling may note tokens that came before they could be forced: the tokens that close the
// reasoning are then found anew, behind those.
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

  /// `chat` must have reasoning marks and an encoder. `prompt_tail`: the last bytes of the prompt's text.
  ReasoningBudget(ChatFormatPtr chat, BytesOf bytes_of, std::string_view prompt_tail, std::uint64_t tokens);

  /// Takes note of the reply's next token.
  void note(TokenId token);
  /// Makes the tokens used so far the budget.
  void end_now();

  /// The token that must come next; none: any token may.
  std::optional<TokenId> forced();
  /// How many tokens of the reply come before the first that may be forced; kUnlimited: none will be.
  std::uint64_t free_tokens() const;

  /// The cause that closed the reasoning.
  ReasoningEnd ended_by() const { return ended_by_; }

 private:
  TokenList closing_tokens() const;

  const ChatFormatPtr chat_;
  const BytesOf bytes_of_;
  ReplyParser parser_;
  std::string tail_;  // the last bytes of prompt and reply
  std::uint64_t limit_;
  bool limit_is_clients_ = false;
  std::uint64_t seen_ = 0;  // tokens of the reply
  std::uint64_t used_ = 0;  // of these, reasoning
  TokenList closing_;       // tokens still to be forced
  ReasoningEnd ended_by_ = ReasoningEnd::kModel;
};

}  // namespace reprise::protocol
