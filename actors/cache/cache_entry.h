#pragma once
// A snapshot as the prefix cache knows it, and what the index of such entries weighs.
//
// Threading: the owner of the cache.

#include <chrono>
#include <compare>
#include <cstdint>

#include "actors/cache/prefix_tree.h"
#include "protocol/cache_report.h"

namespace reprise::actors {

struct CacheNamespace;

/// As an eviction policy tells entries apart.
struct EntryKind {
  bool shared = false;  // several prompts go on from it
  bool hit = false;
  auto operator<=>(const EntryKind&) const = default;
};

struct CacheEntry {
  std::uint64_t id = 0;
  std::uint64_t snapshot = 0;
  std::uint32_t length = 0;
  protocol::Origin origin{};
  std::uint64_t conversation = 0;
  std::uint64_t request = 0;
  bool pinned = false;
  std::chrono::nanoseconds ttl{0};  // its own, since the last use; 0: the cache's alone

  std::chrono::nanoseconds last_use{0};  // its making counts as one
  std::uint64_t use_order = 0;           // among uses at one time
  std::uint32_t hits = 0;
  std::uint32_t leases = 0;

  CacheNamespace* home = nullptr;
  PrefixTree::Node* node = nullptr;  // null: superseded, and out of the tree, but leased

  EntryKind kind{};     // as it was when it was queued last
  bool queued = false;  // in the eviction queue
};

// What the cache's own index weighs: the tree of prompts and the list of entries, beside the snapshots themselves. It
// is memory like any other and counts in the budget. Counted, not asked for: nodes and entries have a fixed weight, tokens
// their own. A test compares the sum with what the allocator gave (tests/actors/cache_bytes_test.cc).

/// A node with its place among its parent's children and, for most, in the order of idle leaves.
inline constexpr std::uint64_t kNodeBytes = sizeof(PrefixTree::Node) + 96;
/// An entry with its places in the hash table, the eviction queue and its conversation.
inline constexpr std::uint64_t kEntryBytes = sizeof(CacheEntry) + 120;

constexpr std::uint64_t index_bytes(std::uint64_t nodes, std::uint64_t tokens, std::uint64_t entries) {
  return nodes * kNodeBytes + tokens * sizeof(TokenId) + entries * kEntryBytes;
}

}  // namespace reprise::actors
