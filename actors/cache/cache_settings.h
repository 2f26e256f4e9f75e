#pragma once
// The settings of a model's prefix cache.

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace reprise::actors {

using CacheTime = std::chrono::nanoseconds;  // a duration, or the time since a fixed moment

struct PrefixCacheOptions {
  std::size_t max_entries = 10'000;
  std::size_t max_path_tokens = 16'000'000;
  std::size_t max_namespaces = 10'000;
  std::size_t max_pinned = 16;
  std::size_t max_pinned_of_tenant = 4;   // by pin(), in all of its namespaces
  std::size_t max_per_conversation = 64;  // entries created by one conversation; 0: unlimited
  std::size_t max_in_replies = 8;         // of these, taken inside replies; 0: unlimited
  CacheTime ttl{0};                       // since the last use; 0: unlimited
  std::uint32_t grid = 1;                 // states can be restored at multiples of it
  bool any_token = false;                 // a state can be cut at every multiple of the grid
  std::uint32_t worth_waiting = 64;       // tokens that a flight must save to be waited for
};

/// Settings of the registry (actors/cache/prefix_registry.h).
struct RegistrySettings {
  PrefixCacheOptions cache{};
  std::uint64_t budget_bytes = 0;  // 0: all state memory
  /// Override the cache's TTL and max_entries for models with recurrent state, where every snapshot is a
  /// copy; 0: no override.
  CacheTime recurrent_ttl{0};
  std::size_t recurrent_max_entries = 0;
  std::chrono::milliseconds max_follow{120'000};
};

/// Returns the settings for an attention-only model, or one with recurrent state.
inline RegistrySettings settings_for(RegistrySettings settings, bool attention_alone) {
  if (!attention_alone && settings.recurrent_ttl > CacheTime::zero())
    settings.cache.ttl = settings.recurrent_ttl;
  if (!attention_alone && settings.recurrent_max_entries > 0)
    settings.cache.max_entries = settings.recurrent_max_entries;
  return settings;
}

}  // namespace reprise::actors
