#pragma once
// What each tenant is using, held against its limits, and what one request has cost of it.
//
// Requests at once are a count. Tokens are a bucket that holds a minute's worth and fills steadily: a request
// is let in while there is anything in it and pays when it has ended, so what it took too much is waited for
// by the next. How many may owe at a time is what the count bounds. Work on texts (tokenising, rendering, compiling
// grammars, making masks) costs a token for each millisecond of the threads that do it.
//
// It remembers a tenant that has limits from its first request on; there are as many as there are keys.
//
// Threading: one thread at a time. The clock is the caller's, so that tests need not wait.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "protocol/http/key_ring.h"
#include "protocol/service.h"
#include "runtime/ticks.h"

namespace reprise::protocol {

struct OverLimit {
  enum class Of : std::uint8_t { kRequests, kTokens } of;
  std::chrono::seconds retry_after;
};

/// What that much text work costs.
inline std::uint64_t tokens_of(const TextTime& time) {
  return time ? time->load(std::memory_order_relaxed) / 1000 : 0;
}

class TenantMeter {
 public:
  /// Counts `requests` more until leave(), or says why not.
  std::optional<OverLimit> enter(const Tenant& tenant, std::uint32_t requests, runtime::TimePoint now);
  void leave(const Tenant& tenant, std::uint32_t requests);
  void pay(const Tenant& tenant, std::uint64_t tokens, runtime::TimePoint now);

 private:
  struct Account {
    std::uint32_t requests = 0;
    double tokens = 0;  // in the bucket; below zero: owed
    runtime::TimePoint filled_at{};
  };
  /// Filled up to now. Of a tenant that has limits.
  Account& account_of(const Tenant& tenant, runtime::TimePoint now);

  std::unordered_map<std::string, Account> accounts_;  // by name
};

/// The tokens that one request has cost so far, by the events of its reply: what was computed of its prompts
/// and what was generated. Done has the sum; a reply that is broken off before is counted as it came, and a
/// prompt of which nothing was heard as computed whole, for nobody knows how far it got. One actor's.
class TokenAccount {
 public:
  /// For a reply to several prompts as one.
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
