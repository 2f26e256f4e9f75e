#pragma once
// A prefix cache with shorthands for tests: one namespace, prompts as lists, time in seconds.

#include <gtest/gtest.h>

#include <initializer_list>
#include <numeric>
#include <vector>

#include "actors/cache/prefix_cache.h"
#include "tests/actors/token_lists.h"
#include "tools/lab/replay_policies.h"

namespace reprise::actors {

/// Returns `count` tokens: first, first + 1, ...
inline List run_of(TokenId first, std::size_t count) {
  List list(count);
  std::iota(list.begin(), list.end(), first);
  return list;
}

struct CacheFixture : ::testing::Test {
  PrefixCacheOptions options;
  std::unique_ptr<EvictionPolicy> policy = std::make_unique<tools::LruPolicy>();
  std::unique_ptr<PrefixCache> made;
  int second = 0;
  std::uint64_t last_snapshot = 100;

  PrefixCache& cache() {
    if (!made) made = std::make_unique<PrefixCache>(options, std::move(policy));
    return *made;
  }
  CacheTime now() { return std::chrono::seconds(++second); }

  Found look(const List& prompt, std::uint32_t min = 0) {
    const Found found = cache().lookup("", prompt, min, now());
    if (found.restore) {
      EXPECT_FALSE(cache().release(found.restore->entry).has_value());
    }
    return found;
  }
  /// Makes the prompt's path known without an entry.
  void see(const List& prompt) { cache().end_flight(cache().begin_flight("", prompt, now())); }

  NewEntry entry(std::uint32_t length, Origin origin = Origin::kPromptEnd, Conversation conversation = 0,
                 std::uint64_t request = 0) {
    return {++last_snapshot, length, origin, conversation, request, false};
  }
  EntryId put(const List& tokens, Origin origin = Origin::kPromptEnd) {
    return cache().insert("", tokens, entry(tokens.size(), origin), now()).entry;
  }

  /// Evicts all entries; returns them in order of eviction.
  std::vector<EntryId> evict_all(bool allow_pinned = true) {
    std::vector<EntryId> order;
    const CacheTime time = now();
    while (const auto victim = cache().least_valuable(time, allow_pinned)) {
      order.push_back(victim->id);
      EXPECT_TRUE(cache().remove(victim->id, MissReason::kEvicted));
    }
    return order;
  }
};

}  // namespace reprise::actors
