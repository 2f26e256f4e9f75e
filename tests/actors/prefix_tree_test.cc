#include "actors/cache/prefix_tree.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/actors/token_lists.h"

namespace reprise::actors {
namespace {

using Node = PrefixTree::Node;
using protocol::MissReason;

struct PrefixTreeTest : ::testing::Test {
  PrefixTree tree;
  Node* root = tree.add_root();
  PrefixTree::Stamp stamp = 0;
  std::uint64_t id = 0;

  Node* entry(const List& tokens) {
    Node* node = tree.walk(root, tokens, ++stamp);
    tree.set_entry(node, ++id);
    return node;
  }
  void see(const List& tokens) {
    Node* node = tree.walk(root, tokens, ++stamp);
    tree.add_flight(node, ++id);
    tree.remove_flight(node, id);
  }
  std::uint32_t known(const List& tokens) { return tree.match(root, tokens).depth; }
  std::size_t nodes() const {
    std::size_t count = 0;
    std::vector<const Node*> waiting{root};
    while (!waiting.empty()) {
      const Node* node = waiting.back();
      waiting.pop_back();
      ++count;
      node->for_each_child([&](const Node* child) { waiting.push_back(child); });
    }
    return count;
  }
};

TEST_F(PrefixTreeTest, APathIsOneNode) {
  see({1, 2, 3, 4});
  EXPECT_EQ(nodes(), 2u);
  EXPECT_EQ(tree.tokens(), 4u);
  EXPECT_EQ(known({1, 2, 3, 4, 5}), 4u);
  EXPECT_EQ(known({1, 2, 9}), 2u);
  EXPECT_EQ(known({9}), 0u);
  see({1, 2, 3, 4, 5, 6});  // grows
  EXPECT_EQ(nodes(), 2u);
  see({1, 2});  // adds nothing
  EXPECT_EQ(nodes(), 2u);
  EXPECT_EQ(tree.tokens(), 6u);
}

TEST_F(PrefixTreeTest, ForksSplitAndMergeAgain) {
  see({1, 2, 3});
  see({1, 2, 4});
  EXPECT_EQ(nodes(), 4u);
  EXPECT_EQ(tree.tokens(), 4u);
  EXPECT_EQ(tree.trim(), nullptr);  // 1 2 3, walked first
  EXPECT_EQ(nodes(), 2u);
  EXPECT_EQ(known({1, 2, 3}), 2u);
  EXPECT_EQ(known({1, 2, 4}), 3u);
  EXPECT_EQ(tree.trim(), root);
  EXPECT_EQ(tree.tokens(), 0u);
  EXPECT_FALSE(tree.has_idle_leaf());
}

TEST_F(PrefixTreeTest, TrimTakesThoseThatNobodyWalked) {
  see({1, 1});
  see({2, 2});
  see({3, 3});
  tree.touch(tree.match(root, List{1, 1}), ++stamp);
  tree.touch(tree.match(root, List{2, 9}), ++stamp);  // half the way does not count
  tree.trim();
  EXPECT_EQ(known({2, 2}), 0u);
  tree.trim();
  EXPECT_EQ(known({3, 3}), 0u);
  EXPECT_EQ(known({1, 1}), 2u);
}

TEST_F(PrefixTreeTest, WhatCarriesIsNotTrimmed) {
  Node* held = entry({1, 2, 3});
  see({1, 2, 3, 4});
  Node* flight = tree.walk(root, List{5}, ++stamp);
  tree.add_flight(flight, 77);
  tree.trim();
  EXPECT_FALSE(tree.has_idle_leaf());
  EXPECT_EQ(tree.tokens(), 4u);
  tree.clear_entry(held, MissReason::kEvicted);
  EXPECT_TRUE(tree.has_idle_leaf());
  EXPECT_EQ(held->tombstone(), MissReason::kEvicted);
  EXPECT_EQ(tree.trim(), nullptr);
  EXPECT_EQ(known({1}), 0u);
  EXPECT_EQ(known({5}), 1u);
}

TEST_F(PrefixTreeTest, NodesKeepTheirAddress) {
  Node* deep = entry({1, 2, 3, 4, 5, 6});
  Node* middle = entry({1, 2, 3});
  EXPECT_EQ(deep->parent(), middle);
  Node* high = entry({1});
  tree.clear_entry(middle, MissReason::kNone);
  EXPECT_EQ(deep->parent(), high);
  EXPECT_EQ(deep->depth(), 6u);
  EXPECT_EQ(deep->edge().size(), 5u);
  EXPECT_EQ(tree.walk(root, List{1, 2, 3, 4, 5, 6}, ++stamp), deep);
}

TEST_F(PrefixTreeTest, CountsAndCoveredTokens) {
  Node* a = entry({1, 2, 3, 4});
  Node* b = entry({1, 2, 5});
  see({1, 2, 3, 4, 6, 7});
  EXPECT_EQ(root->count(PrefixTree::kEntry), 2u);
  EXPECT_EQ(tree.covered_tokens(), 5u);
  EXPECT_EQ(tree.tokens(), 7u);
  tree.clear_entry(b, MissReason::kEvicted);
  EXPECT_EQ(tree.covered_tokens(), 4u);
  EXPECT_EQ(root->count(PrefixTree::kTombstone), 1u);
  Node* high = entry({1});
  tree.clear_entry(a, MissReason::kNone);
  EXPECT_EQ(tree.covered_tokens(), 1u);
  tree.clear_entry(high, MissReason::kNone);
  EXPECT_EQ(tree.covered_tokens(), 0u);
}

TEST_F(PrefixTreeTest, PlacesOnAnEdge) {
  Node* node = entry({1, 2, 3, 4, 5, 6});
  const auto place = tree.match(root, List{1, 2, 3, 4, 9});
  EXPECT_EQ(place.node, node);
  EXPECT_EQ(place.depth, 4u);
  EXPECT_TRUE(PrefixTree::goes_on(place));
  EXPECT_FALSE(PrefixTree::goes_on(tree.match(root, List{1, 2, 3, 4, 5, 6, 7})));
  Node* high = entry({1, 2});
  EXPECT_EQ(PrefixTree::above(place, 3).node, node);
  EXPECT_EQ(PrefixTree::above(place, 2).node, high);
  EXPECT_EQ(PrefixTree::above(place, 1).node, high);
  EXPECT_TRUE(PrefixTree::goes_on(tree.match(root, List{1, 2, 7})));
}

TEST_F(PrefixTreeTest, DeepestWith) {
  Node* node = entry({1, 2, 3});
  see({1, 2, 4, 5});
  const auto shared = PrefixTree::deepest_with(tree.match(root, List{1, 2, 4, 5}), PrefixTree::kEntry);
  EXPECT_EQ(shared.depth, 2u);
  EXPECT_EQ(PrefixTree::find_below(shared.node, PrefixTree::kEntry), node);
  EXPECT_EQ(PrefixTree::deepest_with(tree.match(root, List{1, 2, 3}), PrefixTree::kFlight).depth, 0u);
}

TEST_F(PrefixTreeTest, TheEntryUsedLastIsFound) {
  Node* a = entry({1, 2});
  Node* b = entry({1, 3});
  Node* c = entry({1, 4});
  Node* fork = const_cast<Node*>(a->parent());
  EXPECT_EQ(PrefixTree::find_below(fork, PrefixTree::kEntry), c);
  tree.use_entry(a);
  EXPECT_EQ(PrefixTree::find_below(fork, PrefixTree::kEntry), a);
  tree.clear_entry(a, MissReason::kEvicted);
  EXPECT_EQ(PrefixTree::find_below(fork, PrefixTree::kEntry), c);
  EXPECT_EQ(PrefixTree::find_below(fork, PrefixTree::kTombstone), a);
  tree.use_entry(b);
  EXPECT_EQ(PrefixTree::find_below(root, PrefixTree::kEntry), b);
}

TEST_F(PrefixTreeTest, TheOldestFlightIsFound) {
  Node* a = tree.walk(root, List{1, 2}, ++stamp);
  tree.add_flight(a, 1);
  Node* b = tree.walk(root, List{1, 3}, ++stamp);
  tree.add_flight(b, 2);
  tree.add_flight(a, 3);
  EXPECT_EQ(PrefixTree::find_below(root, PrefixTree::kFlight), a);
  tree.remove_flight(a, 1);
  tree.remove_flight(a, 3);
  EXPECT_EQ(PrefixTree::find_below(root, PrefixTree::kFlight), b);
}

TEST_F(PrefixTreeTest, BuriedOnAnEdge) {
  see({1, 2, 3, 4});
  tree.bury(tree.match(root, List{1, 2}), MissReason::kUnhealthy, ++stamp);
  EXPECT_EQ(nodes(), 3u);
  EXPECT_EQ(PrefixTree::find_below(root, PrefixTree::kTombstone)->depth(), 2u);
  Node* node = entry({1, 2});
  EXPECT_EQ(node->tombstone(), MissReason::kNone);
  EXPECT_EQ(root->count(PrefixTree::kTombstone), 0u);
}

TEST_F(PrefixTreeTest, ManyChildren) {
  const List system(1000, 7);
  std::vector<Node*> users;
  for (int user = 0; user < 10'000; ++user) {
    List prompt = system;
    prompt.insert(prompt.end(), {user, 1, 2, 3});
    users.push_back(entry(prompt));
    ASSERT_EQ(tree.walk(root, prompt, ++stamp), users.back());
  }
  EXPECT_EQ(tree.tokens(), 1000u + 40'000u);
  EXPECT_EQ(tree.covered_tokens(), tree.tokens());
  for (Node* user : users) tree.clear_entry(user, MissReason::kNone);
  while (tree.has_idle_leaf()) tree.trim();
  EXPECT_EQ(tree.tokens(), 0u);
  EXPECT_EQ(nodes(), 1u);
}

// Each token a node of its own, as deep as prompts get. Cut in long pieces first, then those from below: an
// order in which the making takes no time.
TEST_F(PrefixTreeTest, DeepPathsNeedNoStack) {
  constexpr std::uint32_t kDepth = 100'000;
  constexpr std::uint32_t kPiece = 250;
  List prompt(kDepth);
  std::iota(prompt.begin(), prompt.end(), 0);
  Node* last = entry(prompt);
  const auto cut_above = [&](Node* node, std::uint32_t depth) {
    tree.bury({node, depth}, MissReason::kLost, ++stamp);
    return const_cast<Node*>(node->parent());
  };
  std::vector<Node*> pieces{last};
  for (std::uint32_t depth = kDepth - kPiece; depth > 0; depth -= kPiece) {
    pieces.push_back(cut_above(pieces.back(), depth));
  }
  for (Node* node : pieces) {
    const std::uint32_t top = node->parent()->depth();
    for (std::uint32_t depth = node->depth() - 1; depth > top; --depth) node = cut_above(node, depth);
  }
  EXPECT_EQ(nodes(), kDepth + 1u);
  EXPECT_EQ(known(prompt), kDepth);
  EXPECT_EQ(PrefixTree::find_below(root, PrefixTree::kEntry), last);
  EXPECT_EQ(tree.covered_tokens(), kDepth);
  tree.clear_entry(last, MissReason::kEvicted);
  for (int i = 0; i < 100; ++i) tree.trim();
  EXPECT_EQ(known(prompt), kDepth - 100);
}

TEST_F(PrefixTreeTest, RootsShareNothing) {
  Node* other = tree.add_root();
  see({1, 2, 3});
  EXPECT_EQ(tree.match(other, List{1, 2, 3}).depth, 0u);
  Node* node = tree.walk(other, List{1, 2}, ++stamp);
  tree.add_flight(node, 5);
  tree.remove_flight(node, 5);
  EXPECT_EQ(tree.tokens(), 5u);
  tree.drop_root(other);
  EXPECT_EQ(tree.tokens(), 3u);
  EXPECT_EQ(tree.trim(), root);
}

}  // namespace
}  // namespace reprise::actors
