#include "protocol/chat/reasoning_budget.h"

#include <algorithm>
#include <utility>

namespace reprise::protocol {
namespace {

constexpr std::size_t kTailBytes = 64;

std::string last_bytes(std::string_view text) {
  return std::string(text.substr(text.size() - std::min(text.size(), kTailBytes)));
}

}  // namespace

ReasoningBudget::ReasoningBudget(ChatFormatPtr chat, BytesOf bytes_of, std::string_view prompt_tail,
                                 std::uint64_t tokens)
    : chat_(std::move(chat)),
      bytes_of_(std::move(bytes_of)),
      parser_(chat_->parser({.prompt_tail = std::string(prompt_tail), .parse_tools = false})),
      tail_(last_bytes(prompt_tail)),
      limit_(tokens) {}

void ReasoningBudget::note(TokenId token) {
  ++seen_;
  const bool before = parser_.in_reasoning();
  if (!before && !parser_.may_begin_reasoning() && closing_.empty()) return;  // no reasoning can follow
  const std::string bytes = bytes_of_(token);
  static_cast<void>(parser_.push(bytes));
  tail_ = last_bytes(tail_ + bytes);
  if (!closing_.empty() && closing_.front() == token) {
    closing_.erase(closing_.begin());
    if (before && !parser_.in_reasoning()) {
      ended_by_ = limit_is_clients_ ? ReasoningEnd::kClient : ReasoningEnd::kBudget;
    }
    return;
  }
  closing_.clear();
  if (before && parser_.in_reasoning()) ++used_;
}

void ReasoningBudget::end_now() {
  if (limit_ <= used_) return;
  limit_ = used_;
  limit_is_clients_ = true;
}

std::optional<TokenId> ReasoningBudget::forced() {
  if (closing_.empty() && parser_.in_reasoning() && used_ >= limit_) {
    closing_ = closing_tokens();
    if (closing_.empty()) limit_ = kUnlimited;  // the vocabulary cannot express the mark
  }
  if (closing_.empty()) return std::nullopt;
  return closing_.front();
}

std::uint64_t ReasoningBudget::free_tokens() const {
  if (!closing_.empty()) return seen_;
  if (limit_ == kUnlimited) return kUnlimited;
  const std::uint64_t left = limit_ - std::min(limit_, used_);
  if (parser_.in_reasoning()) return seen_ + left;
  return parser_.may_begin_reasoning() ? seen_ + 1 + left : kUnlimited;  // the next token may open it
}

// Encodes the closing text without what an encoder adds at the beginning of a text, such as BOS or a space.
TokenList ReasoningBudget::closing_tokens() const {
  const std::string text = reasoning_end(chat_->reply_format(), tail_);
  TokenList tokens;
  std::size_t at = 0;
  for (const TokenId token : chat_->encode(text)) {
    const std::string bytes = bytes_of_(token);
    if (bytes.empty() || text.compare(at, bytes.size(), bytes) != 0) continue;
    tokens.push_back(token);
    at += bytes.size();
  }
  return at == text.size() ? tokens : TokenList();
}

}  // namespace reprise::protocol
