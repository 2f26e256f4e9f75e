#pragma once
// What the cache's own index weighs: the tree of prompts and the list of entries, beside the snapshots themselves. It
// is memory like any other and counts in the budget.
//
// Counted, not asked for: nodes and entries have a fixed weight, tokens their own. A test compares the sum with what
// the allocator gave (tests/actors/cache_bytes_test.cc).
//
// Threading: pure functions.

#include <cstdint>

#include "actors/cache/cache_entry.h"
#include "actors/cache/prefix_tree.h"

namespace reprise::actors {

/// A node with its place among its parent's children and, for most, in the order of idle leaves.
inline constexpr std::uint64_t kNodeBytes = sizeof(PrefixTree::Node) + 96;
/// An entry with its places in the hash table, the eviction queue and its conversation.
inline constexpr std::uint64_t kEntryBytes = sizeof(CacheEntry) + 120;

constexpr std::uint64_t index_bytes(std::uint64_t nodes, std::uint64_t tokens, std::uint64_t entries) {
  return nodes * kNodeBytes + tokens * sizeof(TokenId) + entries * kEntryBytes;
}

}  // namespace reprise::actors
