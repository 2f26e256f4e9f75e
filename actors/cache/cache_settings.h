#pragma once
// What a host may say of the prefix cache of a model.
//
// Threading: plain values.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace reprise::actors {

using CacheTime = std::chrono::nanoseconds;  // a duration, or since any fixed moment

struct PrefixCacheOptions {
  std::size_t max_entries = 10'000;
  std::size_t max_path_tokens = 16'000'000;
  std::size_t max_namespaces = 10'000;
  std::size_t max_pinned = 16;
  CacheTime ttl = std::chrono::hours(24);  // since the last use; 0: for ever
  std::uint32_t grid = 1;                  // places at which states can be restored are multiples of it
  bool any_token = false;                  // a state can be cut at every place of the grid
  std::uint32_t worth_waiting = 64;        // tokens that a flight must save to be waited for
  std::string policy = "lru";              // by name; see eviction_policy.h
};

/// Of the registry that keeps it (actors/cache/prefix_registry.h).
struct RegistrySettings {
  PrefixCacheOptions cache{.policy = "forks"};  // docs/replay.md says why
  std::uint64_t budget_bytes = 0;               // 0: all of the state memory
  std::chrono::milliseconds longest_follow{120'000};
};

}  // namespace reprise::actors
