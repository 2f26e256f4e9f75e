#include "models/utf8.h"

#include <gtest/gtest.h>

#include "models/byte_alphabet.h"
#include "models/unicode.h"
#include "tokenizer_helpers.h"

namespace reprise::models {
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
  // The example of the Unicode standard, chapter 3.9, and its neighbours.
  EXPECT_EQ(repaired("a\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64"),
            "a\uFFFD\uFFFD\uFFFDb\uFFFDc\uFFFD\uFFFDd");
  EXPECT_EQ(repaired("\xC0\xAF"), "\uFFFD\uFFFD");                      // overlong
  EXPECT_EQ(repaired("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");            // a surrogate
  EXPECT_EQ(repaired("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");  // past U+10FFFF
  EXPECT_EQ(repaired("\xF0\x9F\x98"), "\uFFFD");                        // cut short
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
  test::RandomText random(1);
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = random.bytes(random.below(20));
    if (random.below(2)) bytes = random.text(4) + bytes + random.text(2);
    const std::string once = repaired(bytes);
    EXPECT_EQ(valid_utf8_prefix(once), once.size());
    EXPECT_EQ(repaired(once), once);
  }
}

TEST(ByteAlphabet, IsTheOneOfGpt2) {
  EXPECT_EQ(to_letters(" a\n\xFF"), "\u0120a\u010A\u00FF");
  EXPECT_EQ(letter_of_byte(0), U'\u0100');
  EXPECT_EQ(letter_of_byte(0xAD), U'\u0143');
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(byte_of_letter(letter_of_byte(static_cast<std::uint8_t>(byte))), byte);
  }
  EXPECT_EQ(from_letters("\u0120the"), " the");
  EXPECT_EQ(from_letters("\u2581the"), std::nullopt);
  EXPECT_EQ(byte_of_fallback_token("<0x0A>"), 10);
  EXPECT_EQ(byte_of_fallback_token("<0xZZ>"), std::nullopt);
  EXPECT_EQ(byte_of_fallback_token("<0x0A> "), std::nullopt);
}

TEST(Unicode, ClassesOfCharacters) {
  EXPECT_EQ(char_class(U'a'), kLetter);
  EXPECT_EQ(char_class(U'\u4E2D'), kLetter);
  EXPECT_EQ(char_class(U'\u0301'), kMark);
  EXPECT_EQ(char_class(U'\u00BD'), kNumber);
  EXPECT_EQ(char_class(U'\n'), kSpace | kNewline);
  for (const char32_t space : {U' ', U'\t', U'\v', U'\u0085', U'\u00A0', U'\u1680', U'\u2028', U'\u3000'}) {
    EXPECT_EQ(char_class(space), kSpace);
  }
  EXPECT_EQ(char_class(U'\u180E'), kOther);  // was a space once
  EXPECT_EQ(char_class(U'\u200B'), kOther);
  EXPECT_EQ(char_class(U'\U0001F600'), kOther);
}

TEST(Unicode, NormalForms) {
  EXPECT_EQ(normalize("e\u0301", NormalForm::kNfc), "\u00E9");
  EXPECT_EQ(normalize("\u00E9", NormalForm::kNfd), "e\u0301");
  EXPECT_EQ(normalize("\uFB01\u00BD", NormalForm::kNfkc), "fi1\u20442");
  EXPECT_EQ(normalize("\uFB01", NormalForm::kNfc), "\uFB01");
  EXPECT_EQ(normalize("\u1112\u1161\u11AB", NormalForm::kNfc), "\uD55C");
  EXPECT_EQ(normalize("\uD55C", NormalForm::kNfd), "\u1112\u1161\u11AB");
  EXPECT_EQ(normalize("\u212B", NormalForm::kNfc), "\u00C5");
  EXPECT_EQ(normalize("\u0958", NormalForm::kNfc), "\u0915\u093C");  // excluded from composition
  EXPECT_EQ(normalize("q\u0307\u0323", NormalForm::kNfc), "q\u0323\u0307");
  EXPECT_EQ(normalize("\u1E0A\u0323", NormalForm::kNfc), "\u1E0C\u0307");
}

TEST(Unicode, NormalFormsAreStable) {
  test::RandomText random(2);
  for (int i = 0; i < 2000; ++i) {
    const std::string text = random.text(12);
    for (const NormalForm form : {NormalForm::kNfc, NormalForm::kNfd, NormalForm::kNfkc, NormalForm::kNfkd}) {
      const std::string once = normalize(text, form);
      EXPECT_EQ(normalize(once, form), once);
      if (is_plainly_normal(text, form)) {
        EXPECT_EQ(once, text);
      }
    }
    EXPECT_EQ(normalize(normalize(text, NormalForm::kNfd), NormalForm::kNfc),
              normalize(text, NormalForm::kNfc));
  }
}

TEST(Unicode, LongRunsOfMarksAreSortedQuickly) {
  std::string text = "a", sorted = "a";
  for (int i = 0; i < 200000; ++i) text += "\u0301\u0316";  // classes 230 and 220: all out of order
  const std::string normal = normalize(text, NormalForm::kNfd);
  EXPECT_EQ(normal.size(), text.size());
  EXPECT_EQ(normal.substr(0, 5), "a\u0316\u0316");
}

}  // namespace
}  // namespace reprise::models
