#pragma once
// A snapshot as the prefix cache knows it.
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

}  // namespace reprise::actors
