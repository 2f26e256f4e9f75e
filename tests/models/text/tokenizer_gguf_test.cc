#include "models/text/tokenizer_gguf.h"

#include <gtest/gtest.h>

#include "models/text/tokenizer_load.h"
#include "tests/models/expect_error.h"
#include "tests/models/files/checkpoint_files.h"
#include "tests/models/text/tokenizer_helpers.h"

namespace reprise::models {
namespace {

using Ids = std::vector<TokenId>;

struct Vocabulary {
  std::string model = "gpt2";
  std::string pre = "qwen2";
  std::string name = "test";
  std::vector<std::string> tokens;
  std::vector<std::int32_t> types;
  std::vector<std::string> merges;
  std::vector<float> scores;
};

test::GgufWriter writer_of(const Vocabulary& vocabulary) {
  test::GgufWriter writer;
  writer.text("general.name", vocabulary.name);
  writer.text("tokenizer.ggml.model", vocabulary.model);
  if (!vocabulary.pre.empty()) writer.text("tokenizer.ggml.pre", vocabulary.pre);
  writer.texts("tokenizer.ggml.tokens", vocabulary.tokens);
  writer.i32s("tokenizer.ggml.token_type", vocabulary.types);
  if (!vocabulary.merges.empty()) writer.texts("tokenizer.ggml.merges", vocabulary.merges);
  if (!vocabulary.scores.empty()) {
    writer.array("tokenizer.ggml.scores", 6, vocabulary.scores.size(), test::raw_f32(vocabulary.scores));
  }
  return writer;
}

Tokenizer load(const test::GgufWriter& writer) {
  const test::TempDir dir;
  return load_tokenizer(dir.write("model.gguf", writer.bytes()));
}

Vocabulary bpe() {
  Vocabulary out;
  out.tokens = {"a", "b", "ab", "\u0120", "<|im_end|>", "<user>", "[PAD6]", "\u0120ab"};
  out.types = {1, 1, 1, 1, 3, 4, 5, 1};
  out.merges = {"a b", "\u0120 ab", "x y"};  // the last merges unknown tokens
  return out;
}

TEST(TokenizerGguf, ByteLevelBpe) {
  test::GgufWriter writer = writer_of(bpe());
  writer.u32("tokenizer.ggml.eos_token_id", 4);
  writer.u32("tokenizer.ggml.bos_token_id", 0xFFFFFFFF);
  writer.boolean("tokenizer.ggml.add_bos_token", true);
  writer.u32("tokenizer.ggml.unknown_token_id", 0);
  const Tokenizer tokenizer = load(writer);
  EXPECT_EQ(tokenizer.encode("axb"), (Ids{2}));  // x has no token and is dropped
  EXPECT_EQ(tokenizer.encode("ab ab<|im_end|><user>"), (Ids{2, 7, 4, 5}));
  EXPECT_EQ(tokenizer.decode(Ids{2, 7, 6, 5}), "ab ab<user>");  // unused tokens have no text
  EXPECT_TRUE(tokenizer.is_special(4));
  EXPECT_FALSE(tokenizer.is_special(5));
  EXPECT_EQ(tokenizer.eos(), 4);
  EXPECT_FALSE(tokenizer.bos());
  EXPECT_TRUE(tokenizer.adds_bos());
  EXPECT_FALSE(tokenizer.covers_all_text());
}

TEST(TokenizerGguf, UnknownPreTokenizersAndModelsAreNamed) {
  Vocabulary vocabulary = bpe();
  vocabulary.pre = "brand-new";
  EXPECT_LOAD_ERROR(load(writer_of(vocabulary)), "the pre-tokenizer 'brand-new' is not known");
  vocabulary = bpe();
  vocabulary.model = "t5";
  EXPECT_LOAD_ERROR(load(writer_of(vocabulary)), "the tokenizer 't5' is not supported");
  vocabulary.model = "none";
  EXPECT_LOAD_ERROR(load(writer_of(vocabulary)), "the model has no tokenizer");
  vocabulary = bpe();
  vocabulary.types.pop_back();
  EXPECT_LOAD_ERROR(load(writer_of(vocabulary)), "fewer types than tokens");
  vocabulary = bpe();
  vocabulary.merges.clear();
  EXPECT_LOAD_ERROR(load(writer_of(vocabulary)), "tokenizer.ggml.merges");
  vocabulary = bpe();
  vocabulary.pre.clear();
  EXPECT_EQ(load(writer_of(vocabulary)).encode("ab"), (Ids{2}));  // the default pattern
}

TEST(TokenizerGguf, ControlTokensThatAreCalledNormal) {
  Vocabulary vocabulary = bpe();
  vocabulary.types[4] = 1;
  const Tokenizer tokenizer = load(writer_of(vocabulary));
  EXPECT_TRUE(tokenizer.is_special(4));
  EXPECT_EQ(tokenizer.encode("a<|im_end|>"), (Ids{0, 4}));
}

Vocabulary spm() {
  Vocabulary out;
  out.model = "llama";
  out.pre = "";
  out.tokens = {"<unk>", "<s>", "</s>", "<0x21>", "\u2581", "a", "\u2581a", "<|end|>"};
  out.types = {2, 3, 3, 6, 1, 1, 1, 3};
  out.scores = {0, 0, 0, 0, -1, -2, -3, 0};
  return out;
}

TEST(TokenizerGguf, SentencePiece) {
  const Tokenizer tokenizer = load(writer_of(spm()));
  EXPECT_EQ(tokenizer.encode("a a!"), (Ids{6, 6, 3}));
  EXPECT_EQ(tokenizer.encode("a?"), (Ids{6, 0}));
  EXPECT_EQ(tokenizer.decode(Ids{6, 6, 3}), "a a!");
  EXPECT_EQ(tokenizer.encode("<|end|> a"), (Ids{7, 4, 6}));
  EXPECT_EQ(tokenizer.bos(), 1);
  EXPECT_EQ(tokenizer.eos(), 2);
  EXPECT_EQ(tokenizer.unk(), 0);
  EXPECT_TRUE(tokenizer.adds_bos());

  test::GgufWriter plain = writer_of(spm());
  plain.boolean("tokenizer.ggml.add_space_prefix", false);
  EXPECT_EQ(load(plain).encode("a a"), (Ids{5, 6}));
}

TEST(TokenizerGguf, Phi3SwallowsSpaceBehindSpecialTokens) {
  Vocabulary vocabulary = spm();
  vocabulary.name = "Phi-3 mini";
  const Tokenizer tokenizer = load(writer_of(vocabulary));
  EXPECT_EQ(tokenizer.encode("<|end|> \n a"), (Ids{7, 6}));
  EXPECT_EQ(tokenizer.encode("<s> a"), (Ids{1, 4, 6}));
}

TEST(TokenizerGguf, WordPiece) {
  Vocabulary vocabulary;
  vocabulary.model = "bert";
  vocabulary.pre = "";
  vocabulary.tokens = {"[UNK]", "\u2581run", "ning", "\u2581!", "\u2581cafe", "\u2581\u4E2D", "[SEP]"};
  vocabulary.types = {2, 1, 1, 1, 1, 1, 3};
  test::GgufWriter writer = writer_of(vocabulary);
  writer.u32("tokenizer.ggml.unknown_token_id", 0);
  const Tokenizer tokenizer = load(writer);
  EXPECT_EQ(tokenizer.encode("Running!  Caf\u00E9\u4E2D"), (Ids{1, 2, 3, 4, 5}));
  EXPECT_EQ(tokenizer.encode("runx run[SEP]"), (Ids{0, 1, 6}));
  EXPECT_EQ(tokenizer.encode(" \n"), Ids{});
  EXPECT_EQ(tokenizer.decode(Ids{1, 2, 3}), "running !");
  EXPECT_FALSE(tokenizer.covers_all_text());
}

TEST(TokenizerGguf, Rwkv) {
  Vocabulary vocabulary;
  vocabulary.model = "rwkv";
  vocabulary.pre = "";
  vocabulary.tokens = {"<s>", "\\x00", "a", "ab", "\\n\\n", "\\n", "\\xe4\\xb8", "\\xad", "\\\\"};
  vocabulary.types = {3, 1, 1, 1, 1, 1, 1, 1, 1};
  const Tokenizer tokenizer = load(writer_of(vocabulary));
  EXPECT_EQ(tokenizer.encode("aba\n\n\n\u4E2D\\"), (Ids{3, 2, 4, 5, 6, 7, 8}));
  EXPECT_EQ(tokenizer.decode(Ids{3, 2, 4, 5, 6, 7, 8}), "aba\n\n\n\u4E2D\\");
}

}  // namespace
}  // namespace reprise::models
