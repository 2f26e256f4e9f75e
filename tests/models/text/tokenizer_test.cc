// Encoding and decoding end to end, with the vocabulary in tests/data unless stated.

#include "models/text/tokenizer.h"

#include <gtest/gtest.h>

#include <thread>

#include "models/text/regex.h"
#include "models/text/unicode.h"
#include "tests/models/expect_error.h"
#include "tests/models/text/tokenizer_helpers.h"

namespace reprise::models {
namespace {

using test::RandomText;
using Ids = std::vector<TokenId>;

Tokenizer byte_level_tokenizer() {
  TokenizerSpec spec = test::qwen_like_spec();
  spec.normalizer.clear();  // NFC changes text
  return Tokenizer(std::move(spec));
}

TEST(Tokenizer, RoundTripOfRandomBytes) {
  const Tokenizer tokenizer = byte_level_tokenizer();
  ASSERT_TRUE(tokenizer.covers_all_text());
  RandomText random(13);
  for (int i = 0; i < 3000; ++i) {
    std::string text = random.bytes(random.below(40));
    if (random.below(2)) {
      text.insert(0, random.text(5));
      text += random.text(5);
    }
    ASSERT_EQ(tokenizer.decode_bytes(tokenizer.encode(text)), text);
    ASSERT_EQ(tokenizer.decode_bytes(tokenizer.encode(text, {.parse_special = false})), text);
  }
}

TEST(Tokenizer, RoundTripOfRandomUnicode) {
  const Tokenizer tokenizer = byte_level_tokenizer();
  const Tokenizer normalizing(test::qwen_like_spec());
  RandomText random(14);
  for (int i = 0; i < 3000; ++i) {
    const std::string text = random.text(30);
    ASSERT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
    // Special tokens split the text, and the parts are normalized separately.
    if (text.find('<') == std::string::npos) {
      ASSERT_EQ(normalizing.decode(normalizing.encode(text)), normalize(text, NormalForm::kNfc));
    }
  }
}

TEST(Tokenizer, EqualsTheNaiveLoopOnRandomText) {
  TokenizerSpec spec = test::qwen_like_spec();
  spec.normalizer.clear();
  const Tokenizer tokenizer(spec);
  const auto ranks = test::ranks_of(spec);
  const Regex words(to_pcre2(spec.pre_tokenizer.front().pattern));
  RandomText random(15);
  for (int i = 0; i < 1500; ++i) {
    std::string text;
    for (char c : random.text(25)) {
      if (static_cast<unsigned char>(c) < 0x80 && c != '<') text += c;
    }
    std::vector<std::string> expected;
    Regex::Matcher matcher(words);
    matcher.start(text);
    while (matcher.next()) {
      std::vector<std::string> symbols;
      for (std::size_t at = matcher.begin(); at < matcher.end(); ++at)
        symbols.push_back(to_letters(text.substr(at, 1)));
      for (std::string& symbol : test::merge_naively(symbols, ranks)) expected.push_back(std::move(symbol));
    }
    std::vector<std::string> got;
    for (const TokenId id : tokenizer.encode(text)) got.emplace_back(tokenizer.token_text(id));
    ASSERT_EQ(got, expected) << text;
  }
}

TEST(Tokenizer, LooksTokensUp) {
  const Tokenizer tokenizer(test::qwen_like_spec());
  EXPECT_EQ(tokenizer.vocab_size(), 4096u);
  EXPECT_EQ(tokenizer.find("<|im_end|>"), 4086);
  EXPECT_EQ(tokenizer.token_text(4086), "<|im_end|>");
  EXPECT_EQ(tokenizer.token_bytes(4086), "<|im_end|>");
  EXPECT_TRUE(tokenizer.is_special(4086));
  EXPECT_FALSE(tokenizer.is_special(4090));  // <think> is an added token but not special
  const auto the = tokenizer.find("\u0120the");
  ASSERT_TRUE(the);
  EXPECT_EQ(tokenizer.token_bytes(*the), " the");
  EXPECT_FALSE(tokenizer.find("no such token"));
  for (const TokenId id : {-1, 4096, 1 << 30}) {
    EXPECT_EQ(tokenizer.token_text(id), "");
    EXPECT_EQ(tokenizer.token_bytes(id), "");
    EXPECT_FALSE(tokenizer.is_special(id));
    EXPECT_EQ(tokenizer.decode(Ids{id}), "");
  }
}

TEST(Tokenizer, SpecialTokensInTheText) {
  const Tokenizer tokenizer(test::qwen_like_spec());
  EXPECT_EQ(tokenizer.encode("<|im_start|><think><|im_end|>"), (Ids{4085, 4090, 4086}));
  const Ids plain = tokenizer.encode("<|im_start|><think>", {.parse_special = false});
  EXPECT_EQ(plain.back(), 4090);  // not special, so always recognized
  EXPECT_GT(plain.size(), 2u);
  EXPECT_EQ(tokenizer.decode(plain), "<|im_start|><think>");
  EXPECT_EQ(tokenizer.decode(Ids{4085, 4090, 4086}, {.skip_special = true}), "<think>");
}

TEST(Tokenizer, MalformedTextIsKeptByteForByte) {
  const Tokenizer tokenizer = byte_level_tokenizer();
  const std::string text = "ab\xFF\xFE the\xF0\x9F";
  const Ids ids = tokenizer.encode(text);
  EXPECT_EQ(tokenizer.decode_bytes(ids), text);
  EXPECT_EQ(tokenizer.decode(ids), "ab\uFFFD\uFFFD the\uFFFD");
  EXPECT_EQ(tokenizer.encode("\xFF<|im_end|>\xFF").at(1), 4086);
}

TokenizerSpec spm_spec() {
  TokenizerSpec spec;
  spec.source = "spm";
  spec.model = TokenizerModel::kSpm;
  spec.tokens = {"<unk>", "<s>", "\u2581", "\u2581a", "b", "a", "ab", "\u2581ab", "\uFFFD"};
  spec.types.assign(spec.tokens.size(), TokenType::kNormal);
  spec.types[0] = TokenType::kUnknown;
  spec.types[1] = TokenType::kControl;
  for (int byte = 0; byte < 256; ++byte) {
    char text[8];
    std::snprintf(text, sizeof text, "<0x%02X>", byte);
    spec.tokens.emplace_back(text);
    spec.types.push_back(TokenType::kByte);
  }
  spec.scores.assign(spec.tokens.size(), 0);
  spec.scores[3] = -1;
  spec.scores[6] = -2;
  spec.scores[7] = -3;
  spec.byte_fallback = true;
  spec.unk = 0;
  spec.added.push_back({.id = 1, .content = "<s>", .special = true});
  NormalizerStep& prepend = spec.normalizer.emplace_back();
  prepend.kind = NormalizerStep::Kind::kPrepend;
  prepend.content = std::string(kSpaceMark);
  NormalizerStep& escape = spec.normalizer.emplace_back();
  escape.kind = NormalizerStep::Kind::kReplaceText;
  escape.pattern = std::string(1, ' ');
  escape.content = std::string(kSpaceMark);
  spec.decoder.byte_tokens = true;
  spec.decoder.replacements.emplace_back(kSpaceMark, " ");
  spec.decoder.strip_leading_spaces = 1;
  return spec;
}

TEST(Tokenizer, SentencePieceSpaces) {
  const Tokenizer tokenizer(spm_spec());
  EXPECT_EQ(tokenizer.encode("ab a"), (Ids{7, 3}));
  EXPECT_EQ(tokenizer.encode("<s>a"), (Ids{1, 3}));  // a space is also prepended after a special token
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("ab a")), "ab a");
  EXPECT_EQ(tokenizer.decode(Ids{3, 4}, {.continuation = true}), " ab");
  EXPECT_EQ(tokenizer.decode(Ids{1, 3}), "<s> a");
  EXPECT_EQ(tokenizer.decode(Ids{1, 3}, {.skip_special = true}), "a");
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("  a")), "  a");
  EXPECT_EQ(tokenizer.encode("\xFFz").size(), 3u);  // U+FFFD for the invalid byte, a byte token for z
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("\xFFz")), "\uFFFDz");
  RandomText random(16);
  for (int i = 0; i < 1000; ++i) {
    const std::string text = random.text(20);
    if (text.find("<s>") != std::string::npos) continue;
    ASSERT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
}

TEST(Tokenizer, CuttingSentencePieceTextAtWordsChangesNothing) {
  RandomText random(17);
  for (int round = 0; round < 40; ++round) {
    TokenizerSpec spec;
    spec.model = TokenizerModel::kSpm;
    spec.tokens = {"\u2581", "a", "b", "c"};
    for (std::size_t n = random.below(30); n > 0; --n) {
      const std::string left = random.pick(spec.tokens), right = random.pick(spec.tokens);
      const bool crosses =
          right.starts_with(kSpaceMark) && left.find_first_not_of("\u2581") != std::string::npos;
      if (!crosses) spec.tokens.push_back(left + right);
    }
    for (std::size_t i = 0; i < spec.tokens.size(); ++i)
      spec.scores.push_back(-static_cast<float>(random.below(50)));
    const Tokenizer cutting(spec);
    // A token that crosses a word boundary disables encoding by words; it never matches here.
    spec.tokens.push_back("zz\u2581z");
    spec.scores.push_back(-100);
    const Tokenizer whole(spec);
    for (int i = 0; i < 40; ++i) {
      std::string text;
      for (std::size_t n = random.below(40); n > 0; --n)
        text += random.pick<std::string>({"a", "b", "c", "\u2581"});
      ASSERT_EQ(cutting.encode(text), whole.encode(text)) << text;
    }
  }
}

TEST(Tokenizer, AddedTokensThatStripOrStandAlone) {
  TokenizerSpec spec = test::qwen_like_spec();
  spec.added.push_back({.id = 4096, .content = "[L]", .lstrip = true});
  spec.added.push_back({.id = 4097, .content = "[R]", .rstrip = true});
  spec.added.push_back({.id = 4098, .content = "word", .single_word = true});
  spec.added.push_back({.id = 4099, .content = "caf\u0065\u0301", .normalized = true});
  const Tokenizer tokenizer(std::move(spec));
  EXPECT_EQ(tokenizer.encode("a \n [L]b"), (Ids{tokenizer.encode("a")[0], 4096, tokenizer.encode("b")[0]}));
  EXPECT_EQ(tokenizer.encode("a[R] \t b"), (Ids{tokenizer.encode("a")[0], 4097, tokenizer.encode("b")[0]}));
  EXPECT_EQ(tokenizer.encode("[R] [L]"), (Ids{4097, 4096}));
  EXPECT_EQ(tokenizer.encode("word"), (Ids{4098}));
  EXPECT_EQ(tokenizer.encode("word!").front(), 4098);
  EXPECT_NE(tokenizer.encode("words").front(), 4098);
  EXPECT_NE(tokenizer.encode("\u00E9word").back(), 4098);
  EXPECT_EQ(tokenizer.encode("caf\u00E9"), (Ids{4099}));
  EXPECT_EQ(tokenizer.encode("cafe\u0301"), (Ids{4099}));
}

TEST(Tokenizer, LongestMatch) {
  TokenizerSpec spec;
  spec.model = TokenizerModel::kMaxMatch;
  spec.tokens = {"", "a", "ab", "abcd", "\xF0\x9F", "\x98", "\x80"};
  const Tokenizer tokenizer(std::move(spec));
  EXPECT_EQ(tokenizer.encode("abcabcd"), (Ids{2, 3}));  // c has no token and is dropped
  EXPECT_EQ(tokenizer.encode("\U0001F600"), (Ids{4, 5, 6}));
  EXPECT_EQ(tokenizer.decode(Ids{4, 5, 6}), "\U0001F600");
  EXPECT_FALSE(tokenizer.covers_all_text());
}

TEST(Tokenizer, BadSpecsAreRefused) {
  TokenizerSpec spec = test::qwen_like_spec();
  spec.added.push_back({.id = 1 << 22, .content = "far"});
  EXPECT_LOAD_ERROR(Tokenizer{spec}, "ids past");
  spec.added.back().id = -1;
  EXPECT_LOAD_ERROR(Tokenizer{spec}, "negative id");
  spec = test::qwen_like_spec();
  spec.eos = 5000;
  EXPECT_FALSE(Tokenizer{spec}.eos());
}

TEST(Tokenizer, HostileTextTakesLinearWork) {
  for (const char* unit :
       {"a",    "A",        " ",          "\n",           " \n",    "'",          "'l", "7",
        "!",    "\u0301",   "e\u0301",    "\u4E2D\u6587", "\u0E01", "\U0001F600", "<|", "<|im_start|>",
        "\xFF", "\xF0\x9F", "<|im_start", "\u0301\u0316"}) {
    std::uint64_t before = 0;
    for (const std::size_t size : {30000u, 120000u}) {
      const Tokenizer tokenizer(test::qwen_like_spec());  // its piece cache is empty
      std::string text;
      while (text.size() < size) text += unit;
      EncodeWork work;
      tokenizer.encode(text, {.work = &work});
      EXPECT_LE(work.total(), 12 * size) << unit;
      if (before > 0) {
        EXPECT_LE(work.total(), 4 * before + before / 10 + 1000) << unit;
      }
      before = work.total();
    }
  }
}

TEST(Tokenizer, ManyThreadsAtOnce) {
  const Tokenizer tokenizer(test::qwen_like_spec());
  RandomText random(18);
  std::vector<std::string> texts;
  std::vector<Ids> expected;
  for (int i = 0; i < 50; ++i) {
    texts.push_back(random.text(40));
    expected.push_back(Tokenizer(test::qwen_like_spec()).encode(texts.back()));
  }
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 400; ++i) {
        const std::size_t n = static_cast<std::size_t>(i * 7 + t * 13) % texts.size();
        if (tokenizer.encode(texts[n]) != expected[n]) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace reprise::models
