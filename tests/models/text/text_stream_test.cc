#include "models/text/text_stream.h"

#include <gtest/gtest.h>

#include "tests/models/text/tokenizer_helpers.h"

namespace reprise::models {
namespace {

using test::RandomText;

const Tokenizer& tokenizer() {
  static const Tokenizer instance(test::qwen_like_spec());
  return instance;
}

std::string streamed(const std::vector<TokenId>& ids, DecodeOptions options = {}) {
  TextStream stream(tokenizer(), options);
  std::string out;
  for (const TokenId id : ids) {
    const std::string text = stream.push(id);
    EXPECT_EQ(valid_utf8_prefix(text), text.size()) << "a character was cut";
    out += text;
  }
  return out += stream.flush();
}

TEST(TextStream, EqualsDecodeForRandomIds) {
  RandomText random(9);
  for (int i = 0; i < 3000; ++i) {
    std::vector<TokenId> ids;
    // single bytes, or any token
    const std::size_t limit = random.below(2) ? 256 : tokenizer().vocab_size() + 3;
    for (std::size_t n = random.below(20); n > 0; --n)
      ids.push_back(static_cast<TokenId>(random.below(limit)));
    for (const bool skip : {false, true}) {
      const DecodeOptions options{.skip_special = skip};
      ASSERT_EQ(streamed(ids, options), tokenizer().decode(ids, options));
    }
  }
}

TEST(TextStream, HoldsUnfinishedCharactersOnly) {
  TextStream stream(tokenizer());
  const std::vector<TokenId> emoji = tokenizer().encode("\U0001F600");
  ASSERT_GT(emoji.size(), 1u);
  EXPECT_EQ(stream.push(tokenizer().encode("a")[0]), "a");
  for (std::size_t i = 0; i + 1 < emoji.size(); ++i) EXPECT_EQ(stream.push(emoji[i]), "");
  EXPECT_EQ(stream.push(emoji.back()), "\U0001F600");
  EXPECT_EQ(stream.push(emoji[0]), "");
  EXPECT_EQ(stream.push(tokenizer().encode("b")[0]), "\uFFFDb");  // the character can no longer be completed
  EXPECT_EQ(stream.push(emoji[0]), "");
  EXPECT_EQ(stream.flush(), "\uFFFD");
}

TEST(TextStream, StopsAtAStringAcrossTokens) {
  TextStream stream(tokenizer(), {}, {"xyz", "lo wo"});
  std::string out;
  for (const TokenId id : tokenizer().encode("hello world")) {
    out += stream.push(id);
    if (stream.stop()) break;
  }
  EXPECT_EQ(out, "hel");
  ASSERT_TRUE(stream.stop());
  EXPECT_EQ(stream.stop()->index, 1u);
  EXPECT_EQ(stream.stop()->position, 3u);
  EXPECT_EQ(stream.push(0), "");
  EXPECT_EQ(stream.flush(), "");
}

// The first stop string, checking every end of the text in turn.
std::optional<StopMatch> stop_naively(const std::string& text, const std::vector<std::string>& stops) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::optional<StopMatch> best;
    for (std::size_t i = 0; i < stops.size(); ++i) {
      if (stops[i].empty() || !std::string_view(text).substr(0, end).ends_with(stops[i])) continue;
      const std::size_t begin = end - stops[i].size();
      if (!best || begin < best->position) best = StopMatch{i, begin};
    }
    if (best) return best;
  }
  return std::nullopt;
}

TEST(StopStrings, EqualTheNaiveSearchHoweverTheTextIsCut) {
  RandomText random(10);
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::string> stops;
    for (std::size_t n = random.below(4); n > 0; --n) {
      std::string& stop = stops.emplace_back();
      for (std::size_t k = random.below(5); k > 0; --k) stop += "ab"[random.below(2)];
    }
    std::string text;
    for (std::size_t k = random.below(16); k > 0; --k) text += "abc"[random.below(3)];

    StopStrings scanner(stops);
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t length = std::min(text.size() - at, 1 + random.below(4));
      out += scanner.push(std::string_view(text).substr(at, length));
      at += length;
      if (!scanner.match()) {
        // Only a prefix of a stop string is held back.
        const std::string held = text.substr(out.size(), at - out.size());
        const bool begins = std::any_of(stops.begin(), stops.end(),
                                        [&](const std::string& stop) { return stop.starts_with(held); });
        ASSERT_TRUE(held.empty() || begins) << held;
      }
    }
    const std::optional<StopMatch> expected = stop_naively(text, stops);
    ASSERT_EQ(scanner.match().has_value(), expected.has_value()) << text;
    if (expected) {
      EXPECT_EQ(scanner.match()->position, expected->position) << text;
      EXPECT_EQ(stops[scanner.match()->index], stops[expected->index]);
    }
    out += scanner.flush();
    ASSERT_EQ(out, expected ? text.substr(0, expected->position) : text);
  }
}

}  // namespace
}  // namespace reprise::models
