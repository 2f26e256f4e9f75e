#include "actors/cache/prefix_tree.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace reprise::actors {

using protocol::MissReason;

namespace {

// Returns the length of the common prefix of two sequences of `n`. Compares whole blocks by memcmp, which is
// vectorized.
std::size_t common_prefix(const TokenId* a, const TokenId* b, std::size_t n) {
  constexpr std::size_t kBlock = 128;
  std::size_t i = 0;
  while (n - i >= kBlock && std::memcmp(a + i, b + i, kBlock * sizeof(TokenId)) == 0) i += kBlock;
  while (i < n && a[i] == b[i]) ++i;
  return i;
}

}  // namespace

PrefixTree::~PrefixTree() {
  for (Node* root : roots_) drop_subtree(root);
}

PrefixTree::Node* PrefixTree::add_root() {
  Node* root = new Node;
  ++nodes_;
  roots_.insert(root);
  return root;
}

void PrefixTree::drop_root(Node* root) {
  REPRISE_CHECK(root->count(kEntry) == 0 && root->count(kFlight) == 0,
                "a root was dropped that still has entries or flights");
  REPRISE_CHECK(roots_.erase(root) == 1, "an unknown root is dropped");
  drop_subtree(root);
}

void PrefixTree::drop_subtree(Node* top) {
  std::vector<Node*> waiting{top};
  while (!waiting.empty()) {
    Node* node = waiting.back();
    waiting.pop_back();
    node->children_.for_each([&](Node* child) { waiting.push_back(child); });
    if (idle(node)) idle_.erase(node->stamp_);
    tokens_ -= node->edge_.size();
    --nodes_;
    delete node;
  }
}

// -- positions

PrefixTree::Position PrefixTree::match(Node* root, Tokens tokens) const {
  Node* node = root;
  std::size_t depth = 0;
  while (depth < tokens.size()) {
    Node* child = node->children_.find(tokens[depth]);
    if (child == nullptr) break;
    const auto& edge = child->edge_;
    depth += common_prefix(edge.data(), tokens.data() + depth, std::min(edge.size(), tokens.size() - depth));
    node = child;
    if (depth < child->depth_) break;
  }
  return {node, static_cast<std::uint32_t>(depth)};
}

PrefixTree::Position PrefixTree::above(Position position, std::uint32_t depth) {
  REPRISE_CHECK(depth <= position.depth,
                "the requested ancestor is deeper than the node it was requested for");
  Node* node = position.node;
  while (node->parent_ != nullptr && node->parent_->depth_ >= depth) node = node->parent_;
  return {node, depth};
}

PrefixTree::Position PrefixTree::deepest_with(Position position, Kind kind) {
  if (position.node->count(kind) > 0) return position;
  Node* node = position.node;
  while (node->parent_ != nullptr && node->count(kind) == 0) node = node->parent_;
  return {node, node->depth_};
}

PrefixTree::Node* PrefixTree::find_below(Node* node, Kind kind) {
  REPRISE_CHECK(node->count(kind) > 0, "the subtree has nothing of the kind that was searched for");
  const auto carries = [kind](const Node* candidate) {
    if (kind == kEntry) return candidate->entry_ != 0;
    if (kind == kFlight) return !candidate->flights_.empty();
    return candidate->tombstone_ != MissReason::kNone;
  };
  while (!carries(node)) node = node->below_[kind].first;
  return node;
}

// -- paths

PrefixTree::Node* PrefixTree::walk(Node* root, Tokens tokens, Stamp stamp) {
  const Position position = match(root, tokens);
  touch(position, stamp);
  Node* node = position.node;
  if (position.depth < node->depth_) node = split(node, position.depth, stamp);
  const Tokens rest = tokens.subspan(position.depth);
  if (rest.empty()) return node;
  if (node->parent_ != nullptr && node->leaf() && carries_nothing(node)) {  // extend the leaf in place
    node->edge_.reserve(node->edge_.size() + rest.size());
    node->edge_.insert(node->edge_.end(), rest.begin(), rest.end());
    node->depth_ += static_cast<std::uint32_t>(rest.size());
    tokens_ += rest.size();
    return node;
  }
  const bool was_idle = idle(node);
  Node* leaf = add_leaf(node, rest, stamp);
  if (was_idle) idle_.erase(node->stamp_);
  add_idle(leaf);
  return leaf;
}

void PrefixTree::touch(Position position, Stamp stamp) {
  Node* node = position.depth == position.node->depth_ ? position.node : position.node->parent_;
  Node* leaf = idle(node) ? node : nullptr;
  if (leaf != nullptr) idle_.erase(leaf->stamp_);
  for (; node != nullptr; node = node->parent_) node->stamp_ = stamp;
  if (leaf != nullptr) add_idle(leaf);
}

void PrefixTree::bury(Position position, MissReason tombstone, Stamp stamp) {
  REPRISE_CHECK(position.depth > 0, "a tombstone was put at a root");
  touch(position, stamp);
  Node* node = position.node;
  if (position.depth < node->depth_) node = split(node, position.depth, stamp);
  set_tombstone(node, tombstone);
}

PrefixTree::Node* PrefixTree::trim() {
  REPRISE_CHECK(!idle_.empty(), "there is no idle leaf to trim");
  Node* leaf = idle_.begin()->second;
  idle_.erase(idle_.begin());
  if (leaf->tombstone_ != MissReason::kNone) count_down(leaf, kTombstone);
  Node* parent = leaf->parent_;
  parent->children_.erase(leaf->edge_.front());
  tokens_ -= leaf->edge_.size();
  --nodes_;
  delete leaf;
  if (parent->parent_ == nullptr) return parent->leaf() ? parent : nullptr;
  settle(parent);
  return nullptr;
}

// -- items of nodes

void PrefixTree::set_entry(Node* node, std::uint64_t entry) {
  REPRISE_CHECK(node->entry_ == 0 && entry != 0, "a node was given a second entry, or an empty one");
  REPRISE_CHECK(node->parent_ != nullptr, "an entry was put at a root, where it has no tokens");
  if (idle(node)) idle_.erase(node->stamp_);
  node->entry_ = entry;
  if (node->tombstone_ != MissReason::kNone) set_tombstone(node, MissReason::kNone);
  count_up(node, kEntry);
}

void PrefixTree::clear_entry(Node* node, MissReason tombstone, const EntryBurial& burial) {
  REPRISE_CHECK(node->entry_ != 0, "an entry was cleared at a node that has none");
  node->entry_ = 0;
  count_down(node, kEntry);
  if (tombstone != MissReason::kNone) set_tombstone(node, tombstone);
  node->burial_ = burial;
  settle(node);
}

void PrefixTree::use_entry(Node* node) {
  prefer(node, kEntry);
}

void PrefixTree::add_flight(Node* node, std::uint64_t flight) {
  if (idle(node)) idle_.erase(node->stamp_);
  node->flights_.push_back(flight);
  count_up(node, kFlight);
}

void PrefixTree::remove_flight(Node* node, std::uint64_t flight) {
  const auto at = std::find(node->flights_.begin(), node->flights_.end(), flight);
  REPRISE_CHECK(at != node->flights_.end(), "a flight was removed at a node that does not have it");
  node->flights_.erase(at);
  count_down(node, kFlight);
  settle(node);
}

void PrefixTree::set_tombstone(Node* node, MissReason tombstone) {
  const MissReason before = std::exchange(node->tombstone_, tombstone);
  if (before == MissReason::kNone) {
    count_up(node, kTombstone);
  } else if (tombstone == MissReason::kNone) {
    count_down(node, kTombstone);
  } else {
    prefer(node, kTombstone);
  }
}

// -- counting

void PrefixTree::count_up(Node* node, Kind kind) {
  for (; node != nullptr; node = node->parent_) {
    const bool first = node->below_[kind].count++ == 0;
    if (first && kind == kEntry) covered_ += node->edge_.size();
    if (node->parent_ == nullptr) return;
    if (!first && kind == kFlight) continue;  // the oldest stays first
    if (!first) unlink(node, kind);
    link(node, kind);
  }
}

void PrefixTree::count_down(Node* node, Kind kind) {
  for (; node != nullptr; node = node->parent_) {
    if (--node->below_[kind].count > 0) continue;
    if (kind == kEntry) covered_ -= node->edge_.size();
    if (node->parent_ != nullptr) unlink(node, kind);
  }
}

void PrefixTree::prefer(Node* node, Kind kind) {
  for (; node->parent_ != nullptr; node = node->parent_) {
    if (node->parent_->below_[kind].first == node) continue;
    unlink(node, kind);
    link(node, kind);
  }
}

// Links the node into its parent's list: flights at the back, so that the oldest is first; others at the
// front.
void PrefixTree::link(Node* node, Kind kind) {
  Node::Below& own = node->below_[kind];
  Node::Below& list = node->parent_->below_[kind];
  const bool back = kind == kFlight;
  own.previous = back ? list.last : nullptr;
  own.next = back ? nullptr : list.first;
  (own.previous != nullptr ? own.previous->below_[kind].next : list.first) = node;
  (own.next != nullptr ? own.next->below_[kind].previous : list.last) = node;
}

void PrefixTree::unlink(Node* node, Kind kind) {
  Node::Below& own = node->below_[kind];
  Node::Below& list = node->parent_->below_[kind];
  (own.previous != nullptr ? own.previous->below_[kind].next : list.first) = own.next;
  (own.next != nullptr ? own.next->below_[kind].previous : list.last) = own.previous;
  own.previous = own.next = nullptr;
}

// -- shape

bool PrefixTree::carries_nothing(const Node* node) {
  return node->entry_ == 0 && node->flights_.empty() && node->tombstone_ == MissReason::kNone;
}

bool PrefixTree::idle(const Node* node) {
  return node->parent_ != nullptr && node->leaf() && node->entry_ == 0 && node->flights_.empty();
}

// Merges the node, or makes it an idle leaf, after it lost something.
void PrefixTree::settle(Node* node) {
  if (node->parent_ == nullptr) return;
  if (carries_nothing(node) && node->children_.size() == 1) return merge(node);
  if (idle(node)) add_idle(node);
}

void PrefixTree::add_idle(Node* leaf) {
  REPRISE_CHECK(idle_.emplace(leaf->stamp_, leaf).second, "two idle leaves have the same last-use stamp");
}

// `node`, whose counts equal those of `of`, replaces it as its parent's child and in the lists.
void PrefixTree::replace_in_parent(Node* node, Node* of) {
  Node* parent = of->parent_;
  node->parent_ = parent;
  parent->children_.put(node->edge_.front(), node);
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    Node::Below& own = node->below_[kind];
    Node::Below& other = of->below_[kind];
    if (own.count == 0) continue;
    own.previous = std::exchange(other.previous, nullptr);
    own.next = std::exchange(other.next, nullptr);
    Node::Below& list = parent->below_[kind];
    (own.previous != nullptr ? own.previous->below_[kind].next : list.first) = node;
    (own.next != nullptr ? own.next->below_[kind].previous : list.last) = node;
  }
}

// Inserts a node on the edge that leads to `node`.
PrefixTree::Node* PrefixTree::split(Node* node, std::uint32_t depth, Stamp stamp) {
  const std::size_t cut = depth - node->parent_->depth_;
  Node* upper = new Node;
  ++nodes_;
  upper->edge_.assign(node->edge_.begin(), node->edge_.begin() + cut);
  upper->depth_ = depth;
  upper->stamp_ = stamp;
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    Node::Below& list = upper->below_[kind];
    list.count = node->below_[kind].count;
    if (list.count > 0) list.first = list.last = node;
  }
  replace_in_parent(upper, node);
  node->edge_ = std::vector<TokenId>(node->edge_.begin() + cut, node->edge_.end());
  node->parent_ = upper;
  upper->children_.put(node->edge_.front(), node);
  return upper;
}

// Prepends the node's edge to its only child's edge and removes the node.
void PrefixTree::merge(Node* node) {
  Node* child = node->children_.any();
  std::vector<TokenId> edge;
  edge.reserve(node->edge_.size() + child->edge_.size());
  edge.insert(edge.end(), node->edge_.begin(), node->edge_.end());
  edge.insert(edge.end(), child->edge_.begin(), child->edge_.end());
  child->edge_ = std::move(edge);
  replace_in_parent(child, node);
  --nodes_;
  delete node;
}

PrefixTree::Node* PrefixTree::add_leaf(Node* parent, Tokens edge, Stamp stamp) {
  Node* leaf = new Node;
  ++nodes_;
  leaf->parent_ = parent;
  leaf->edge_.assign(edge.begin(), edge.end());
  leaf->depth_ = parent->depth_ + static_cast<std::uint32_t>(edge.size());
  leaf->stamp_ = stamp;
  parent->children_.put(edge.front(), leaf);
  tokens_ += edge.size();
  return leaf;
}

// -- invariants

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
