#pragma once
// A radix tree over tokens: the known sequences, and what is attached at positions in them. Pure data
// structure; the cache's rules are in actors/cache/prefix_cache.h.
//
// A node is the end of an edge of one or more tokens. It may carry an entry, flights and a tombstone. It
// counts what it and its subtree carry, so that testing for an entry below a position is one read, and
// finding one is a descent. A tree may have several roots, which share only the limit on tokens.
//
// Invariants:
// - A node that carries nothing is a root, a leaf or a fork; others are merged into their only child at once.
// - A node's address is stable until it is removed, whatever is split or merged around it.
// - A leaf outlives what it carried, because it records a path that was seen. It is then idle; trim() removes
//   idle leaves, least recently walked first.
// - No recursion: a path may be 100,000 nodes deep.
//
// Costs: match() runs at memcmp's speed; attaching, detaching and use_entry() walk up to the root. Splitting
// and merging copy one edge's tokens.
//
// Threading: one owner.

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/token.h"
#include "protocol/cache_report.h"

namespace reprise::actors {

/// The children of a radix tree node, by the first token of their edge. Most nodes have one or two children,
/// a node after a popular system prompt thousands: up to kFew are kept in a vector and scanned, more in a
/// hash table from then on.
template <class Node>
class ChildMap {
 public:
  std::size_t size() const { return many_ ? many_->size() : few_.size(); }
  bool empty() const { return size() == 0; }

  Node* find(TokenId token) const {
    if (many_) {
      const auto at = many_->find(token);
      return at == many_->end() ? nullptr : at->second;
    }
    for (const auto& [first, node] : few_) {
      if (first == token) return node;
    }
    return nullptr;
  }

  /// Requires: not empty.
  Node* any() const { return many_ ? many_->begin()->second : few_.front().second; }

  /// Adds a child, or replaces the one with this token.
  void put(TokenId token, Node* node) {
    if (many_) {
      (*many_)[token] = node;
      return;
    }
    for (auto& [first, position] : few_) {
      if (first == token) {
        position = node;
        return;
      }
    }
    few_.emplace_back(token, node);
    if (few_.size() <= kFew) return;
    many_ = std::make_unique<Many>(few_.begin(), few_.end());
    few_ = {};
  }

  void erase(TokenId token) {
    if (many_) {
      REPRISE_CHECK(many_->erase(token) == 1, "the node has no child for this token");
      return;
    }
    for (auto& child : few_) {
      if (child.first != token) continue;
      child = few_.back();
      few_.pop_back();
      return;
    }
    REPRISE_CHECK(false, "the node has no child for this token");
  }

  template <class Function>
  void for_each(Function function) const {
    if (many_) {
      for (const auto& [first, node] : *many_) function(node);
    } else {
      for (const auto& [first, node] : few_) function(node);
    }
  }

 private:
  static constexpr std::size_t kFew = 8;
  using Many = std::unordered_map<TokenId, Node*>;

  std::vector<std::pair<TokenId, Node*>> few_;
  std::unique_ptr<Many> many_;
};

/// Data that the owner attaches to the tombstone of an evicted entry.
struct EntryBurial {
  std::uint64_t at = 0;  // the owner's lookup count
  std::chrono::nanoseconds last_use{0};
  bool counts = false;  // its return is yet to be seen
  bool shared = false, hit = false;
};

class PrefixTree {
 public:
  using Stamp = std::uint64_t;  // identifies a walk; increasing
  using Tokens = std::span<const TokenId>;

  /// The kinds of items that a node may carry.
  enum Kind : std::uint8_t { kEntry, kFlight, kTombstone };
  static constexpr std::size_t kKinds = 3;

  class Node {
   public:
    std::uint32_t depth() const { return depth_; }                 // tokens from the root
    const Node* parent() const { return parent_; }                 // null: a root
    std::uint64_t entry() const { return entry_; }                 // 0: none
    protocol::MissReason tombstone() const { return tombstone_; }  // kNone: none
    const EntryBurial& burial() const { return burial_; }          // attached with the tombstone
    const std::vector<std::uint64_t>& flights() const { return flights_; }
    std::uint32_t count(Kind kind) const { return below_[kind].count; }
    bool leaf() const { return children_.empty(); }
    std::size_t children() const { return children_.size(); }
    Tokens edge() const { return edge_; }
    Stamp last_walk() const { return stamp_; }
    template <class Function>
    void for_each_child(Function function) const {
      children_.for_each(function);
    }

   private:
    friend class PrefixTree;

    // For each kind, the children with nodes of that kind in their subtrees form a linked list.
    struct Below {
      std::uint32_t count = 0;
      Node* first = nullptr;
      Node* last = nullptr;
      Node* previous = nullptr;
      Node* next = nullptr;
    };

    Node* parent_ = nullptr;
    std::vector<TokenId> edge_;
    std::uint32_t depth_ = 0;
    protocol::MissReason tombstone_ = protocol::MissReason::kNone;
    Stamp stamp_ = 0;
    std::uint64_t entry_ = 0;
    EntryBurial burial_{};
    std::vector<std::uint64_t> flights_;
    std::array<Below, kKinds> below_;
    ChildMap<Node> children_;
  };

  /// A position on a path, `depth` tokens from the root: at `node`, or on the edge that leads to it.
  struct Position {
    Node* node;
    std::uint32_t depth;
  };

  PrefixTree() = default;
  ~PrefixTree();
  PrefixTree(const PrefixTree&) = delete;
  PrefixTree& operator=(const PrefixTree&) = delete;

  Node* add_root();
  /// Removes the root and its subtree, in which no node may carry an entry or a flight.
  void drop_root(Node* root);

  // -- positions

  /// Returns the end of the longest known prefix.
  Position match(Node* root, Tokens tokens) const;
  /// Returns the position at `depth` on the path from the root to `position`.
  static Position above(Position position, std::uint32_t depth);
  static bool continues(Position position) {
    return position.depth < position.node->depth_ || !position.node->leaf();
  }
  /// Returns the deepest position up to this one at or below which a node carries `kind`; a root's if there
  /// is none.
  static Position deepest_with(Position position, Kind kind);
  /// Returns a node of the subtree that carries the kind: this one if it does; otherwise descends into the
  /// child whose subtree was used last (entries), has had one longest (flights), or got one last
  /// (tombstones). Requires: there is one.
  static Node* find_below(Node* node, Kind kind);

  // -- paths

  /// Returns the node at the end of the tokens, adding what is missing, and stamps the nodes on the path. The
  /// caller must give it an entry or a flight; otherwise it may violate the first invariant.
  Node* walk(Node* root, Tokens tokens, Stamp stamp);
  void touch(Position position, Stamp stamp);
  /// Attaches a tombstone at the position, adding a node if needed. Requires: not at a root.
  void bury(Position position, protocol::MissReason tombstone, Stamp stamp);

  /// Removes the least recently walked idle leaf. Returns its root if that has become empty, else null.
  /// Requires: there is an idle leaf.
  Node* trim();
  bool has_idle_leaf() const { return !idle_.empty(); }
  std::uint64_t tokens() const { return tokens_; }
  std::uint64_t nodes() const { return nodes_; }  // including roots

  // -- items of nodes

  /// Removes a tombstone. Requires: the node has no entry.
  void set_entry(Node* node, std::uint64_t entry);
  /// Removes the entry; a `tombstone` other than kNone replaces it, with `burial`. May remove the node.
  void clear_entry(Node* node, protocol::MissReason tombstone, const EntryBurial& burial = {});
  static Node* parent_of(const Node* node) { return node->parent_; }
  /// Marks that the return of the node's evicted entry was seen.
  static void settle_burial(Node* node) { node->burial_.counts = false; }
  /// Marks the entry as used last: find_below() prefers it.
  void use_entry(Node* node);
  void add_flight(Node* node, std::uint64_t flight);
  /// May remove the node.
  void remove_flight(Node* node, std::uint64_t flight);

  /// Returns the number of tokens at or above an entry, each counted once.
  std::uint64_t covered_tokens() const { return covered_; }

  /// For tests: recounts everything and aborts if an invariant is violated.
  void check() const;

 private:
  static bool carries_nothing(const Node* node);
  static bool idle(const Node* node);
  static void link(Node* node, Kind kind);
  static void unlink(Node* node, Kind kind);
  static void replace_in_parent(Node* node, Node* of);
  void count_up(Node* node, Kind kind);
  void count_down(Node* node, Kind kind);
  static void prefer(Node* node, Kind kind);
  void set_tombstone(Node* node, protocol::MissReason tombstone);
  void settle(Node* node);
  void add_idle(Node* leaf);
  Node* split(Node* node, std::uint32_t depth, Stamp stamp);
  void merge(Node* node);
  Node* add_leaf(Node* parent, Tokens edge, Stamp stamp);
  void drop_subtree(Node* top);

  std::unordered_set<Node*> roots_;
  std::map<Stamp, Node*> idle_;  // leaves without entry and flight; stamps are unique
  std::uint64_t tokens_ = 0;
  std::uint64_t nodes_ = 0;
  std::uint64_t covered_ = 0;
};

}  // namespace reprise::actors
