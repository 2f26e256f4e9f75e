// The invariants of the tree, counted anew.
#include <vector>

#include "actors/cache/prefix_tree.h"
#include "base/check.h"

namespace reprise::actors {

using protocol::MissReason;

void PrefixTree::check() const {
  std::uint64_t nodes = 0, tokens = 0, covered = 0;
  std::size_t idle_leaves = 0;
  std::vector<const Node*> waiting(roots_.begin(), roots_.end());
  while (!waiting.empty()) {
    const Node* node = waiting.back();
    waiting.pop_back();
    ++nodes;
    tokens += node->edge_.size();
    covered += node->count(kEntry) > 0 ? node->edge_.size() : 0;
    if (node->parent_ != nullptr) {
      REPRISE_CHECK(!node->edge_.empty(), "a node's edge has no tokens");
      REPRISE_CHECK(node->depth_ == node->parent_->depth_ + node->edge_.size(),
                    "a node's depth is not its parent's depth plus its edge");
      REPRISE_CHECK(node->stamp_ <= node->parent_->stamp_, "a node was used later than its parent");
      REPRISE_CHECK(!carries_nothing(node) || node->children_.size() != 1,
                    "an empty node with one child was not merged");
    }
    if (idle(node)) {
      ++idle_leaves;
      const auto at = idle_.find(node->stamp_);
      REPRISE_CHECK(at != idle_.end() && at->second == node,
                    "an idle leaf is missing from the list of idle leaves");
    }
    std::array<std::uint64_t, kKinds> counted = {node->entry_ != 0 ? 1u : 0u, node->flights_.size(),
                                                 node->tombstone_ != MissReason::kNone ? 1u : 0u};
    std::array<std::size_t, kKinds> listed{};
    node->children_.for_each([&](const Node* child) {
      REPRISE_CHECK(child->parent_ == node && node->children_.find(child->edge_.front()) == child,
                    "a child's parent or key does not match the parent's list");
      for (std::size_t kind = 0; kind < kKinds; ++kind) {
        counted[kind] += child->below_[kind].count;
        listed[kind] += child->below_[kind].count > 0 ? 1 : 0;
      }
      waiting.push_back(child);
    });
    for (std::size_t kind = 0; kind < kKinds; ++kind) {
      REPRISE_CHECK(counted[kind] == node->below_[kind].count,
                    "a node's counter is not the sum over its subtree");
      const Node* previous = nullptr;
      for (const Node* child = node->below_[kind].first; child; child = child->below_[kind].next) {
        REPRISE_CHECK(child->below_[kind].count > 0 && listed[kind]-- > 0,
                      "a child with nothing of the kind is in the list, or the list is too long");
        REPRISE_CHECK(child->below_[kind].previous == previous, "a child's back link is wrong");
        previous = child;
      }
      REPRISE_CHECK(listed[kind] == 0 && node->below_[kind].last == previous,
                    "children with something of the kind are missing from the list");
    }
  }
  REPRISE_CHECK(nodes == nodes_, "the count of nodes is wrong");
  REPRISE_CHECK(tokens == tokens_, "the count of tokens is wrong");
  REPRISE_CHECK(covered == covered_, "the count of covered tokens is wrong");
  REPRISE_CHECK(idle_leaves == idle_.size(), "the list of idle leaves has nodes that are no idle leaves");
}

}  // namespace reprise::actors
