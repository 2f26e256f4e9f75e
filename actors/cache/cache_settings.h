#pragma once
// What a host may say of the prefix cache of a model.
//
// Threading: plain values.

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace reprise::actors {

using CacheTime = std::chrono::nanoseconds;  // a duration, or since any fixed moment

struct PrefixCacheOptions {
  std::size_t max_entries = 10'000;
  std::size_t max_path_tokens = 16'000'000;
  std::size_t max_namespaces = 10'000;
  std::size_t max_pinned = 16;
  std::size_t max_pinned_of_tenant = 4;   // by pin(), in all of its namespaces
  std::size_t max_per_conversation = 64;  // entries that one conversation has made; 0: no limit
  std::size_t max_in_replies = 8;         // of these, taken while replies were decoded; 0: no limit
  CacheTime ttl{0};                       // since the last use; 0: for ever, as the server has it
  std::uint32_t grid = 1;                 // places at which states can be restored are multiples of it
  bool any_token = false;                 // a state can be cut at every place of the grid
  std::uint32_t worth_waiting = 64;       // tokens that a flight must save to be waited for
};

/// Of the registry that keeps it (actors/cache/prefix_registry.h).
struct RegistrySettings {
  PrefixCacheOptions cache{};
  std::uint64_t budget_bytes = 0;       // 0: all of the state memory
  std::uint32_t min_insert_tokens = 0;  // places before this are not kept; 0: from the model's sizes
  /// Of models with recurrent state, whose every snapshot is a copy, instead of the cache's own; 0: no others.
  CacheTime recurrent_ttl{0};
  std::size_t recurrent_max_entries = 0;
  std::chrono::milliseconds longest_follow{120'000};
};

/// The least tokens that a snapshot must save where a state of `slot_bytes` is copied for each: a token saved may hold
/// kBytesForAToken of it. At most kMostLeastTokens, for beginnings of that length are system prompts. 1: any.
inline constexpr std::uint64_t kBytesForAToken = 2 << 20;
inline constexpr std::uint32_t kMostLeastTokens = 64;
constexpr std::uint32_t least_tokens_for(std::uint64_t slot_bytes) {
  const std::uint64_t tokens = (slot_bytes + kBytesForAToken - 1) / kBytesForAToken;
  return static_cast<std::uint32_t>(tokens < 1 ? 1 : tokens > kMostLeastTokens ? kMostLeastTokens : tokens);
}

/// What holds for a model that has recurrent state, or only attention.
inline RegistrySettings settings_for(RegistrySettings settings, bool attention_alone,
                                     std::uint64_t slot_bytes) {
  if (!attention_alone && settings.recurrent_ttl > CacheTime::zero())
    settings.cache.ttl = settings.recurrent_ttl;
  if (!attention_alone && settings.recurrent_max_entries > 0)
    settings.cache.max_entries = settings.recurrent_max_entries;
  if (settings.min_insert_tokens == 0)
    settings.min_insert_tokens = attention_alone ? 1 : least_tokens_for(slot_bytes);
  return settings;
}

}  // namespace reprise::actors
