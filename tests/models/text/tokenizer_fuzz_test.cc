// Damaged tokenizer.json files: whatever is left must load and work, or end in a LoadError. A pattern may
// also give up on a text with a RegexError. Anything else fails.
//
// REPRISE_FUZZ_CASES sets the number of cases (default 20000).

#include <gtest/gtest.h>

#include "models/files/load_error.h"
#include "models/text/regex.h"
#include "models/text/text_stream.h"
#include "tests/models/text/tokenizer_helpers.h"

namespace reprise::models {
namespace {

using test::RandomText;

std::size_t fuzz_cases() {
  const char* text = std::getenv("REPRISE_FUZZ_CASES");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 20000;
}

const std::vector<std::string>& seeds() {
  static const std::vector<std::string> files = {
      R"({"added_tokens": [{"id": 9, "content": "<s>", "special": true, "normalized": false, "lstrip": true},
        {"id": 10, "content": "wörd", "single_word": true, "rstrip": true, "normalized": true}],
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Strip"},
          {"type": "Replace", "pattern": {"Regex": "x+|[y&&[^z]]"}, "content": "a"}]},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
          {"type": "Split", "pattern": {"Regex": "(?i:'s|'t)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|\\s+(?!\\S)|\\s+"},
           "behavior": "Isolated", "invert": false},
          {"type": "Digits", "individual_digits": true}, {"type": "Punctuation", "behavior": "Contiguous"},
          {"type": "ByteLevel", "add_prefix_space": true, "use_regex": true},
          {"type": "Split", "pattern": {"String": "b"}, "behavior": "MergedWithNext"}]},
        "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}]},
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "unk_token": "c", "ignore_merges": true, "fuse_unk": false,
          "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4, "Ġ": 5, "Ġab": 6, "Ã": 7, "©": 8},
          "merges": ["a b", "ab c", "Ġ ab"]}})",
      R"({"added_tokens": [{"id": 0, "content": "<s>", "special": true, "normalized": true}],
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
          {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": true},
        "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
          {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "BPE", "byte_fallback": true, "fuse_unk": true, "unk_token": "<s>",
          "vocab": {"<s>": 0, "▁": 1, "a": 2, "▁a": 3, "<0xC3>": 4, "<0xA9>": 5, "b": 6}, "merges": [["▁", "a"]]}})"};
  return files;
}

// Words to put in place of others: names of steps, odd values, bits of patterns.
const std::vector<std::string>& words() {
  static const std::vector<std::string> list = {"\"NFC\"",
                                                "\"NFD\"",
                                                "\"NFKC\"",
                                                "\"Sequence\"",
                                                "\"Split\"",
                                                "\"ByteLevel\"",
                                                "\"Digits\"",
                                                "\"Metaspace\"",
                                                "\"Punctuation\"",
                                                "\"Whitespace\"",
                                                "\"WhitespaceSplit\"",
                                                "\"CharDelimiterSplit\"",
                                                "\"Replace\"",
                                                "\"Strip\"",
                                                "\"Prepend\"",
                                                "\"Fuse\"",
                                                "\"ByteFallback\"",
                                                "\"Isolated\"",
                                                "\"Removed\"",
                                                "\"MergedWithPrevious\"",
                                                "\"MergedWithNext\"",
                                                "\"Contiguous\"",
                                                "\"always\"",
                                                "\"never\"",
                                                "\"\"",
                                                "null",
                                                "true",
                                                "false",
                                                "0",
                                                "1",
                                                "-1",
                                                "4194303",
                                                "4194304",
                                                "1e9",
                                                "9223372036854775807",
                                                "[]",
                                                "{}",
                                                "[[]]",
                                                "{\"String\": \"\"}",
                                                "{\"Regex\": \"\"}",
                                                "{\"Regex\": \"(a*)*b\"}",
                                                "{\"Regex\": \"[a&&\"}",
                                                "{\"Regex\": \"(?<=a+)b\"}",
                                                "{\"Regex\": \"\\\\p{Han}+\"}",
                                                "{\"Regex\": \"(?=b)\"}",
                                                "{\"Regex\": \"(((((((a{1,99}){1,99}\"}",
                                                "\"Ġ\"",
                                                "\"▁\"",
                                                "\"\\u0000\"",
                                                "\"<0xC3>\"",
                                                "\"a b\""};
  return list;
}

// A place where a JSON value begins, as far as commas, colons and brackets tell.
std::pair<std::size_t, std::size_t> value_at(const std::string& text, RandomText& random) {
  std::size_t begin = random.below(text.size());
  while (begin < text.size() && std::string_view(":,[{").find(text[begin]) == std::string_view::npos) ++begin;
  begin = std::min(begin + 1, text.size());
  std::size_t end = begin;
  while (end < text.size() && std::string_view(",]}").find(text[end]) == std::string_view::npos) ++end;
  return {begin, end};
}

std::string damaged(std::string text, RandomText& random) {
  for (std::size_t changes = 1 + random.below(3); changes > 0 && !text.empty(); --changes) {
    const std::size_t at = random.below(text.size());
    const auto [begin, end] = value_at(text, random);
    switch (random.below(7)) {
      case 0:
        text[at] = static_cast<char>(random.below(256));
        break;
      case 1:
        text.insert(at, 1, "\\(){}[]|*+?.^$&-'\"aé\xCC"[random.below(23)]);
        break;
      case 2:
        text.erase(at, 1 + random.below(3));
        break;
      case 3:
      case 4:
        text.replace(begin, end - begin, random.pick(words()));
        break;
      case 5:
        text.replace(begin, end - begin, text.substr(at, random.below(60)));
        break;
      default:
        text.resize(random.below(8) == 0 ? at : text.size());
    }
  }
  return text;
}

void use(const Tokenizer& tokenizer) {
  for (const char* text : {"", "ab abc <s> 123 wörd's é \xFF x yz", "   \n\n  a", "ababababab cabab"}) {
    for (const bool special : {false, true}) {
      const std::vector<TokenId> ids = tokenizer.encode(text, {.parse_special = special});
      TextStream stream(tokenizer, {.skip_special = special});
      std::string streamed;
      for (const TokenId id : ids) {
        ASSERT_LT(static_cast<std::size_t>(id), tokenizer.vocab_size());
        streamed += stream.push(id);
      }
      streamed += stream.flush();
      ASSERT_EQ(streamed, tokenizer.decode(ids, {.skip_special = special}));
    }
  }
}

TEST(TokenizerFuzz, TheUndamagedFilesLoad) {
  for (const std::string& seed : seeds()) use(Tokenizer(spec_of_json(JsonPlace::parse(seed, "seed"))));
}

TEST(TokenizerFuzz, DamagedFilesLoadOrAreRefused) {
  RandomText random(19);
  std::size_t loaded = 0, refused = 0, gave_up = 0;
  for (std::size_t i = 0; i < fuzz_cases(); ++i) {
    const std::string text = damaged(random.pick(seeds()), random);
    try {
      const JsonPlace file = JsonPlace::parse(text, "damaged");
      const Tokenizer tokenizer(
          spec_of_json(file, random.below(4) == 0 ? std::optional(file) : std::nullopt));
      ++loaded;
      use(tokenizer);
    } catch (const LoadError&) {
      ++refused;
    } catch (const RegexError&) {
      ++gave_up;
    }
  }
  std::printf("%zu loaded, %zu refused, %zu patterns gave up\n", loaded, refused, gave_up);
  EXPECT_GT(loaded, fuzz_cases() / 50);
  EXPECT_GT(refused, fuzz_cases() / 10);
}

}  // namespace
}  // namespace reprise::models
