#include "models/text/unicode.h"

#include <gtest/gtest.h>

#include "models/text/byte_alphabet.h"
#include "tests/models/text/tokenizer_helpers.h"

namespace reprise::models {
namespace {

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
  EXPECT_EQ(char_class(U'\u180E'), kOther);  // a space in older versions of Unicode
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
