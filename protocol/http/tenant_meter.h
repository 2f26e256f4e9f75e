#pragma once
// Measures each tenant's usage against its limits, and the cost of single requests.
//
// Concurrent requests are counted. Tokens are a token bucket that holds one minute's worth: a request is
// admitted while the bucket is not empty and pays when it has ended; debt delays later requests. The limit on
// concurrent requests bounds how many can run into debt at once. Text work (tokenizing, rendering, compiling
// grammars, computing masks) costs one token per millisecond of thread time.
//
// An account is kept for each tenant that has limits, so there are at most as many as keys.
//
// Threading: one thread at a time. The caller passes the time, so that tests need not wait.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "protocol/http/key_ring.h"
#include "protocol/service.h"
#include "runtime/detail/ticks.h"

namespace reprise::protocol {

struct OverLimit {
  enum class Of : std::uint8_t { kRequests, kTokens } of;
  std::chrono::seconds retry_after;
};

inline std::uint64_t tokens_of(const TextTime& time) {
  return time ? time->load(std::memory_order_relaxed) / 1000 : 0;
}

class TenantMeter {
 public:
  /// Counts `requests` more until leave(), or returns the limit they exceed.
  std::optional<OverLimit> enter(const Tenant& tenant, std::uint32_t requests, runtime::TimePoint now);
  void leave(const Tenant& tenant, std::uint32_t requests);
  void pay(const Tenant& tenant, std::uint64_t tokens, runtime::TimePoint now);

 private:
  struct Account {
    std::uint32_t requests = 0;
    double tokens = 0;  // bucket level; negative: debt
    runtime::TimePoint filled_at{};
  };
  /// Returns the account, filled up to `now`. Requires: the tenant has limits.
  Account& account_of(const Tenant& tenant, runtime::TimePoint now);

  std::unordered_map<std::string, Account> accounts_;
};

/// The tokens one request has cost so far, computed from its reply's events: prefilled and generated. Done
/// carries the totals. A reply that is broken off counts the tokens reported so far; a prompt without a
/// Started event counts as fully prefilled, because its progress is unknown. Used by one actor.
class TokenAccount {
 public:
  /// Call for a merged reply to several prompts.
  void expect_prompts(std::uint32_t prompts) { unheard_ = prompts; }

  void see(const Event& event) {
    if (const auto* admitted = std::get_if<Admitted>(&event)) {
      prompt_tokens_ = admitted->prompt_tokens;  // the first prompt's, assumed for all
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

  /// Returns the tokens of a reply that was broken off; its times are unset.
  const Usage& heard() const { return heard_; }

 private:
  Usage heard_{};
  std::uint64_t computed_ = 0;
  std::uint64_t unheard_ = 1;        // prompts without a Started event
  std::uint64_t prompt_tokens_ = 0;  // per such prompt; 0 before the request is admitted
};

}  // namespace reprise::protocol
