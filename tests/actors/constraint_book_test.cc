// The grammars of a model: compiled once, evicted by age beyond the limits.

#include "actors/models/grammar_cache.h"

#include <gtest/gtest.h>

#include <random>

#include "models/text/tokenizer_load.h"
#include "protocol/grammar/vocabulary.h"
#include "tests/source_folder.h"

namespace reprise::actors {
namespace {

using protocol::grammar::Constraint;

class ConstraintBookTest : public testing::Test {
 protected:
  static GrammarCache book(std::size_t max_bytes) {
    const auto tokenizer = std::make_shared<const models::Tokenizer>(
        models::load_tokenizer(source_folder() / "models" / "builtin"));
    const std::size_t vocab = tokenizer->vocab_size();
    return {tokenizer, {}, vocab, max_bytes};
  }
  static Constraint regex(int number) {
    return {.kind = Constraint::Kind::kRegex, .text = "x{" + std::to_string(number) + "}[a-z]*"};
  }
};

TEST_F(ConstraintBookTest, TheSameConstraintIsCompiledOnce) {
  GrammarCache all = book(GrammarCache::kMaxBytes);
  const auto first = all.find(regex(1));
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(*all.find(regex(1)), *first);
  EXPECT_NE(*all.find(regex(2)), *first);
  EXPECT_EQ(all.grammars(), 2U);
  EXPECT_NE(*all.find(regex(1), "another's"), *first) << "what it takes would tell whether it was there";
  EXPECT_EQ(*all.find(regex(1), "another's"), *all.find(regex(1), "another's"));
  EXPECT_EQ(all.grammars(), 3U);
  EXPECT_FALSE(all.find({.kind = Constraint::Kind::kRegex, .text = "("}).ok());
  EXPECT_EQ(all.grammars(), 3U);
}

// Already the first mask has too many parser states: a client error, found before any prefill.
TEST_F(ConstraintBookTest, TooAmbiguousGrammarIsRefused) {
  GrammarCache all = book(GrammarCache::kMaxBytes);
  std::string stars = "root ::= ";
  for (int i = 0; i < 15'000; ++i) stars += "[a-z]* ";
  const auto refused = all.find({.kind = Constraint::Kind::kGbnf, .text = stars});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error(), "the grammar is too ambiguous: more than 20000 alternatives at once");
  const auto unwanted = all.find({.kind = Constraint::Kind::kRegex, .text = "(((){20000}){20000}){20000}"},
                                 "", [] { return false; });
  ASSERT_FALSE(unwanted.ok());
  EXPECT_EQ(unwanted.error(), "the client has disconnected");
  EXPECT_EQ(all.grammars(), 0U);
}

TEST_F(ConstraintBookTest, LeastRecentlyUsedGrammarsAreEvictedByBytes) {
  GrammarCache few = book(60'000);
  const auto kept = few.find(regex(1));
  ASSERT_TRUE(kept.ok());
  for (int i = 2; i < 60; ++i) {
    ASSERT_TRUE(few.find(regex(i)).ok());
    EXPECT_EQ(*few.find(regex(1)), *kept) << "it was used last but one";
    EXPECT_LE(few.bytes(), 60'000U);
  }
  EXPECT_LT(few.grammars(), 59U);
}

TEST_F(ConstraintBookTest, MasksCountAsTheyAreMade) {
  constexpr std::size_t kBytes = 300'000;
  GrammarCache few = book(kBytes);
  const Constraint object{.kind = Constraint::Kind::kJsonObject};
  const auto other = few.find(regex(1));
  const auto grows = few.find(object);
  ASSERT_TRUE(other.ok() && grows.ok());
  ASSERT_EQ(few.grammars(), 2U);
  std::mt19937_64 random(1);
  protocol::grammar::ReplyConstraint reply(*grows);
  for (int step = 0; step < 5000 && (*grows)->bytes() <= kBytes; ++step) {
    const SharedMask mask = reply.mask();
    if (mask->count == 0) reply = protocol::grammar::ReplyConstraint(*grows);
    auto token = static_cast<TokenId>(random() % (*grows)->vocabulary().size());
    for (std::size_t tries = 0; tries < 20'000 && !mask->allows(token); ++tries) {
      token = static_cast<TokenId>(random() % (*grows)->vocabulary().size());
    }
    if (mask->allows(token)) {
      ASSERT_TRUE(reply.accept(token));
    }
  }
  ASSERT_GT((*grows)->bytes(), kBytes);
  EXPECT_EQ(*few.find(object), *grows) << "the one asked for stays, however large";
  EXPECT_EQ(few.grammars(), 1U);
  EXPECT_NE(*few.find(regex(1)), *other) << "compiled anew";
}

TEST_F(ConstraintBookTest, NumberOfGrammarsIsBounded) {
  GrammarCache many = book(std::size_t{1} << 40);
  for (int i = 0; i < static_cast<int>(GrammarCache::kMaxGrammars) + 20; ++i) {
    ASSERT_TRUE(many.find(regex(i)).ok());
  }
  EXPECT_EQ(many.grammars(), GrammarCache::kMaxGrammars);
}

TEST_F(ConstraintBookTest, OneTenantDoesNotPushOutTheOthers) {
  GrammarCache few = book(60'000);
  const auto modest = few.find(regex(1), "a's", {}, "a");
  ASSERT_TRUE(modest.ok());
  for (int i = 2; i < 60; ++i) ASSERT_TRUE(few.find(regex(i), "b's", {}, "b").ok());
  EXPECT_LE(few.bytes(), 60'000U);
  EXPECT_EQ(*few.find(regex(1), "a's", {}, "a"), *modest)
      << "it is the oldest, but not of the biggest tenant";

  GrammarCache many = book(std::size_t{1} << 40);
  const auto kept = many.find(regex(1), "a's", {}, "a");
  for (int i = 0; i < static_cast<int>(GrammarCache::kMaxGrammars) + 20; ++i) {
    ASSERT_TRUE(many.find(regex(i), "b's", {}, "b").ok());
  }
  EXPECT_EQ(many.grammars(), GrammarCache::kMaxGrammars);
  EXPECT_EQ(*many.find(regex(1), "a's", {}, "a"), *kept);
}

}  // namespace
}  // namespace reprise::actors
