#pragma once
// What a model's cache looks like to people: the tree of prompts with lengths, places and ages, and never a token of
// what they say.
//
// Threading: plain values; a message to the registry of prefixes.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/cache_report.h"

namespace reprise::protocol {

/// Whose prompts may be seen.
struct CacheScope {
  bool all = false;           // everybody's
  std::string cache_owner{};  // else this one's (protocol/http/key_ring.h); where it is empty, what all share

  /// Of a namespace, as requests have them: protocol/http/key_ring.h's, behind that of an adapter.
  bool sees(std::string_view name_space) const;
};

/// A snapshot at the end of a node.
struct ViewedEntry {
  Origin origin = Origin::kSpaced;
  std::uint32_t hits = 0;
  bool in_use = false;
  bool pinned = false;
  double idle_s = 0;  // since its last use; its making counts as one
  std::uint64_t bytes =
      0;  // that it would take alone; pages are shared, so that the sum is more than all take
};

/// A stretch of prompts that nothing parts.
struct ViewedNode {
  static constexpr std::uint32_t kNoParent = UINT32_MAX;

  std::uint32_t parent = kNoParent;  // an earlier one of the list
  std::uint32_t depth = 0;           // tokens from the beginning to its end
  std::uint32_t tokens = 0;          // of its own
  std::optional<ViewedEntry> entry{};
  MissReason gone = MissReason::kNone;  // how the last snapshot here went; kNone: none has
  std::uint32_t flights = 0;            // prompts that end here and are being computed
};

struct ViewedSpace {
  std::string owner{};  // as name spaces have it; empty: nobody's, or everybody's
  bool salted = false;  // with a cache_salt, which is not told
  bool of_adapter = false;
  std::uint32_t entries = 0;
  std::vector<ViewedNode> nodes{};  // parents before their children
};

struct CacheView {
  std::vector<ViewedSpace> spaces{};
  std::uint32_t spaces_in_all = 0;  // in the scope
  bool cut = false;                 // there is more than was asked for at most
};

/// To a registry (actors/cache/prefix_registry.h).
struct ViewCache {
  using Reply = CacheView;
  CacheScope scope{};
  std::uint32_t most_nodes = 0;  // those that were walked last
};

}  // namespace reprise::protocol
