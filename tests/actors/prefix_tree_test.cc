// The tree at sizes beyond its naive model; prefix_cache_model_test checks its answers and invariants.

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
};

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
  tree.check();
}

// One node per token, to the maximum depth of prompts. Long pieces are split from below, the order in which
// construction is fast.
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
  tree.check();
  EXPECT_EQ(last->edge().size(), 1u);
  EXPECT_EQ(tree.match(root, prompt).depth, kDepth);
  EXPECT_EQ(PrefixTree::find_below(root, PrefixTree::kEntry), last);
  EXPECT_EQ(tree.covered_tokens(), kDepth);
  tree.clear_entry(last, MissReason::kEvicted);
  for (int i = 0; i < 100; ++i) tree.trim();
  EXPECT_EQ(tree.match(root, prompt).depth, kDepth - 100);
}

}  // namespace
}  // namespace reprise::actors
