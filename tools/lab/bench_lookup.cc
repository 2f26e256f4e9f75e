#include "tools/lab/lab.h"

#include <algorithm>
#include <cstdio>
#include <span>
#include <unordered_set>

#include "actors/cache/cache_entry.h"
#include "actors/cache/prefix_tree.h"
#include "base/token.h"
#include "tools/lab/bench_times.h"

namespace reprise::tools {
namespace {

using TokenSpan = std::span<const TokenId>;

/// Hash table of prompt prefixes, one per block.
class BlockIndex {
 public:
  explicit BlockIndex(std::uint32_t block) : block_(block) {}

  void add(TokenSpan prompt) {
    std::uint64_t hash = 0;
    for (std::size_t at = 0; at + block_ <= prompt.size(); at += block_) {
      hash = token_hash(prompt.subspan(at, block_), hash);
      known_.insert(hash);
    }
  }
  std::size_t find(TokenSpan prompt) const {
    std::uint64_t hash = 0;
    std::size_t at = 0;
    for (; at + block_ <= prompt.size(); at += block_) {
      hash = token_hash(prompt.subspan(at, block_), hash);
      if (!known_.contains(hash)) break;
    }
    return at;
  }
  /// A record has a hash, a link and a state number; a bucket is a link.
  std::size_t bytes() const { return known_.size() * 24 + known_.bucket_count() * 8; }

 private:
  const std::uint32_t block_;
  std::unordered_set<std::uint64_t> known_;
};

class TreeIndex {
 public:
  void add(TokenSpan prompt) {
    actors::PrefixTree::Node* node = tree_.walk(root_, prompt, ++clock_);
    if (node->entry() == 0) tree_.set_entry(node, ++entries_);
  }
  std::size_t find(TokenSpan prompt) const { return tree_.match(root_, prompt).depth; }
  std::size_t bytes() const { return actors::index_bytes(tree_.nodes(), tree_.tokens(), entries_); }

 private:
  actors::PrefixTree tree_;
  actors::PrefixTree::Node* root_ = tree_.add_root();
  std::uint64_t clock_ = 0;
  std::uint64_t entries_ = 0;
};

// Returns a token of text number `text`. Hashed, so that texts share nothing by chance.
TokenId token_in(std::uint64_t text, std::size_t place) {
  std::uint64_t x = text * 0x9e3779b97f4a7c15 + place * 0xd1b54a32d192ed03;
  x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9;
  return static_cast<TokenId>((x >> 32) % 150'000);
}

/// Half of it is shared by ten conversations, the rest is its own.
TokenList conversation(std::uint32_t number, std::uint32_t length) {
  TokenList prompt(length);
  for (std::size_t i = 0; i < length; ++i)
    prompt[i] = token_in(i < length / 2 ? number / 10 : 1'000'000 + number, i);
  return prompt;
}

struct Found {
  Times times{};           // of all lookups of a round
  std::size_t tokens = 0;  // found in one round
};

template <class Index>
void look(const Index& index, const std::vector<TokenList>& asked, Found& found) {
  found.tokens = 0;
  found.times.all.push_back(seconds([&] {
    for (const TokenList& prompt : asked) found.tokens += index.find(prompt);
  }));
}

void show_length(std::uint32_t length, const LookupOptions& options) {
  TreeIndex tree;
  BlockIndex small(16), large(64);
  std::vector<TokenList> asked;
  std::size_t possible = 0;
  for (std::uint32_t i = 0; i < options.conversations; ++i) {
    TokenList prompt = conversation(i, length);
    tree.add(prompt);
    small.add(prompt);
    large.add(prompt);
    // The prompt returns with a different end, which begins within its last eighth.
    const std::size_t same = length - length / 8 + i * 7 % (length / 8);
    for (std::size_t at = same; at < length; ++at) prompt[at] = token_in(2'000'000 + i, at);
    possible += same;
    asked.push_back(std::move(prompt));
  }
  Found by_tree, by_small, by_large;
  for (unsigned round = 0; round < options.repeat; ++round) {
    look(tree, asked, by_tree);
    look(small, asked, by_small);
    look(large, asked, by_large);
  }
  const auto micros = [&](const Found& found) { return found.times.median() * 1e6 / options.conversations; };
  const auto share = [&](const Found& found) {
    return 100.0 * static_cast<double>(found.tokens) / static_cast<double>(possible);
  };
  const auto kib = [](const auto& index) { return static_cast<double>(index.bytes()) / 1024; };
  const double quickest = std::min(micros(by_small), micros(by_large));
  const bool reached = by_tree.tokens == possible && micros(by_tree) <= quickest;
  std::printf("| %u | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f | %.0f | %.0f | %.0f | %s |\n", length,
              micros(by_tree), micros(by_small), micros(by_large), share(by_tree), share(by_small),
              share(by_large), kib(tree), kib(small), kib(large), reached ? "PASS" : "SHORT");
}

}  // namespace

int bench_lookup(const LookupOptions& options) {
  std::printf(
      "%u conversations, ten of which share half of their tokens; each comes back with another end.\n"
      "Asked of the tree: all tokens that are known, and no later than the quicker hash.\n\n",
      options.conversations);
  std::printf(
      "| tokens | tree, us | blocks of 16, us | blocks of 64, us | tree finds %% | 16 finds %% | 64 finds %% "
      "| tree, KiB | 16, KiB | 64, KiB | |\n|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (const std::uint32_t length : options.lengths) show_length(length, options);
  return 0;
}

}  // namespace reprise::tools
