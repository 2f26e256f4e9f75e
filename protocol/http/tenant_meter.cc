#include "protocol/http/tenant_meter.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace reprise::protocol {

using runtime::TimePoint;
using Seconds = std::chrono::duration<double>;

namespace {

constexpr double kMinute = 60;
constexpr std::chrono::seconds kShortWait{1};  // the end of a running request cannot be predicted

bool has_limits(const Tenant& tenant) {
  return tenant.requests > 0 || tenant.tokens_per_minute > 0;
}

}  // namespace

TenantMeter::Account& TenantMeter::account_of(const Tenant& tenant, TimePoint now) {
  const auto capacity = static_cast<double>(tenant.tokens_per_minute);
  const auto [found, is_new] = accounts_.try_emplace(tenant.name);
  Account& account = found->second;
  if (is_new) {
    account.tokens = capacity;
    account.filled_at = now;
  }
  const double passed = std::max(0.0, Seconds(now - account.filled_at).count());
  account.tokens = std::min(capacity, account.tokens + capacity * passed / kMinute);
  account.filled_at = std::max(account.filled_at, now);
  return account;
}

std::optional<OverLimit> TenantMeter::enter(const Tenant& tenant, std::uint32_t requests, TimePoint now) {
  if (!has_limits(tenant)) return std::nullopt;
  Account& account = account_of(tenant, now);
  if (tenant.requests > 0 && requests > tenant.requests - std::min(account.requests, tenant.requests)) {
    return OverLimit{OverLimit::Of::kRequests, kShortWait};
  }
  if (tenant.tokens_per_minute > 0 && account.tokens <= 0) {
    const double wait = (1 - account.tokens) * kMinute / static_cast<double>(tenant.tokens_per_minute);
    return OverLimit{OverLimit::Of::kTokens, std::chrono::seconds(std::llround(std::ceil(wait)))};
  }
  account.requests += requests;
  return std::nullopt;
}

void TenantMeter::leave(const Tenant& tenant, std::uint32_t requests) {
  if (!has_limits(tenant)) return;
  Account& account = accounts_.at(tenant.name);
  REPRISE_CHECK(account.requests >= requests, "a tenant's requests ended more often than they began");
  account.requests -= requests;
}

void TenantMeter::pay(const Tenant& tenant, std::uint64_t tokens, TimePoint now) {
  if (tenant.tokens_per_minute == 0) return;
  account_of(tenant, now).tokens -= static_cast<double>(tokens);
}

}  // namespace reprise::protocol
