#include "base/utf8.h"

#include <gtest/gtest.h>

#include <random>

namespace reprise {
namespace {

std::string repaired(std::string_view bytes) {
  std::string out;
  append_valid_utf8(out, bytes);
  return out;
}

TEST(Utf8, ReadsCharactersOfEveryLength) {
  for (const char32_t code_point :
       {U'a', U'\u00E9', U'\u4E2D', U'\uD7FF', U'\uE000', U'\U0001F600', U'\U0010FFFF'}) {
    std::string text;
    append_utf8(text, code_point);
    const Utf8Char read = read_utf8(text, 0);
    EXPECT_TRUE(read.is_valid);
    EXPECT_EQ(read.code_point, code_point);
    EXPECT_EQ(read.length, text.size());
    EXPECT_EQ(read_valid_utf8(text, 0).code_point, code_point);
    EXPECT_EQ(valid_utf8_prefix(text), text.size());
    EXPECT_EQ(previous_utf8("x" + text, text.size() + 1), 1u);
  }
}

TEST(Utf8, ReplacesEachMaximalSubpart) {
  // The example in chapter 3.9 of the Unicode standard, and variations.
  EXPECT_EQ(repaired("a\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64"),
            "a\uFFFD\uFFFD\uFFFDb\uFFFDc\uFFFD\uFFFDd");
  EXPECT_EQ(repaired("\xC0\xAF"), "\uFFFD\uFFFD");                      // overlong
  EXPECT_EQ(repaired("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");            // a surrogate
  EXPECT_EQ(repaired("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");  // past U+10FFFF
  EXPECT_EQ(repaired("\xF0\x9F\x98"), "\uFFFD");                        // truncated
  EXPECT_EQ(repaired("ok"), "ok");
}

TEST(Utf8, SaysWhatMoreBytesCouldComplete) {
  EXPECT_TRUE(read_utf8("\xF0\x9F\x98", 0).is_partial);
  EXPECT_TRUE(read_utf8("\xE4", 0).is_partial);
  EXPECT_FALSE(read_utf8("\xE4x", 0).is_partial);
  EXPECT_FALSE(read_utf8("\xC0", 0).is_partial);
  EXPECT_FALSE(read_utf8("\xED\xA0", 0).is_partial);
}

TEST(Utf8, RepairedTextIsValidAndRepairedOnce) {
  // Bytes that often begin, continue or break characters.
  constexpr std::string_view kBytes = "a\x80\xBF\xC2\xE1\xED\xA0\xF0\x9F\xF4\x90\xFF";
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    std::string bytes;
    for (std::size_t length = random() % 24; length > 0; --length) bytes += kBytes[random() % kBytes.size()];
    const std::string once = repaired(bytes);
    EXPECT_EQ(valid_utf8_prefix(once), once.size());
    EXPECT_EQ(repaired(once), once);
  }
}

}  // namespace
}  // namespace reprise
