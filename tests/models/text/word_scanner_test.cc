// The hand-written scanners compared with their regular expressions.

#include "models/text/word_scanner.h"

#include <gtest/gtest.h>

#include "models/text/regex.h"
#include "models/text/unicode.h"
#include "tests/models/text/tokenizer_helpers.h"

namespace reprise::models {
namespace {

std::vector<WordPattern> all_patterns() {
  std::vector<WordPattern> patterns(1);
  patterns[0].family = WordPattern::Family::kGpt2;
  patterns[0].contractions = WordPattern::Case::kLower;
  for (const auto contractions :
       {WordPattern::Case::kLower, WordPattern::Case::kAscii, WordPattern::Case::kUnicode}) {
    for (const bool marks : {false, true}) {
      for (const int digits : {0, 1, 2, 3}) {
        WordPattern& pattern = patterns.emplace_back();
        pattern.contractions = contractions;
        pattern.marks_are_letters = marks;
        pattern.max_digits = digits;
      }
    }
  }
  return patterns;
}

std::vector<std::string> scanned(const WordPattern& pattern, std::string_view text) {
  std::vector<std::string> words;
  std::uint64_t work = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = next_word(pattern, text, begin, work);
    EXPECT_GT(end, begin);
    words.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  EXPECT_LE(work, 8 * text.size() + 8);
  return words;
}

std::vector<std::string> matched(const Regex& regex, std::string_view text) {
  Regex::Matcher matcher(regex);
  matcher.start(text);
  std::vector<std::string> words;
  std::size_t done = 0;
  for (; matcher.next(); done = matcher.end()) {
    EXPECT_EQ(matcher.begin(), done) << "a gap between words";
    words.emplace_back(text.substr(matcher.begin(), matcher.end() - matcher.begin()));
  }
  EXPECT_EQ(done, text.size());
  return words;
}

// PCRE2 and utf8proc may have different versions of Unicode; only characters they agree on are compared.
class Agreement {
 public:
  bool on(char32_t code_point) {
    std::string text;
    append_utf8(text, code_point);
    const auto matches = [&](const Regex& regex) {
      Regex::Matcher matcher(regex);
      matcher.start(text);
      return matcher.next();
    };
    const std::uint8_t bits = char_class(code_point);
    return matches(letter_) == ((bits & kLetter) != 0) && matches(mark_) == ((bits & kMark) != 0) &&
           matches(number_) == ((bits & kNumber) != 0) && matches(space_) == ((bits & kSpace) != 0);
  }

  std::string filter(std::string_view text) {
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
      const Utf8Char read = read_valid_utf8(text, at);
      if (read.code_point < 0x80 || on(read.code_point)) append_utf8(out, read.code_point);
      at += read.length;
    }
    return out;
  }

 private:
  Regex letter_{"\\p{L}"}, mark_{"\\p{M}"}, number_{"\\p{N}"}, space_{to_pcre2("\\s")};
};

TEST(WordScanner, RecognizesItsPatterns) {
  for (const WordPattern& pattern : all_patterns()) {
    EXPECT_EQ(find_word_pattern(regex(pattern)), pattern);
    EXPECT_EQ(find_word_pattern(regex(pattern) + "|x"), std::nullopt);
  }
  const auto qwen = find_word_pattern(
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)");
  ASSERT_TRUE(qwen);
  EXPECT_EQ(qwen->max_digits, 1);
}

TEST(WordScanner, KnowsEveryCharacterAsPcre2Does) {
  Agreement agreement;
  std::size_t disagreements = 0;
  for (char32_t code_point = 0; code_point < 0x110000; ++code_point) {
    if (code_point == 0xD800) code_point = 0xE000;
    disagreements += agreement.on(code_point) ? 0 : 1;
  }
  // A version of Unicode adds a few thousand characters, mostly letters.
  EXPECT_LT(disagreements, 20000u);
}

TEST(WordScanner, EqualsTheRegularExpressionOnRandomText) {
  Agreement agreement;
  test::RandomText random(3);
  std::vector<std::pair<WordPattern, Regex>> regexes;
  for (const WordPattern& pattern : all_patterns())
    regexes.emplace_back(pattern, Regex(to_pcre2(regex(pattern))));
  for (int i = 0; i < 4000; ++i) {
    const std::string text = agreement.filter(random.text(1 + random.below(25)));
    for (const auto& [pattern, compiled] : regexes) {
      ASSERT_EQ(scanned(pattern, text), matched(compiled, text)) << regex(pattern) << "\n" << text;
    }
  }
}

TEST(WordScanner, EqualsTheRegularExpressionOnEveryShortText) {
  const std::vector<std::string> alphabet = {"a", "S", "'",      " ", "\n",    "\t",
                                             "1", "!", "\u0301", "l", "\u017F"};
  std::vector<std::pair<WordPattern, Regex>> regexes;
  for (const WordPattern& pattern : all_patterns()) {
    if (pattern.max_digits == 2) continue;
    regexes.emplace_back(pattern, Regex(to_pcre2(regex(pattern))));
  }
  std::vector<std::string> texts = {""};
  for (int length = 1; length <= 4; ++length) {
    std::vector<std::string> longer;
    for (const std::string& text : texts) {
      for (const std::string& part : alphabet) longer.push_back(text + part);
    }
    texts = std::move(longer);
    for (const std::string& text : texts) {
      for (const auto& [pattern, compiled] : regexes) {
        ASSERT_EQ(scanned(pattern, text), matched(compiled, text)) << regex(pattern) << "\n" << text;
      }
    }
  }
}

TEST(WordScanner, TakesLinearWorkOnHostileText) {
  for (const char* unit :
       {"a", " ", "\n", " \n", "'", "'l", "1", "!", "\u0301", "\u4E2D", "\U0001F600", "  a"}) {
    for (const WordPattern& pattern : all_patterns()) {
      std::uint64_t work = 0;
      std::string text;
      while (text.size() < 20000) text += unit;
      for (std::size_t begin = 0; begin < text.size();) begin = next_word(pattern, text, begin, work);
      EXPECT_LE(work, 6 * text.size()) << unit;
    }
  }
}

}  // namespace
}  // namespace reprise::models
