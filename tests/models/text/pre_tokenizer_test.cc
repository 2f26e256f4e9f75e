#include "models/text/pre_tokenizer.h"

#include <gtest/gtest.h>

#include "models/text/regex.h"
#include "models/text/tokenizer_gguf.h"
#include "tests/models/expect_error.h"
#include "tests/models/text/tokenizer_helpers.h"
#include "tests/sanitized.h"

namespace reprise::models {
namespace {

using Kind = PreTokenizerStep::Kind;
using Pieces = std::vector<std::string>;

class Collector final : public PieceSink {
 public:
  void piece(std::string_view bytes) override { pieces.emplace_back(bytes); }
  Pieces pieces;
};

Pieces cut(const std::vector<PreTokenizerStep>& steps, std::string_view text, bool is_first = true) {
  const PreTokenizer pre_tokenizer(steps, "test");
  EncodeWork work;
  PreTokenizer::Session session(pre_tokenizer, work);
  Collector collector;
  pre_tokenizer.run(text, is_first, session, collector);
  return collector.pieces;
}

PreTokenizerStep split(std::string pattern, SplitBehavior behavior = SplitBehavior::kIsolated,
                       Kind kind = Kind::kSplitRegex) {
  PreTokenizerStep step;
  step.kind = kind;
  step.pattern = std::move(pattern);
  step.behavior = behavior;
  return step;
}

PreTokenizerStep step_of(Kind kind) {
  PreTokenizerStep step;
  step.kind = kind;
  return step;
}

TEST(PreTokenizer, WithoutStepsTheTextIsOnePiece) {
  EXPECT_EQ(cut({}, "a b"), (Pieces{"a b"}));
  EXPECT_EQ(cut({}, ""), Pieces{});
}

// The example in the documentation of Hugging Face's SplitDelimiterBehavior.
TEST(PreTokenizer, BehaviorsOfSplits) {
  const std::string text = "the-final--countdown";
  for (const Kind kind : {Kind::kSplitRegex, Kind::kSplitText}) {
    const auto with = [&](SplitBehavior behavior) { return cut({split("-", behavior, kind)}, text); };
    EXPECT_EQ(with(SplitBehavior::kRemoved), (Pieces{"the", "final", "countdown"}));
    EXPECT_EQ(with(SplitBehavior::kIsolated), (Pieces{"the", "-", "final", "-", "-", "countdown"}));
    EXPECT_EQ(with(SplitBehavior::kMergedWithPrevious), (Pieces{"the-", "final-", "-", "countdown"}));
    EXPECT_EQ(with(SplitBehavior::kMergedWithNext), (Pieces{"the", "-final", "-", "-countdown"}));
    EXPECT_EQ(with(SplitBehavior::kContiguous), (Pieces{"the", "-", "final", "--", "countdown"}));
  }
}

TEST(PreTokenizer, InvertedSplitsKeepWhatMatches) {
  PreTokenizerStep words = split("[a-z]+", SplitBehavior::kRemoved);
  words.invert = true;
  EXPECT_EQ(cut({words}, "ab, cd!"), (Pieces{"ab", "cd"}));
}

TEST(PreTokenizer, LaterStepsSeePiecesAsTexts) {
  EXPECT_EQ(cut({split("\\d"), split("a$")}, "xa1ab"), (Pieces{"x", "a", "1", "ab"}));
  EXPECT_EQ(
      cut({split("\\p{N}"), split(regex(WordPattern{.family = WordPattern::Family::kGpt2}))}, "a  1  b"),
      (Pieces{"a", "  ", "1", " ", " b"}));
}

TEST(PreTokenizer, Metaspace) {
  PreTokenizerStep metaspace = step_of(Kind::kMetaspace);
  EXPECT_EQ(cut({metaspace}, "a  b"), (Pieces{"a", "\u2581", "\u2581b"}));
  metaspace.split = false;
  EXPECT_EQ(cut({metaspace}, "a b"), (Pieces{"a\u2581b"}));
  metaspace.prepend = PreTokenizerStep::Prepend::kAlways;
  EXPECT_EQ(cut({metaspace}, "a b", false), (Pieces{"\u2581a\u2581b"}));
  EXPECT_EQ(cut({metaspace}, " a"), (Pieces{"\u2581a"}));
  metaspace.prepend = PreTokenizerStep::Prepend::kFirst;
  EXPECT_EQ(cut({metaspace}, "a", false), (Pieces{"a"}));
  EXPECT_EQ(cut({metaspace}, "a", true), (Pieces{"\u2581a"}));
}

TEST(PreTokenizer, PrefixSpaceAndBytes) {
  EXPECT_EQ(cut({step_of(Kind::kPrefixSpace), split("\\S+"), step_of(Kind::kByteLevel)}, "ab \u00E9"),
            (Pieces{" ", "ab", " ", "\u00E9"}));
  // After ByteLevel a step sees letters: byte 0xBD of a character becomes the letter ½, a number.
  EXPECT_EQ(cut({step_of(Kind::kByteLevel), split("\\p{N}+")}, "\u00FD1"), (Pieces{"\xC3",
                                                                                   "\xBD"
                                                                                   "1"}));
  EXPECT_LOAD_ERROR(cut({step_of(Kind::kByteLevel), step_of(Kind::kByteLevel)}, "a"),
                    "only splits are supported behind ByteLevel");
}

TEST(PreTokenizer, BadStepsAreRefused) {
  EXPECT_LOAD_ERROR(cut({split("(")}, "a"), "test: pre_tokenizer: pattern: ");
  PreTokenizerStep metaspace = step_of(Kind::kMetaspace);
  metaspace.replacement.clear();
  EXPECT_LOAD_ERROR(cut({metaspace}, "a"), "empty replacement");
  EXPECT_LOAD_ERROR(cut(std::vector<PreTokenizerStep>(65), "a"), "more than 64 steps");
}

TEST(PreTokenizer, TrailingSpacePatternIsTheSameInLinearForm) {
  const Regex original(to_pcre2("\\s+$"));
  test::RandomText random(11);
  for (int i = 0; i < 3000; ++i) {
    std::string text;
    for (std::size_t n = random.below(12); n > 0; --n) {
      text += random.pick<std::string>({" ", "\t", "a", "\u3000", "\n"});
    }
    Regex::Matcher matcher(original);
    matcher.start(text);
    Pieces expected;
    std::size_t done = 0;
    for (; matcher.next(); done = matcher.end()) {
      if (matcher.begin() > done) expected.push_back(text.substr(done, matcher.begin() - done));
      expected.push_back(text.substr(matcher.begin(), matcher.end() - matcher.begin()));
    }
    if (done < text.size()) expected.push_back(text.substr(done));
    ASSERT_EQ(cut({split("\\s+$")}, text), expected) << text;
  }
}

const std::vector<std::string>& known_names() {
  static const std::vector<std::string> names = {"default",     "gpt-2",         "mpt",
                                                 "olmo",        "phi-2",         "starcoder",
                                                 "refact",      "command-r",     "smollm",
                                                 "codeshell",   "llama3",        "llama-bpe",
                                                 "falcon3",     "falcon-h1",     "lfm2",
                                                 "dbrx",        "smaug-bpe",     "glm4",
                                                 "qwen2",       "stablelm2",     "deepseek-r1-qwen",
                                                 "qwen35",      "minicpm5",      "laguna",
                                                 "falcon",      "bloom",         "poro-chat",
                                                 "viking",      "deepseek-llm",  "deepseek-coder",
                                                 "deepseek-v3", "hunyuan-dense", "tekken",
                                                 "gpt-4o",      "llama4",        "youtu",
                                                 "kimi-k2",     "bailingmoe",    "seed-coder",
                                                 "jais-2",      "exaone-moe",    "chameleon"};
  return names;
}

TEST(PreTokenizerNames, AllCompileAndLoseNothing) {
  test::RandomText random(12);
  for (const std::string& name : known_names()) {
    const auto named = find_pre_tokenizer(name);
    ASSERT_TRUE(named) << name;
    for (int i = 0; i < 50; ++i) {
      const std::string text = random.text(20);
      std::string joined;
      for (const std::string& piece : cut(named->steps, text)) joined += piece;
      ASSERT_EQ(joined, text) << name;
    }
  }
  EXPECT_FALSE(find_pre_tokenizer("no-such-name"));
  EXPECT_FALSE(find_pre_tokenizer(""));
}

TEST(PreTokenizerNames, NoPatternGivesUpOnHostileText) {
  for (const std::string& name : known_names()) {
    const auto named = find_pre_tokenizer(name);
    ASSERT_TRUE(named) << name;
    for (const char* unit :
         {"a", "A", "aA", " ", "\n", " \n", "'", "7", "!", "\u0301", "\u4E2D", "\u0E01", "\U0001F600"}) {
      for (const char* end : {"", "x", " ", "1"}) {
        std::string text;
        while (text.size() < (kSanitized ? 10000 : 100000)) text += unit;
        text += end;
        EXPECT_NO_THROW(cut(named->steps, text)) << name << " " << unit << end;
      }
    }
  }
}

TEST(PreTokenizerNames, SomeOfThemByExample) {
  const auto pieces = [](std::string_view name, std::string_view text) {
    return cut(find_pre_tokenizer(name)->steps, text);
  };
  EXPECT_EQ(pieces("gpt-2", "I'll go  now 123"), (Pieces{"I", "'ll", " go", " ", " now", " 123"}));
  EXPECT_EQ(pieces("starcoder", "x12"), (Pieces{"x", "1", "2"}));
  EXPECT_EQ(pieces("llama-bpe", "1234 ab\n\n"), (Pieces{"123", "4", " ab", "\n\n"}));
  EXPECT_EQ(pieces("qwen2", "12 e\u0301"), (Pieces{"1", "2", " e", "\u0301"}));
  EXPECT_EQ(pieces("qwen35", "12 e\u0301"), (Pieces{"1", "2", " e\u0301"}));
  EXPECT_EQ(pieces("falcon", "a1234!"), (Pieces{"a", "123", "4", "!"}));
  EXPECT_EQ(pieces("gpt-4o", "HelloWorld's"), (Pieces{"Hello", "World's"}));
  EXPECT_EQ(pieces("deepseek-v3", "12345 \u4E2D\u6587a"), (Pieces{"123", "45", " ", "\u4E2D\u6587", "a"}));
  EXPECT_EQ(pieces("kimi-k2", "ab\u4E2D\u6587cd"), (Pieces{"ab", "\u4E2D\u6587", "cd"}));
}

}  // namespace
}  // namespace reprise::models
