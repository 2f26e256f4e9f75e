// SentencePiece's tokenizer.model, and Unigram models in it and in tokenizer.json.

#include "models/text/sentencepiece_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <span>

#include "models/files/load_error.h"
#include "models/text/tokenizer_load.h"
#include "tests/models/expect_error.h"
#include "tests/models/files/checkpoint_files.h"
#include "tests/models/text/sentencepiece_writer.h"
#include "tests/models/text/tokenizer_helpers.h"

namespace reprise::models {
namespace {

using test::ProtoWriter;
using test::RandomText;
using test::SentencePieceWriter;
using Ids = std::vector<TokenId>;

/// Like Gemma's: BPE with all bytes, no space prepended, white space kept.
SentencePieceWriter gemma_like() {
  SentencePieceWriter out;
  out.piece("<pad>", 0, test::kControlPiece)   // 0
      .piece("<eos>", 0, test::kControlPiece)  // 1
      .piece("<bos>", 0, test::kControlPiece)  // 2
      .piece("<unk>", 0, test::kUnknownPiece)  // 3
      .piece("<turn>", 0, test::kUserPiece)    // 4
      .piece("▁▁", 0, test::kUserPiece)        // 5
      .piece("▁▁▁", 0, test::kUserPiece)       // 6
      .piece("ab", -1)                         // 7
      .piece("bc", -2)                         // 8
      .piece("abc", -3)                        // 9
      .piece("▁abc", -4)                       // 10
      .piece("<b", -5)                         // 11
      .piece("<bos", -6)                       // 12
      .piece("os", -7);                        // 13
  for (const char* letter : {"a", "b", "c", "o", "s", "<", ">", "▁", "t"})
    out.piece(letter, -100);  // 14 to 22
  out.byte_pieces();          // 23 to 278
  out.trainer.integer(3, 2).integer(35, 1).integer(40, 3).integer(41, 2).integer(42, 1).integer(43, 0);
  out.normalizer.text(1, "identity").integer(3, 0).integer(4, 0);
  return out;
}

Tokenizer tokenizer_of(const SentencePieceWriter& file) {
  return Tokenizer(spec_of_sentencepiece(file.bytes(), "tokenizer.model"));
}

TEST(SentencePiece, MergesByScore) {
  const Tokenizer tokenizer = tokenizer_of(gemma_like());
  EXPECT_EQ(tokenizer.encode("abc"), (Ids{9}));  // "ab" has the higher score
  EXPECT_EQ(tokenizer.encode("a abc"), (Ids{14, 10}));
  EXPECT_EQ(tokenizer.encode("bcab"), (Ids{8, 7}));
  EXPECT_EQ(tokenizer.encode("é"), (Ids{23 + 0xc3, 23 + 0xa9}));
  EXPECT_EQ(tokenizer.encode("a\n"), (Ids{14, 23 + '\n'}));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(" a  b é\n")), " a  b é\n");
  EXPECT_TRUE(tokenizer.covers_all_text());
}

TEST(SentencePiece, UserTokensComeFirstAndStayWhole) {
  const Tokenizer tokenizer = tokenizer_of(gemma_like());
  EXPECT_EQ(tokenizer.encode("a<turn>bc"), (Ids{14, 4, 8}));
  EXPECT_EQ(tokenizer.encode("a  b"), (Ids{14, 5, 15}));
  EXPECT_EQ(tokenizer.encode("a   b"), (Ids{14, 6, 15}));  // the longest user token
  EXPECT_EQ(tokenizer.encode("a    b"), (Ids{14, 6, 21, 15}));
  EXPECT_EQ(tokenizer.encode("  abc"), (Ids{5, 9}));  // not token 10
  EXPECT_FALSE(tokenizer.is_special(4));
  EXPECT_EQ(tokenizer.decode(Ids{14, 6, 4}), "a   <turn>");
}

TEST(SentencePiece, ControlTokensAreNotMadeOfText) {
  const Tokenizer tokenizer = tokenizer_of(gemma_like());
  EXPECT_EQ(tokenizer.encode("a<bos>"), (Ids{14, 2}));
  EXPECT_EQ(tokenizer.encode("a<bos>", {.parse_special = false}), (Ids{14, 12, 20}));
  EXPECT_EQ(tokenizer.encode("<unk>", {.parse_special = false}).size(), 5u);
  EXPECT_TRUE(tokenizer.is_special(2));
  EXPECT_EQ(tokenizer.bos(), 2);
  EXPECT_EQ(tokenizer.eos(), 1);
  EXPECT_EQ(tokenizer.pad(), 0);
  EXPECT_EQ(tokenizer.unk(), 3);
  EXPECT_TRUE(tokenizer.adds_bos());
  EXPECT_FALSE(tokenizer.adds_eos());
  EXPECT_EQ(tokenizer.decode(Ids{2, 14, 1}, {.skip_special = true}), "a");
}

TEST(SentencePiece, UnusedTokensAreTakenApart) {
  SentencePieceWriter file = gemma_like();
  file.piece("abca", -1.5F, test::kUnusedPiece).piece("abcab", -1.6F, test::kUnusedPiece).piece("ca", -0.5F);
  const Tokenizer tokenizer = tokenizer_of(file);
  const TokenId ca = 23 + 256 + 2;
  // "ca" merges first, then "ab", "abca" and "abcab"; the unused tokens are split again into "ab", "ca" and
  // "b".
  EXPECT_EQ(tokenizer.encode("abcab"), (Ids{7, ca, 15}));
}

TEST(SentencePiece, WithoutBytesARunOfUnknownIsOneToken) {
  SentencePieceWriter file;
  file.piece("<unk>", 0, test::kUnknownPiece).piece("a", -1).piece("▁", -2).piece("▁a", -0.5F);
  file.trainer.integer(3, 2);
  const Tokenizer tokenizer = tokenizer_of(file);
  EXPECT_EQ(tokenizer.encode("a"), (Ids{3}));  // a space is prepended
  EXPECT_EQ(tokenizer.encode("xyza xy"), (Ids{2, 0, 1, 2, 0}));
  EXPECT_EQ(tokenizer.encode("  a   a  "), (Ids{3, 3}));  // and superfluous ones are removed
  EXPECT_EQ(tokenizer.decode(Ids{3, 3}), "a a");
  EXPECT_FALSE(tokenizer.covers_all_text());
  EXPECT_FALSE(tokenizer.bos() && *tokenizer.bos() >= 4);
}

TEST(SentencePiece, ConfigAddsTokensAndSaysWhoBegins) {
  const JsonLocation config = JsonLocation::parse(
      R"({"add_bos_token": false, "bos_token": "<eos>", "added_tokens_decoder":
          {"500": {"content": "<extra>", "special": true}}})",
      "tokenizer_config.json");
  const Tokenizer tokenizer(spec_of_sentencepiece(gemma_like().bytes(), "tokenizer.model", config));
  EXPECT_FALSE(tokenizer.adds_bos());
  EXPECT_EQ(tokenizer.bos(), 1);
  EXPECT_EQ(tokenizer.encode("a<extra>"), (Ids{14, 500}));
}

TEST(SentencePiece, IsLoadedWhereThereIsNoJson) {
  const test::TempDir dir;
  dir.write("tokenizer.model", gemma_like().bytes());
  dir.write("tokenizer_config.json", R"({"add_eos_token": true})");
  const Tokenizer tokenizer = load_tokenizer(dir.path());
  EXPECT_EQ(tokenizer.encode("abc"), (Ids{9}));
  EXPECT_TRUE(tokenizer.adds_eos());
}

TEST(SentencePiece, RefusesWhatItDoesNotKnowByName) {
  const auto load = [](SentencePieceWriter file) { return spec_of_sentencepiece(file.bytes(), "t.model"); };
  SentencePieceWriter words = gemma_like();
  words.trainer.integer(3, 3);
  EXPECT_LOAD_ERROR(load(words), "trainer_spec.model_type: the type 3 is not supported");
  SentencePieceWriter suffixed = gemma_like();
  suffixed.trainer.integer(24, 1);
  EXPECT_LOAD_ERROR(load(suffixed), "treat_whitespace_as_suffix: true is not supported");
  SentencePieceWriter table = gemma_like();
  table.normalizer.text(2, "table");
  EXPECT_LOAD_ERROR(load(table), "precompiled_charsmap: a table of characters is not supported");
  EXPECT_LOAD_ERROR(load(SentencePieceWriter()), "pieces: there are none");
  EXPECT_LOAD_ERROR(spec_of_sentencepiece("\x0a\x7f", "t.model"), "ends in the middle of a field");
  EXPECT_LOAD_ERROR(spec_of_sentencepiece("\x0b", "t.model"), "a field of no known type");
  EXPECT_LOAD_ERROR(spec_of_sentencepiece(std::string(11, '\xff'), "t.model"),
                    "a number of more than 64 bits");
  SentencePieceWriter endless = gemma_like();
  endless.piece(std::string(5000, 'x'), 0, test::kUserPiece);
  EXPECT_LOAD_ERROR(Tokenizer(load(endless)), "a token that is too long");
  SentencePieceWriter sick;
  sick.piece("a", std::nanf(""));
  EXPECT_LOAD_ERROR(Tokenizer(load(sick)), "a score that is no number");
}

TEST(SentencePiece, DamagedFilesLoadOrAreRefused) {
  RandomText random(7);
  SentencePieceWriter unigram = gemma_like();
  unigram.trainer.integer(3, 1);
  const std::vector<std::string> seeds = {gemma_like().bytes(), unigram.bytes()};
  std::size_t loaded = 0, refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string file = random.pick(seeds);
    if (random.below(4) == 0) file.resize(random.below(file.size()));
    for (std::size_t n = 1 + random.below(4); n > 0 && !file.empty(); --n) {
      // Mostly in the first pieces and in the settings at the end; the bytes between are all similar.
      const std::size_t at = random.below(2) == 0
                                 ? random.below(std::min<std::size_t>(file.size(), 300))
                                 : file.size() - 1 - random.below(std::min<std::size_t>(file.size(), 40));
      file[at] = static_cast<char>(random.below(256));
    }
    try {
      const Tokenizer tokenizer(spec_of_sentencepiece(file, "damaged"));
      ++loaded;
      for (const char* text : {"abc  abc<turn><bos>", "é\xff", "   \n x"}) {
        const Ids ids = tokenizer.encode(text);
        for (const TokenId id : ids) ASSERT_LT(static_cast<std::size_t>(id), tokenizer.vocab_size());
        tokenizer.decode(ids);
      }
    } catch (const LoadError&) {
      ++refused;
    }
  }
  EXPECT_GT(loaded, 300u);
  EXPECT_GT(refused, 300u);
}

/// The best score of all segmentations, by brute force.
double best_score(std::string_view text, const std::map<std::string, double>& scores, double unknown) {
  if (text.empty()) return 0;
  double best = -1e300;
  for (std::size_t length = 1; length <= text.size(); ++length) {
    const auto found = scores.find(std::string(text.substr(0, length)));
    if (found != scores.end())
      best = std::max(best, found->second + best_score(text.substr(length), scores, unknown));
  }
  if (!scores.contains(std::string(text.substr(0, 1)))) {
    best = std::max(best, unknown + best_score(text.substr(1), scores, unknown));
  }
  return best;
}

/// Score of these tokens for `text`; 0 is a run of unknown characters that ends where the other tokens
/// require.
double score_of(const TokenizerSpec& spec, std::span<const TokenId> ids, std::string_view text,
                double unknown) {
  constexpr double kNever = -1e300;
  if (ids.empty()) return text.empty() ? 0 : kNever;
  if (ids[0] != 0) {
    const std::string& token = spec.tokens[static_cast<std::size_t>(ids[0])];
    if (!text.starts_with(token)) return kNever;
    return spec.log_probs[static_cast<std::size_t>(ids[0])] +
           score_of(spec, ids.subspan(1), text.substr(token.size()), unknown);
  }
  double best = kNever;
  for (std::size_t length = 1; length <= text.size(); ++length) {
    const double rest = score_of(spec, ids.subspan(1), text.substr(length), unknown);
    best = std::max(best, unknown * static_cast<double>(length) + rest);
  }
  return best;
}

TEST(Unigram, FindsTheBestOfAllWays) {
  RandomText random(11);
  for (int round = 0; round < 60; ++round) {
    TokenizerSpec spec;
    spec.source = "random";
    spec.model = TokenizerModel::kUnigram;
    spec.tokens = {"<unk>"};
    spec.log_probs = {-50};
    spec.unk = 0;
    std::map<std::string, double> scores{{"<unk>", -50}};
    for (int i = 0; i < 14; ++i) {
      std::string token;
      for (std::size_t n = 1 + random.below(4); n > 0; --n) token += "abc"[random.below(3)];
      if (scores.contains(token)) continue;
      const double score = -0.001 * static_cast<double>(1 + random.below(20000));
      scores[token] = score;
      spec.tokens.push_back(token);
      spec.log_probs.push_back(score);
    }
    double least = 0;
    for (const auto& [token, score] : scores) least = std::min(least, score);
    const Tokenizer tokenizer(spec);
    for (int i = 0; i < 20; ++i) {
      std::string text;
      for (std::size_t n = 1 + random.below(9); n > 0; --n) text += "abcd"[random.below(4)];
      const double total = score_of(spec, tokenizer.encode(text), text, least - 10);
      EXPECT_NEAR(total, best_score(text, scores, least - 10), 1e-9) << text;
    }
  }
}

TEST(Unigram, TakesWorkInProportionToTheText) {
  TokenizerSpec spec;
  spec.source = "a";
  spec.model = TokenizerModel::kUnigram;
  for (std::size_t length = 1; length <= 16; ++length) {
    spec.tokens.push_back(std::string(length, 'a'));
    spec.log_probs.push_back(-1.0 * static_cast<double>(length));
  }
  const Tokenizer tokenizer(spec);
  EncodeWork work;
  tokenizer.encode(std::string(100000, 'a'), {.work = &work});
  EXPECT_LE(work.total(), 16 * 100000u + 100);
}

// Among equal sums, the first found wins: the one whose last token begins earliest.
TEST(Unigram, OfEqualWaysTheFirstFoundStays) {
  TokenizerSpec spec;
  spec.source = "a";
  spec.model = TokenizerModel::kUnigram;
  spec.tokens = {"a", "b", "ab", "abb", "bb"};
  spec.log_probs = {-1, -1, -2, -3, -2};
  const Tokenizer tokenizer(spec);
  EXPECT_EQ(tokenizer.encode("ab"), (Ids{2}));  // found before the path through "b"
  EXPECT_EQ(tokenizer.encode("abb"), (Ids{3}));
}

TEST(Unigram, IsReadFromTokenizerJson) {
  const JsonLocation file = JsonLocation::parse(
      R"({"model": {"type": "Unigram", "unk_id": 1, "byte_fallback": false,
           "vocab": [["<s>", 0.0], ["<unk>", 0.0], ["▁he", -2.5], ["llo", -3.0], ["▁", -4.0], ["h", -5], ["e", -5],
                     ["l", -5], ["o", -5], ["▁hello", -7.0]]},
          "added_tokens": [{"id": 0, "content": "<s>", "special": true}],
          "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"},
          "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}})",
      "tokenizer.json");
  const Tokenizer tokenizer(spec_of_json(file));
  EXPECT_EQ(tokenizer.encode("hello"), (Ids{2, 3}));
  EXPECT_EQ(tokenizer.encode("<s>hello zzz"), (Ids{0, 2, 3, 4, 1}));
  EXPECT_EQ(tokenizer.decode(Ids{2, 3, 2}), "hello he");
}

// In SentencePiece's files, user-defined tokens get a computed score instead of the file's.
TEST(Unigram, UserTokensGetComputedScoresInSentencePiece) {
  SentencePieceWriter file;
  file.piece("<unk>", 0, test::kUnknownPiece)
      .piece("a", -1)
      .piece("b", -1)
      .piece("ab", -1.5F)
      .piece("xab", -20, test::kUserPiece)
      .piece("x", -2)
      .piece("abab", -0.01F, test::kUnusedPiece);
  file.trainer.integer(3, 1).integer(35, 0);
  file.normalizer.integer(3, 0);
  const Tokenizer tokenizer = tokenizer_of(file);
  EXPECT_EQ(tokenizer.encode("xab"), (Ids{4}));      // 3 * (-1) - 0.1; "x" and "ab" sum to -3.5
  EXPECT_EQ(tokenizer.encode("abab"), (Ids{3, 3}));  // the unused token is ignored
  EXPECT_EQ(tokenizer.encode("a\xC3\xA9z"), (Ids{1, 0}));
}

}  // namespace
}  // namespace reprise::models
