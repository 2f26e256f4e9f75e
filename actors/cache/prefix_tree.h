#pragma once
// A radix tree over tokens: which sequences are known, and what stands at places in them. Data structure
// alone; the rules of the cache are in actors/cache/prefix_cache.h.
//
// A node is the end of an edge of one or more tokens. It may carry an entry, flights and a tombstone, and it
// counts what it and the nodes below it carry, so that "is there an entry below this place" is one read and
// finding one is a descent. Several roots may stand in one tree; they share nothing but the limit on tokens.
//
// Invariants
//   A node that carries nothing is a root, a leaf or a fork; others are merged into their only child at once.
//   Nodes keep their address from birth to removal, whatever is split or merged around them.
//   A leaf stays when what it carried goes: it is a path that was seen. It is idle then, and trim() takes the
//   idle leaves in the order in which they were last walked to their end.
//   No recursion: a path may be 100,000 nodes deep.
//
// Costs: match() compares at memcmp's speed; adding or removing what a node carries, and use(), walk up to
// the root. Splitting and merging copy the tokens of one edge.
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

/// The children of a node of a radix tree, by the first token of their edge.
///
/// Most nodes have one or two; the node behind a popular system prompt has thousands. A few lie in a plain
/// vector and are scanned; more go into a hash table, and stay there.
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

  /// Any child; there must be one.
  Node* any() const { return many_ ? many_->begin()->second : few_.front().second; }

  /// Adds the child, or takes the place of the one with this token.
  void put(TokenId token, Node* node) {
    if (many_) {
      (*many_)[token] = node;
      return;
    }
    for (auto& [first, place] : few_) {
      if (first == token) {
        place = node;
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

/// What the owner wants to remember of an entry that went.
struct EntryBurial {
  std::uint64_t at = 0;  // by a count of the owner's
  std::chrono::nanoseconds last_use{0};
  bool counts = false;  // its return has yet to be seen
  bool shared = false, hit = false;
};

class PrefixTree {
 public:
  using Stamp = std::uint64_t;  // of a walk; grows from walk to walk
  using Tokens = std::span<const TokenId>;

  /// What a node can carry.
  enum Kind : std::uint8_t { kEntry, kFlight, kTombstone };
  static constexpr std::size_t kKinds = 3;

  class Node {
   public:
    std::uint32_t depth() const { return depth_; }                 // tokens from the root
    const Node* parent() const { return parent_; }                 // null: a root
    std::uint64_t entry() const { return entry_; }                 // 0: none
    protocol::MissReason tombstone() const { return tombstone_; }  // kNone: none
    const EntryBurial& burial() const { return burial_; }          // what the owner said with it
    const std::vector<std::uint64_t>& flights() const { return flights_; }
    /// Here and below.
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

    // The children that have something of a kind below them form a list, for each kind.
    struct Below {
      std::uint32_t count = 0;
      Node* first = nullptr;
      Node* last = nullptr;
      Node* previous = nullptr;  // among the siblings
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

  /// A place on a path, `depth` tokens from the root: at the end of `node`, or on the edge that leads to it.
  struct Place {
    Node* node;
    std::uint32_t depth;
  };

  PrefixTree() = default;
  ~PrefixTree();
  PrefixTree(const PrefixTree&) = delete;
  PrefixTree& operator=(const PrefixTree&) = delete;

  Node* add_root();
  /// With all below it; nothing there may carry an entry or a flight.
  void drop_root(Node* root);

  // -- places

  /// How far the tokens are known.
  Place match(Node* root, Tokens tokens) const;
  /// The place at `depth` on the way from the root to `place`.
  static Place above(Place place, std::uint32_t depth);
  /// Whether a path goes on behind the place.
  static bool goes_on(Place place) { return place.depth < place.node->depth_ || !place.node->leaf(); }
  /// The deepest place up to this one at or below which something of the kind stands; a root's if nothing.
  static Place deepest_with(Place place, Kind kind);
  /// A node of the subtree that carries the kind, which must be there: this one if it does, else the way goes
  /// to the child whose subtree was used last (entries), has had one for longest (flights), or got one last
  /// (tombstones).
  static Node* find_below(Node* node, Kind kind);

  // -- paths

  /// The node at the end of the tokens; what is missing is added. Stamps the nodes on the way. The caller
  /// gives it an entry or a flight, else it may be one that has no reason to be.
  Node* walk(Node* root, Tokens tokens, Stamp stamp);
  /// Stamps the nodes up to the place.
  void touch(Place place, Stamp stamp);
  /// Leaves a tombstone at the place, which must not be a root's. The node there may be made by this.
  void bury(Place place, protocol::MissReason tombstone, Stamp stamp);

  /// Removes the idle leaf that was walked least recently. Returns its root if nothing is left there, else
  /// null. There must be an idle leaf.
  Node* trim();
  bool has_idle_leaf() const { return !idle_.empty(); }
  std::uint64_t tokens() const { return tokens_; }
  std::uint64_t nodes() const { return nodes_; }  // roots too

  // -- what nodes carry

  /// There must be none. A tombstone goes.
  void set_entry(Node* node, std::uint64_t entry);
  /// The entry goes; `tombstone`, unless kNone, stays in its place, with what is to be remembered. The node may go, too.
  void clear_entry(Node* node, protocol::MissReason tombstone, const EntryBurial& burial = {});
  static Node* parent_of(const Node* node) { return node->parent_; }
  /// The return of an entry that went was seen.
  static void settle_burial(Node* node) { node->burial_.counts = false; }
  /// The entry was used: find_below() prefers it now.
  void use_entry(Node* node);
  void add_flight(Node* node, std::uint64_t flight);
  /// The node may go with it.
  void remove_flight(Node* node, std::uint64_t flight);

  /// Tokens at or above an entry, each counted once.
  std::uint64_t covered_tokens() const { return covered_; }

  /// For tests: recounts everything, and ends the program where an invariant is broken.
  void check() const;

 private:
  static bool carries_nothing(const Node* node);
  static bool idle(const Node* node);
  static void link(Node* node, Kind kind);
  static void unlink(Node* node, Kind kind);
  static void take_place(Node* node, Node* of);
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
  std::map<Stamp, Node*> idle_;  // leaves that carry no entry and no flight; no two have one stamp
  std::uint64_t tokens_ = 0;
  std::uint64_t nodes_ = 0;
  std::uint64_t covered_ = 0;
};

}  // namespace reprise::actors
