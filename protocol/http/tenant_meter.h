#pragma once
// What each tenant is using, held against its limits.
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

#include "protocol/http/tenant.h"
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

}  // namespace reprise::protocol
