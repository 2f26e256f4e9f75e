// The merge loops compared with a simple reference merge loop.

#include "models/text/piece_models.h"

#include <gtest/gtest.h>

#include <thread>

#include "models/text/piece_cache.h"
#include "tests/models/expect_error.h"
#include "tests/models/text/tokenizer_helpers.h"

namespace reprise::models {
namespace {

using test::RandomText;

std::vector<TokenId> encode_naively(const TokenizerSpec& spec, std::string_view bytes) {
  std::vector<std::string> symbols;
  for (const char byte : bytes) symbols.push_back(to_letters({&byte, 1}));
  std::vector<TokenId> ids;
  for (const std::string& symbol : test::merge_naively(symbols, test::ranks_of(spec))) {
    ids.push_back(static_cast<TokenId>(std::find(spec.tokens.begin(), spec.tokens.end(), symbol) -
                                       spec.tokens.begin()));
  }
  return ids;
}

TEST(Bpe, EqualsTheNaiveLoopWithRandomMerges) {
  RandomText random(4);
  for (int round = 0; round < 60; ++round) {
    const TokenizerSpec spec = test::random_bpe_spec(random, 1 + random.below(60));
    const StringTable tokens(spec.tokens);
    const Bpe bpe(spec, tokens);
    Bpe::Scratch scratch;
    EncodeWork work;
    for (int i = 0; i < 30; ++i) {
      std::string piece;
      // lengths for both merge loops
      const std::size_t length = random.below(2) ? random.below(12) : random.below(200);
      for (std::size_t n = 0; n < length; ++n) piece += "abcdx"[random.below(5)];
      std::vector<TokenId> ids;
      bpe.encode(piece, scratch, work, ids);
      ASSERT_EQ(ids, encode_naively(spec, piece)) << piece;
    }
  }
}

TEST(Bpe, MergesThatNameNoTokenAreRefusedOrLeftOut) {
  RandomText random(5);
  TokenizerSpec spec = test::random_bpe_spec(random, 5);
  spec.merges.emplace_back("a", "zz");
  const StringTable tokens(spec.tokens);
  EXPECT_LOAD_ERROR(Bpe(spec, tokens), "merges[5]: no token 'zz'");
  spec.lenient_merges = true;
  EXPECT_TRUE(Bpe(spec, tokens).covers_all_bytes());
}

TEST(Bpe, UnknownCharacters) {
  TokenizerSpec spec;
  spec.tokens = {"<unk>", "a", "b", "ab", "<0xC3>", "<0xA9>"};
  spec.merges = {{"a", "b"}};
  const auto encode = [&](std::string_view piece) {
    const StringTable tokens(spec.tokens);
    const Bpe bpe(spec, tokens);
    Bpe::Scratch scratch;
    EncodeWork work;
    std::vector<TokenId> ids;
    bpe.encode(piece, scratch, work, ids);
    return ids;
  };
  using Ids = std::vector<TokenId>;
  EXPECT_EQ(encode("ab\u00E9ab"), (Ids{3, 3}));  // no token, no fallback
  spec.unk = 0;
  EXPECT_EQ(encode("ab\u00E9\u00E8ab"), (Ids{3, 0, 0, 3}));
  spec.fuse_unk = true;
  EXPECT_EQ(encode("ab\u00E9\u00E8ab"), (Ids{3, 0, 3}));
  spec.byte_fallback = true;
  EXPECT_EQ(encode("ab\u00E9\u00E8"), (Ids{3, 4, 5, 0}));  // byte tokens only if all bytes have one
}

TEST(Bpe, IgnoreMergesTakesWholeTokens) {
  RandomText random(6);
  TokenizerSpec spec = test::random_bpe_spec(random, 0);
  spec.tokens.push_back("\u0120hello");  // no merge produces it
  spec.ignore_merges = true;
  const StringTable tokens(spec.tokens);
  const Bpe bpe(spec, tokens);
  Bpe::Scratch scratch;
  EncodeWork work;
  std::vector<TokenId> ids;
  bpe.encode(" hello", scratch, work, ids);
  EXPECT_EQ(ids, std::vector<TokenId>{256});
  bpe.encode(" hell", scratch, work, ids);
  EXPECT_EQ(ids.size(), 6u);
}

TEST(Bpe, LongPiecesTakeLittleWork) {
  const TokenizerSpec spec = test::qwen_like_spec();
  const StringTable tokens(spec.tokens);
  const Bpe bpe(spec, tokens);
  for (const char* unit : {"a", " ", "\n", "the", "\U0001F600", "\u4E2D\u6587", "ab cd", "!"}) {
    std::uint64_t before = 0;
    for (const std::size_t size : {20000u, 80000u}) {
      std::string piece;
      while (piece.size() < size) piece += unit;
      Bpe::Scratch scratch;
      EncodeWork work;
      std::vector<TokenId> ids;
      bpe.encode(piece, scratch, work, ids);
      EXPECT_LE(work.total(), 8 * size) << unit;
      if (before > 0) {
        EXPECT_LE(work.total(), 4 * before + 1000) << unit;
      }
      before = work.total();
    }
  }
}

// Spm's merges, scanning all pairs each time.
std::vector<std::string> spm_naively(const TokenizerSpec& spec, std::vector<std::string> symbols) {
  while (true) {
    float best_score = 0;
    std::size_t best = symbols.size();
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = std::find(spec.tokens.begin(), spec.tokens.end(), symbols[i] + symbols[i + 1]);
      if (found == spec.tokens.end()) continue;
      const float score = spec.scores[static_cast<std::size_t>(found - spec.tokens.begin())];
      if (best == symbols.size() || score > best_score) {
        best = i;
        best_score = score;
      }
    }
    if (best == symbols.size()) return symbols;
    symbols[best] += symbols[best + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST(Spm, EqualsTheNaiveLoopWithRandomScores) {
  RandomText random(7);
  for (int round = 0; round < 60; ++round) {
    TokenizerSpec spec;
    spec.model = TokenizerModel::kSpm;
    spec.tokens = {"a", "b", "c", "d"};
    for (std::size_t n = random.below(40); n > 0; --n) {
      std::string joined = random.pick(spec.tokens);
      joined += random.pick(spec.tokens);
      if (std::find(spec.tokens.begin(), spec.tokens.end(), joined) == spec.tokens.end())
        spec.tokens.push_back(joined);
    }
    for (std::size_t i = 0; i < spec.tokens.size(); ++i) {
      spec.scores.push_back(random.below(3) ? -static_cast<float>(random.below(20)) : -0.0f);  // ties too
    }
    const StringTable tokens(spec.tokens);
    const Spm spm(spec, tokens);
    Spm::Scratch scratch;
    EncodeWork work;
    for (int i = 0; i < 30; ++i) {
      std::vector<std::string> symbols;
      std::string piece;
      for (std::size_t n = random.below(80); n > 0; --n) {
        symbols.emplace_back(1, "abcd"[random.below(4)]);
        piece += symbols.back();
      }
      std::vector<TokenId> ids;
      spm.encode(piece, scratch, work, ids);
      std::vector<std::string> got;
      for (const TokenId id : ids) got.push_back(spec.tokens[static_cast<std::size_t>(id)]);
      ASSERT_EQ(got, spm_naively(spec, symbols)) << piece;
    }
  }
}

TEST(Spm, FallsBackToBytesThenToTheUnknownToken) {
  TokenizerSpec spec;
  spec.model = TokenizerModel::kSpm;
  spec.tokens = {"<unk>", "a", "<0xC3>", "<0xA9>"};
  spec.scores.assign(4, 0);
  spec.byte_fallback = true;
  spec.unk = 0;
  const StringTable tokens(spec.tokens);
  const Spm spm(spec, tokens);
  Spm::Scratch scratch;
  EncodeWork work;
  std::vector<TokenId> ids;
  spm.encode("a\u00E9\u4E2Da", scratch, work, ids);
  EXPECT_EQ(ids, (std::vector<TokenId>{1, 2, 3, 0, 1}));
  EXPECT_FALSE(spm.covers_all_bytes());
  spec.scores.pop_back();
  EXPECT_LOAD_ERROR(Spm(spec, tokens), "fewer scores than tokens");
}

TEST(MergeQueue, IsAPriorityQueue) {
  RandomText random(8);
  MergeQueue queue;
  for (int round = 0; round < 200; ++round) {
    queue.reset(50);
    std::vector<std::pair<std::uint32_t, std::uint32_t>> expected;  // sorted
    for (int step = 0; step < 300; ++step) {
      if (random.below(3) > 0) {
        const std::size_t priority = random.below(50);
        const std::pair<std::uint32_t, std::uint32_t> entry(priority, random.below(1000));
        queue.push(entry.first, entry.second);
        expected.insert(std::upper_bound(expected.begin(), expected.end(), entry), entry);
      } else {
        MergeQueue::Entry entry;
        ASSERT_EQ(queue.pop(entry), !expected.empty());
        if (expected.empty()) continue;
        ASSERT_EQ(std::pair(entry.rank, entry.position), expected.front());
        expected.erase(expected.begin());
      }
    }
  }
}

TEST(PieceCache, GivesBackWhatWasPut) {
  PieceCache cache(64);
  std::vector<TokenId> out;
  const auto put = [&](std::string_view piece, std::vector<TokenId> ids) {
    cache.put(piece, hash_of(piece), ids);
  };
  const auto find = [&](std::string_view piece) {
    out.clear();
    return cache.find(piece, hash_of(piece), out);
  };
  EXPECT_FALSE(find("the"));
  put("the", {5, 6});
  ASSERT_TRUE(find("the"));
  EXPECT_EQ(out, (std::vector<TokenId>{5, 6}));
  EXPECT_FALSE(find("th"));
  EXPECT_FALSE(find(std::string_view("the\0", 4)));
  put(std::string(25, 'x'), {1});
  EXPECT_FALSE(find(std::string(25, 'x')));
  put("long", {1, 2, 3, 4, 5, 6, 7});
  EXPECT_FALSE(find("long"));
  put("none", {});
  EXPECT_FALSE(find("none"));
}

TEST(PieceCache, NeverMixesPiecesOfSeveralThreads) {
  PieceCache cache(4);  // few slots, so that threads compete for them
  std::atomic<int> wrong = 0, hits = 0;
  const auto work = [&](int seed) {
    RandomText random(static_cast<std::uint64_t>(seed));
    std::vector<TokenId> out;
    for (int i = 0; i < 20000; ++i) {
      const auto number = static_cast<TokenId>(random.below(16));
      const std::string piece = "piece number " + std::to_string(number);
      out.clear();
      if (cache.find(piece, hash_of(piece), out)) {
        ++hits;
        if (out != std::vector<TokenId>(1 + static_cast<std::size_t>(number) % 6, number)) ++wrong;
      } else {
        cache.put(piece, hash_of(piece),
                  std::vector<TokenId>(1 + static_cast<std::size_t>(number) % 6, number));
      }
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(hits, 0);
}

TEST(StringTable, FindsItsStrings) {
  const StringTable table({"a", "", "bc", "a"});
  EXPECT_EQ(table.size(), 4u);
  EXPECT_EQ(table[2], "bc");
  EXPECT_EQ(table[1], "");
  EXPECT_EQ(table.find("bc"), 2);
  EXPECT_EQ(table.find("a"), 3);
  EXPECT_EQ(table.find(""), StringTable::kNone);
  EXPECT_EQ(table.find("b"), StringTable::kNone);
  EXPECT_EQ(StringTable().find("a"), StringTable::kNone);
  EXPECT_EQ(StringTable(std::vector<std::string>{}).find("a"), StringTable::kNone);
}

}  // namespace
}  // namespace reprise::models
