#pragma once
// What a registry lets everyone see at any time.
//
// Threading: written by the registry, read by anybody. Relaxed throughout: each number stands for itself.

#include <array>
#include <atomic>
#include <cstdint>

#include "protocol/cache_report.h"

namespace reprise::actors {

struct RegistryFigures {
  using Figure = std::atomic<std::uint64_t>;

  Figure lookups{0}, prompt_tokens{0}, restored_tokens{0};
  std::array<Figure, protocol::kMissReasons> by_reason{};
  std::array<Figure, protocol::kMissReasons> lost_tokens{};  // known, and not restored
  std::array<Figure, protocol::kOrigins> hits_by_origin{};
  std::array<Figure, protocol::kOrigins> inserts_by_origin{};
  std::array<Figure, protocol::kTiers> brought{};         // states that a tier below brought,
  std::array<Figure, protocol::kTiers> brought_tokens{};  // and their tokens
  Figure evicted{0}, expired{0}, superseded{0}, self_evicted{0}, followers{0}, capped{0}, thrashed{0};
  Figure exact{0}, partial{0},
      missed{0};  // requests: restored but for the last step of the grid; in part; not at all
  Figure entries{0}, leases{0}, pinned{0}, flights{0}, path_tokens{0}, namespaces{0}, adopted_bytes{0},
      budget_bytes{0}, index_bytes{0};
  Figure verified{0}, mismatches{0}, unverified{0};    // shadow verification; the last: could not be done
  std::atomic<std::int64_t> oldest_use_ns{INT64_MAX};  // of the entry that would go first

  /// Once for every request that may read the cache.
  void count_request(const protocol::CacheReport& report, std::uint32_t grid) {
    const std::uint32_t last = report.prompt_tokens == 0 ? 0 : (report.prompt_tokens - 1) / grid * grid;
    Figure& result = report.restored_tokens == 0 ? missed : report.restored_tokens >= last ? exact : partial;
    result.fetch_add(1, std::memory_order_relaxed);
  }
};

}  // namespace reprise::actors
