#include "actors/cache/cache_view.h"

#include <queue>

#include "actors/cache/cache_namespaces.h"
#include "protocol/name_space.h"

namespace reprise::actors {
namespace {

using protocol::ViewedNode;
using protocol::ViewedSpace;

/// A candidate for the view. A walk stamps all nodes on its path, so a parent's stamp is never older than its
/// children's, and nodes come after their parents in order of stamps.
struct NodeToView {
  const PrefixTree::Node* node;
  std::size_t space;
  std::uint32_t parent;

  bool operator<(const NodeToView& other) const { return node->last_walk() < other.node->last_walk(); }
};

std::uint64_t bytes_alone(std::uint32_t tokens, const protocol::StateKind& kind) {
  if (kind.page_tokens == 0) return kind.slot_bytes;
  const std::uint64_t pages = (std::uint64_t{tokens} + kind.page_tokens - 1) / kind.page_tokens;
  return kind.slot_bytes + pages * kind.page_bytes;
}

ViewedNode viewed(const NodeToView& candidate, const PrefixCache& cache, CacheTime now,
                  const protocol::StateKind& kind) {
  const PrefixTree::Node& node = *candidate.node;
  ViewedNode out{.parent = candidate.parent,
                 .depth = node.depth(),
                 .tokens = static_cast<std::uint32_t>(node.edge().size()),
                 .gone = node.tombstone(),
                 .flights = static_cast<std::uint32_t>(node.flights().size())};
  if (const auto entry = node.entry() == 0 ? std::nullopt : cache.find(node.entry())) {
    out.entry = {.origin = entry->origin,
                 .hits = entry->hits,
                 .in_use = entry->leases > 0,
                 .pinned = entry->pinned,
                 .idle_s = std::chrono::duration<double>(now - entry->last_use).count(),
                 .bytes = bytes_alone(entry->length, kind)};
  }
  return out;
}

}  // namespace

protocol::CacheView view_of(const PrefixCache& cache, const protocol::ViewCache& request, CacheTime now,
                            const protocol::StateKind& kind) {
  protocol::CacheView view;
  const CacheNamespaces& namespaces = cache.namespaces();
  std::vector<ViewedSpace> spaces;
  std::priority_queue<NodeToView> candidates;
  const auto add_children = [&](const PrefixTree::Node* node, std::size_t space, std::uint32_t parent) {
    node->for_each_child([&](const PrefixTree::Node* child) { candidates.push({child, space, parent}); });
  };
  for (const std::string& name : namespaces.names_from({})) {
    if (!request.scope.sees(name)) continue;
    ++view.spaces_in_all;
    const PrefixTree::Node* root = namespaces.find(name)->root;
    const protocol::NameSpaceParts parts = protocol::parts_of(name);
    spaces.push_back({.owner = std::string(parts.owner),
                      .salted = parts.salted,
                      .of_adapter = parts.of_adapter,
                      .entries = root->count(PrefixTree::kEntry)});
    add_children(root, spaces.size() - 1, ViewedNode::kNoParent);
  }
  for (std::uint32_t shown = 0; !candidates.empty(); ++shown) {
    if (shown == request.max_nodes) {
      view.cut = true;
      break;
    }
    const NodeToView newest = candidates.top();
    candidates.pop();
    std::vector<ViewedNode>& nodes = spaces[newest.space].nodes;
    nodes.push_back(viewed(newest, cache, now, kind));
    add_children(newest.node, newest.space, static_cast<std::uint32_t>(nodes.size() - 1));
  }
  for (ViewedSpace& space : spaces) {
    if (!space.nodes.empty()) view.spaces.push_back(std::move(space));
  }
  return view;
}

}  // namespace reprise::actors
