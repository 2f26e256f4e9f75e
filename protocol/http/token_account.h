#pragma once
// The tokens that one request has cost so far, by the events of its reply: what was computed of its prompts
// and what was generated. Done has the sum; a reply that is broken off before is counted as it came, and a
// prompt of which nothing was heard as computed whole, for nobody knows how far it got.
//
// Threading: one actor's.

#include <cstdint>

#include "protocol/service.h"

namespace reprise::protocol {

class TokenAccount {
 public:
  /// For a reply to several prompts as one (protocol/http/prompt_merge.h).
  void expect_prompts(std::uint32_t prompts) { unheard_ = prompts; }

  void see(const Event& event) {
    if (const auto* admitted = std::get_if<Admitted>(&event)) {
      prompt_tokens_ = admitted->prompt_tokens;  // of the first, taken for all
      heard_.prompt_tokens = admitted->prompt_tokens;
    } else if (const auto* started = std::get_if<Started>(&event)) {
      computed_ += started->cache.prefilled_tokens;
      heard_.cache.prefilled_tokens += started->cache.prefilled_tokens;
      heard_.cache.restored_tokens += started->cache.restored_tokens;
      if (unheard_ > 0) --unheard_;
    } else if (const auto* delta = std::get_if<Delta>(&event)) {
      computed_ += delta->tokens.size();
      heard_.completion_tokens += static_cast<std::uint32_t>(delta->tokens.size());
    } else if (const auto* done = std::get_if<Done>(&event)) {
      computed_ = std::uint64_t{done->usage.cache.prefilled_tokens} + done->usage.completion_tokens;
      unheard_ = 0;
    }
  }

  std::uint64_t tokens() const { return computed_ + unheard_ * prompt_tokens_; }

  /// The tokens of a reply that is broken off; its times are not known.
  const Usage& heard() const { return heard_; }

 private:
  Usage heard_{};
  std::uint64_t computed_ = 0;
  std::uint64_t unheard_ = 1;        // prompts whose Started has not come
  std::uint64_t prompt_tokens_ = 0;  // of each of those; 0 before the request is admitted
};

}  // namespace reprise::protocol
