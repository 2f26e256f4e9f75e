#include "models/text/tokenizer_json.h"

#include <gtest/gtest.h>

#include "models/text/tokenizer_load.h"
#include "tests/models/expect_error.h"
#include "tests/models/files/checkpoint_files.h"
#include "tests/models/text/tokenizer_helpers.h"

namespace reprise::models {
namespace {

using Ids = std::vector<TokenId>;

JsonLocation json(std::string_view text) {
  return JsonLocation::parse(text, "tokenizer.json");
}

Tokenizer build(std::string_view text) {
  return Tokenizer(spec_of_json(json(text)));
}

// A tokenizer.json with a BPE over a, b, c and the given members.
std::string small(std::string_view members, std::string_view model_members = "") {
  std::string out =
      R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4, "Ġ": 5, "<unk>": 6},
    "merges": ["a b", "ab c"])";
  if (!model_members.empty()) out.append(", ").append(model_members);
  out += "}";
  if (!members.empty()) out.append(", ").append(members);
  return out += "}";
}

TEST(TokenizerJson, MergesAsStringsOrPairs) {
  EXPECT_EQ(build(small("")).encode("abcab"), (Ids{4, 3}));
  const std::string pairs =
      R"({"model": {"vocab": {"a": 0, "b ": 1, "ab ": 2, "b": 3, " ": 4}, "merges": [["b", " "], ["a", "b "]]}})";
  EXPECT_EQ(build(pairs).encode("ab "), (Ids{2}));
  EXPECT_LOAD_ERROR(build(R"({"model": {"vocab": {}, "merges": ["a b c"]}})"),
                    "model.merges[0]: a merge that is not of two");
  EXPECT_LOAD_ERROR(build(R"({"model": {"vocab": {}, "merges": [["a"]]}})"),
                    "a merge that is not of two tokens");
  EXPECT_LOAD_ERROR(build(R"({"model": {"vocab": {"a": 0}, "merges": ["a a"]}})"), "no token 'aa'");
}

TEST(TokenizerJson, IdsAreChecked) {
  EXPECT_LOAD_ERROR(build(R"({"model": {"vocab": {"a": -1}, "merges": []}})"), "a token id that is not");
  EXPECT_LOAD_ERROR(build(R"({"model": {"vocab": {"a": 99999999}, "merges": []}})"),
                    "a token id that is not");
  EXPECT_LOAD_ERROR(build(R"({"model": {"vocab": {"a": 0, "b": 0}, "merges": []}})"),
                    "two tokens with one id");
  EXPECT_LOAD_ERROR(build(R"({"model": {"vocab": {"a": "0"}, "merges": []}})"), "model.vocab");
  EXPECT_LOAD_ERROR(build(R"({"model": {"vocab": {}}})"), "merges");
  EXPECT_LOAD_ERROR(build("{}"), "model");
}

TEST(TokenizerJson, WhatIsNotSupportedIsNamed) {
  EXPECT_LOAD_ERROR(build(R"({"model": {"type": "WordLevel", "vocab": {}}})"),
                    "the model 'WordLevel' is not supported");
  EXPECT_LOAD_ERROR(build(R"({"model": {"type": "Unigram", "vocab": [["a", -1.0], ["b"]]}})"),
                    "a token without a probability");
  EXPECT_LOAD_ERROR(build(small("", R"("end_of_word_suffix": "</w>")")),
                    "end_of_word_suffix is not supported");
  EXPECT_LOAD_ERROR(build(small(R"("normalizer": {"type": "Lowercase"})")),
                    "the normalizer 'Lowercase' is not supported");
  EXPECT_LOAD_ERROR(build(small(R"("pre_tokenizer": {"type": "BertPreTokenizer"})")),
                    "the pre-tokenizer 'BertPreTokenizer' is not supported");
  EXPECT_LOAD_ERROR(build(small(R"("decoder": {"type": "CTC"})")), "the decoder 'CTC' is not supported");
  EXPECT_LOAD_ERROR(
      build(
          small(R"("pre_tokenizer": {"type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated"})")),
      "pattern: ");
  EXPECT_LOAD_ERROR(
      build(small(R"("pre_tokenizer": {"type": "Split", "pattern": {"Regex": "a"}, "behavior": "Odd"})")),
      "behavior 'Odd' is not supported");
  EXPECT_LOAD_ERROR(build(small(R"("decoder": {"type": "Strip", "content": " ", "start": 1, "stop": 0})")),
                    "Strip");
  EXPECT_LOAD_ERROR(build(small(R"("normalizer": {"type": "Sequence"})")), "normalizers");
  EXPECT_LOAD_ERROR(build(small(R"("normalizer": "NFC")")), "normalizer");
}

TEST(TokenizerJson, Options) {
  EXPECT_EQ(build(small("", R"("unk_token": "<unk>")")).encode("axb"), (Ids{0, 6, 1}));
  EXPECT_EQ(build(small("", R"("unk_token": "<unk>", "fuse_unk": true)")).encode("axyb"), (Ids{0, 6, 1}));
  EXPECT_EQ(build(small("")).encode("axb"), (Ids{3}));  // x is dropped, as in the reference
  EXPECT_EQ(build(small("", R"("ignore_merges": true)")).encode("<unk>"), (Ids{6}));
}

TEST(TokenizerJson, NormalizersInSequence) {
  const Tokenizer tokenizer = build(small(R"("normalizer": {"type": "Sequence", "normalizers": [
    {"type": "NFKC"}, {"type": "Strip", "strip_left": true, "strip_right": true},
    {"type": "Replace", "pattern": {"String": "x"}, "content": "a"},
    {"type": "Replace", "pattern": {"Regex": "y+"}, "content": "b"},
    {"type": "Prepend", "prepend": "c"}]})"));
  EXPECT_EQ(tokenizer.encode("  xyy\uFF43 "), (Ids{2, 4}));
}

TEST(TokenizerJson, ByteLevelPutsASpaceInFrontUnlessTold) {
  const std::string with =
      small(R"("pre_tokenizer": {"type": "ByteLevel"}, "decoder": {"type": "ByteLevel"})");
  EXPECT_EQ(build(with).encode("ab"), (Ids{5, 3}));
  EXPECT_EQ(build(with).decode(Ids{5, 3}), " ab");
  const std::string without = small(R"("pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false})");
  EXPECT_EQ(build(without).encode("ab a"), (Ids{3, 5, 0}));
  EXPECT_EQ(build(without).decode(Ids{3, 5, 0}), "ab a");
}

TEST(TokenizerJson, OtherPreTokenizers) {
  const auto pieces = [](std::string_view step) {
    std::vector<PreTokenizerStep> steps = pre_tokenizer_of_json(json(step));
    return steps;
  };
  EXPECT_EQ(pieces(R"({"type": "Digits", "individual_digits": true})").at(0).pattern, "\\p{N}");
  EXPECT_EQ(pieces(R"({"type": "Digits", "individual_digits": false})").at(0).pattern, "\\p{N}+");
  EXPECT_EQ(pieces(R"({"type": "Punctuation", "behavior": "Contiguous"})").at(0).behavior,
            SplitBehavior::kContiguous);
  EXPECT_EQ(
      pieces(R"({"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious"})").at(0).kind,
      PreTokenizerStep::Kind::kSplitText);
  EXPECT_EQ(pieces(R"({"type": "Metaspace", "replacement": "▁", "add_prefix_space": false})").at(0).prepend,
            PreTokenizerStep::Prepend::kNever);
  EXPECT_EQ(pieces(R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first"})").at(0).prepend,
            PreTokenizerStep::Prepend::kFirst);
  EXPECT_EQ(
      pieces(R"({"type": "Sequence", "pretokenizers": [{"type": "Whitespace"}, {"type": "ByteLevel"}]})")
          .size(),
      4u);
}

// The structure of Llama 2's tokenizer.json.
TEST(TokenizerJson, SentencePieceAsBpe) {
  const Tokenizer tokenizer = build(R"({
    "added_tokens": [{"id": 0, "content": "<s>", "special": true, "normalized": false}],
    "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
      {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
    "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
      {"Sequence": {"id": "A", "type_id": 0}}]},
    "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
      {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
    "model": {"type": "BPE", "byte_fallback": true, "fuse_unk": true, "unk_token": null,
      "vocab": {"<s>": 0, "▁": 1, "a": 2, "▁a": 3, "<0xC3>": 4, "<0xA9>": 5}, "merges": ["▁ a"]}})");
  EXPECT_EQ(tokenizer.encode("a aé"), (Ids{3, 3, 4, 5}));
  EXPECT_EQ(tokenizer.decode(Ids{3, 3, 4, 5}), "a aé");
  EXPECT_EQ(tokenizer.decode(Ids{0, 3}, {.skip_special = true}), "a");
  EXPECT_EQ(tokenizer.decode(Ids{3}, {.continuation = true}), " a");
  EXPECT_EQ(tokenizer.encode("<s>a"), (Ids{0, 3}));
  EXPECT_EQ(tokenizer.bos(), 0);
  EXPECT_TRUE(tokenizer.adds_bos());
  EXPECT_FALSE(tokenizer.adds_eos());
}

TEST(TokenizerJson, MetaspaceDecoderDropsTheFirstTokensSpaces) {
  const Tokenizer tokenizer =
      build(R"({"model": {"vocab": {"▁a": 0, "▁▁": 1, "▁": 2, "a": 3}, "merges": ["▁ a", "▁ ▁"]},
    "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true},
    "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}})");
  EXPECT_EQ(tokenizer.encode("a a"), (Ids{0, 0}));
  EXPECT_EQ(tokenizer.decode(Ids{0, 0}), "a a");
  EXPECT_EQ(tokenizer.decode(Ids{1, 0}), " a");
}

TEST(TokenizerJson, ConfigNamesAndAddsTokens) {
  const JsonLocation config =
      json(R"({"bos_token": {"content": "<s>"}, "eos_token": "</s>", "pad_token": null, "add_bos_token": true,
    "added_tokens_decoder": {"7": {"content": "<s>", "special": true}, "8": {"content": "</s>", "special": true, "rstrip": true}}})");
  const Tokenizer tokenizer(spec_of_json(json(small("")), config));
  EXPECT_EQ(tokenizer.bos(), 7);
  EXPECT_EQ(tokenizer.eos(), 8);
  EXPECT_FALSE(tokenizer.pad());
  EXPECT_TRUE(tokenizer.adds_bos());
  EXPECT_EQ(tokenizer.encode("a</s>  <s>"), (Ids{0, 8, 7}));
  EXPECT_LOAD_ERROR(
      spec_of_json(json(small("")), json(R"({"added_tokens_decoder": {"x": {"content": "y"}}})")),
      "the key is no token id");
}

TEST(TokenizerJson, AddedTokensTakeTheModelsId) {
  const Tokenizer tokenizer =
      build(small(R"("added_tokens": [{"id": 9, "content": "ab", "special": false}])"));
  EXPECT_EQ(tokenizer.encode("abc"), (Ids{3, 2}));
}

TEST(TokenizerLoad, FoldersAndFiles) {
  const test::TempDir dir;
  EXPECT_LOAD_ERROR(load_tokenizer(dir.path()),
                    "tokenizer.json: the folder has neither this file nor tokenizer.model");
  EXPECT_LOAD_ERROR(load_tokenizer(dir.path() / "none"), "no such file or folder");
  dir.write("tokenizer.json", small(""));
  EXPECT_EQ(load_tokenizer(dir.path()).encode("abc"), (Ids{4}));
  dir.write("tokenizer_config.json", R"({"eos_token": "c"})");
  EXPECT_EQ(load_tokenizer(dir.path()).eos(), 2);
  dir.write("tokenizer_config.json", "{");
  EXPECT_LOAD_ERROR(load_tokenizer(dir.path()), "tokenizer_config.json");
}

}  // namespace
}  // namespace reprise::models
