#pragma once
// CacheView: a description of a model's prefix cache for operators and tenants: the tree of prompts with
// lengths, positions and ages, without any token or text. The registry answers ViewCache with it.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/cache_report.h"

namespace reprise::protocol {

/// Selects whose prompts may be shown.
struct CacheScope {
  bool all = false;           // all owners
  std::string cache_owner{};  // otherwise this owner (protocol/http/key_ring.h); empty: the shared cache

  /// Returns whether the scope includes a request's namespace (name_space.h).
  bool sees(std::string_view name_space) const;
};

/// A snapshot at the end of a node.
struct ViewedEntry {
  Origin origin = Origin::kSpaced;
  std::uint32_t hits = 0;
  bool in_use = false;
  bool pinned = false;
  double idle_s = 0;        // since the last use or the creation
  std::uint64_t bytes = 0;  // size without sharing; as snapshots share pages, the sum exceeds the memory used
};

/// A run of tokens without a branch.
struct ViewedNode {
  static constexpr std::uint32_t kNoParent = UINT32_MAX;

  std::uint32_t parent = kNoParent;  // index of an earlier node of the list
  std::uint32_t depth = 0;           // tokens from the root to the end of the node
  std::uint32_t tokens = 0;          // tokens of this node alone
  std::optional<ViewedEntry> entry{};
  MissReason gone = MissReason::kNone;  // why the last snapshot here was removed; kNone: there was none
  std::uint32_t flights = 0;            // prompts being computed that end here
};

struct ViewedSpace {
  std::string owner{};  // cache owner of the namespace; empty: none, or shared
  bool salted = false;  // has a cache_salt, whose value is not shown
  bool of_adapter = false;
  std::uint32_t entries = 0;
  std::vector<ViewedNode> nodes{};  // parents before children
};

struct CacheView {
  std::vector<ViewedSpace> spaces{};
  std::uint32_t spaces_in_all = 0;  // number of namespaces in the scope
  bool cut = false;                 // true: nodes were left out
};

/// A message to a registry (actors/cache/prefix_registry.h).
struct ViewCache {
  using Reply = CacheView;
  CacheScope scope{};
  std::uint32_t max_nodes = 0;  // maximum; the most recently used are returned
};

}  // namespace reprise::protocol
