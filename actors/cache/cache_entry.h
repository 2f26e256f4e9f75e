#pragma once
// A cached snapshot's entry in the prefix cache, and the memory cost of the index of entries.
//
// Threading: the owner of the cache.

#include <chrono>
#include <compare>
#include <cstdint>

#include "actors/cache/prefix_tree.h"
#include "protocol/cache_report.h"

namespace reprise::actors {

struct CacheNamespace;

/// The classes of entries that an eviction policy distinguishes.
struct EntryKind {
  bool shared = false;  // several prompts continue from it
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
  std::chrono::nanoseconds ttl{0};  // since the last use, in addition to the cache's; 0: none

  std::chrono::nanoseconds last_use{0};  // creation counts as a use
  std::uint64_t use_order = 0;
  std::uint32_t hits = 0;
  std::uint32_t leases = 0;

  CacheNamespace* home = nullptr;
  PrefixTree::Node* node = nullptr;  // null: superseded, no longer in the tree, but leased

  EntryKind kind{};  // when it was last queued
  bool queued = false;
};

// The cache's index, i.e. the tree of prompts and the entries, counts in the memory budget together with the
// snapshots. Its size is computed, not measured: a fixed weight per node and entry, and the tokens.
// tests/actors/cache_bytes_test.cc compares it with the allocator's figures.

/// A node, including its link in the parent's children and, usually, in the order of idle leaves.
inline constexpr std::uint64_t kNodeBytes = sizeof(PrefixTree::Node) + 96;
/// An entry, including its nodes in the hash table, the eviction queue and its conversation.
inline constexpr std::uint64_t kEntryBytes = sizeof(CacheEntry) + 120;

constexpr std::uint64_t index_bytes(std::uint64_t nodes, std::uint64_t tokens, std::uint64_t entries) {
  return nodes * kNodeBytes + tokens * sizeof(TokenId) + entries * kEntryBytes;
}

}  // namespace reprise::actors
