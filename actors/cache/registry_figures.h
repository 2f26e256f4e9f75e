#pragma once
// Counters and gauges of a registry, readable at any time.
//
// Threading: written by the registry, read from any thread. Relaxed: the values are independent of each
// other.

#include <array>
#include <atomic>
#include <cstdint>

#include "protocol/cache_report.h"

namespace reprise::actors {

struct RegistryFigures {
  using Figure = std::atomic<std::uint64_t>;

  Figure lookups{0}, prompt_tokens{0}, restored_tokens{0};
  std::array<Figure, protocol::kMissReasons> by_reason{};
  std::array<Figure, protocol::kMissReasons> lost_tokens{};  // tokens known but not restored
  std::array<Figure, protocol::kOrigins> hits_by_origin{};
  std::array<Figure, protocol::kOrigins> inserts_by_origin{};
  std::array<Figure, protocol::kTiers> brought{};         // states loaded from lower tiers
  std::array<Figure, protocol::kTiers> brought_tokens{};  // and their tokens
  Figure evicted{0}, expired{0}, superseded{0}, self_evicted{0}, followers{0}, capped{0}, thrashed{0};
  Figure exact{0}, partial{0},
      missed{0};  // requests: fully restored up to the grid's last step; partly; not at all
  Figure entries{0}, leases{0}, pinned{0}, flights{0}, path_tokens{0}, namespaces{0}, adopted_bytes{0},
      budget_bytes{0}, index_bytes{0};
  Figure verified{0}, mismatches{0}, unverified{0};    // shadow verification; `unverified`: could not be done
  std::atomic<std::int64_t> oldest_use_ns{INT64_MAX};  // last use of the next entry to be evicted

  /// Call once per request that may read the cache.
  void count_request(const protocol::CacheReport& report, std::uint32_t grid) {
    const std::uint32_t last = report.prompt_tokens == 0 ? 0 : (report.prompt_tokens - 1) / grid * grid;
    Figure& result = report.restored_tokens == 0 ? missed : report.restored_tokens >= last ? exact : partial;
    result.fetch_add(1, std::memory_order_relaxed);
  }
};

}  // namespace reprise::actors
