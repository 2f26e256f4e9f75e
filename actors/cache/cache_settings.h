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
  std::uint64_t budget_bytes = 0;       // 0: all state memory
  std::uint32_t min_insert_tokens = 0;  // minimum length of entries; 0: from the model's sizes
  /// Override the cache's TTL and max_entries for models with recurrent state, where every snapshot is a
  /// copy; 0: no override.
  CacheTime recurrent_ttl{0};
  std::size_t recurrent_max_entries = 0;
  std::chrono::milliseconds max_follow{120'000};
};

/// Returns the minimum length of a snapshot if each copies a state of `slot_bytes`: one token per
/// kBytesForAToken, so that the tokens saved justify the copy. At most kMaxMinTokens, the length of short
/// system prompts. 1: no minimum.
inline constexpr std::uint64_t kBytesForAToken = 2 << 20;
inline constexpr std::uint32_t kMaxMinTokens = 64;
constexpr std::uint32_t min_tokens_for(std::uint64_t slot_bytes) {
  const std::uint64_t tokens = (slot_bytes + kBytesForAToken - 1) / kBytesForAToken;
  return static_cast<std::uint32_t>(tokens < 1 ? 1 : tokens > kMaxMinTokens ? kMaxMinTokens : tokens);
}

/// Returns the settings for an attention-only model, or one with recurrent state.
inline RegistrySettings settings_for(RegistrySettings settings, bool attention_alone,
                                     std::uint64_t slot_bytes) {
  if (!attention_alone && settings.recurrent_ttl > CacheTime::zero())
    settings.cache.ttl = settings.recurrent_ttl;
  if (!attention_alone && settings.recurrent_max_entries > 0)
    settings.cache.max_entries = settings.recurrent_max_entries;
  if (settings.min_insert_tokens == 0)
    settings.min_insert_tokens = attention_alone ? 1 : min_tokens_for(slot_bytes);
  return settings;
}

}  // namespace reprise::actors
