#include "models/text/regex.h"

#include <gtest/gtest.h>

namespace reprise::models {
namespace {

// The text with the matches of an Oniguruma pattern in brackets.
std::string marked(std::string_view pattern, std::string_view text) {
  const Regex regex(to_pcre2(pattern));
  Regex::Matcher matcher(regex);
  matcher.start(text);
  std::string out;
  std::size_t done = 0;
  while (matcher.next()) {
    out.append(text.substr(done, matcher.begin() - done));
    out.append("[").append(text.substr(matcher.begin(), matcher.end() - matcher.begin())).append("]");
    done = matcher.end();
  }
  return out.append(text.substr(done));
}

TEST(Regex, FindsMatchesInOrder) {
  EXPECT_EQ(marked("a+", "baab a"), "b[aa]b [a]");
  EXPECT_EQ(marked("x", "abc"), "abc");
  EXPECT_EQ(marked("\\p{L}+", "h\u00E9 \u4E2D!"), "[h\u00E9] [\u4E2D]!");
}

TEST(Regex, EmptyMatchesAreFoundOnceAndNotBehindAnother) {
  EXPECT_EQ(marked("(?=\\d)", "a12"), "a[]1[]2");
  EXPECT_EQ(marked("b*", "abc"), "[]a[b]c[]");
  EXPECT_EQ(marked("(?=(\\d{3})+(?!\\d))", "1234567"), "1[]234[]567");
}

TEST(Regex, LooksBehindInTheSameText) {
  EXPECT_EQ(marked("(?<=a)b", "abb"), "a[b]b");
}

TEST(Regex, BadPatternsAreRefused) {
  EXPECT_THROW(Regex("("), RegexError);
  EXPECT_THROW(Regex(to_pcre2("[a")), RegexError);
  EXPECT_THROW(Regex(to_pcre2("\\")), RegexError);
  EXPECT_THROW(Regex(to_pcre2("(?~a)")), RegexError);
  EXPECT_THROW(Regex(to_pcre2("(*FAIL)")), RegexError);
  EXPECT_THROW(Regex(to_pcre2("[a&&]")), RegexError);
  EXPECT_THROW(Regex(to_pcre2("\\p{NoSuchThing}")), RegexError);
}

TEST(Regex, CatastrophesEndInAnError) {
  const std::string text(40000, 'a');
  EXPECT_THROW(marked("(a*)*[bc]", text), RegexError);
}

// Every offset is expensive but within its limit; together they would take minutes.
TEST(Regex, ManyExpensivePlacesEndInAnError) {
  std::string text;
  for (int line = 0; line < 50; ++line) text += std::string(1500, 'a') + "\n";
  EXPECT_THROW(marked(".{0,300}.{0,300}[bc]", text), RegexError);
}

TEST(Regex, ExpensivePlacesArePassed) {
  EXPECT_EQ(marked("(?:a?){12}a{12}b|c", std::string(12, 'a') + "dc"), std::string(12, 'a') + "d[c]");
  const std::string lines = std::string(100, 'a') + "\n" + std::string(100, 'a') + "b";
  EXPECT_EQ(marked("a*a*b", lines), std::string(100, 'a') + "\n[" + std::string(100, 'a') + "b]");
}

TEST(Regex, FindsWhatIsFarAway) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "\u4E2D\u00E9x";  // window limits fall inside characters
  EXPECT_EQ(marked("\u00E9y", text + "\u00E9y!"), text + "[\u00E9y]!");
  EXPECT_EQ(marked("^z", text + "\nz" + text), text + "\n[z]" + text);
  EXPECT_EQ(marked("(?<=x)\u4E2D$", text + "\u4E2D"), text + "[\u4E2D]");
}

TEST(Regex, LongRepeatedGroupsNeedNoStack) {
  const std::string text(300000, 'a');
  EXPECT_EQ(marked("(?:a|b)+", text).size(), text.size() + 2);
  EXPECT_EQ(marked("(?:(?=[a-z])[^b])+", text).size(), text.size() + 2);
}

TEST(RegexSyntax, SpaceIsWhiteSpace) {
  EXPECT_EQ(marked("\\s", "a b\u00A0c\u180Ed\u0085"), "a[ ]b[\u00A0]c\u180Ed[\u0085]");
  EXPECT_EQ(marked("\\S+", "a\u180Eb c"), "[a\u180Eb] [c]");
  EXPECT_EQ(marked("[\\s,]+", "a, b"), "a[, ]b");
  EXPECT_EQ(marked("[^\\s,]+", "a, b"), "[a], [b]");
  EXPECT_EQ(marked("[^\\S\n]+", "a \t\nb"), "a[ \t]\nb");
}

TEST(RegexSyntax, WordsAndDigits) {
  EXPECT_EQ(marked("\\w+", "a_1 e\u0301 \u00BD"), "[a_1] [e\u0301] \u00BD");
  EXPECT_EQ(marked("\\b", "ab c"), "[]ab[] []c[]");
  EXPECT_EQ(marked("\\d+", "1\u0661 \u00BD"), "[1\u0661] \u00BD");
  EXPECT_EQ(marked("\\h+", "xyz0fG"), "xyz[0f]G");
  EXPECT_EQ(marked("[\\h]+", "0fG"), "[0f]G");
}

TEST(RegexSyntax, NestedClassesAndIntersections) {
  EXPECT_EQ(marked("[a[bc]]+", "abcd"), "[abc]d");
  EXPECT_EQ(marked("[^(\\s|[.,])]+", "ab.c|d e"), "[ab].[c]|[d] [e]");
  EXPECT_EQ(marked("[\\p{L}&&[^\\p{Han}]]+", "ab\u4E2Dc"), "[ab]\u4E2D[c]");
  EXPECT_EQ(marked("[a-z&&[^aeiou]&&[^b]]+", "abcd"), "ab[cd]");
  EXPECT_EQ(marked("[^a-z&&[^b]]+", "abcB"), "a[b]c[B]");
  EXPECT_EQ(marked("[]a]+", "a]b"), "[a]]b");
  EXPECT_EQ(marked("[\\p{N}-]+", "1-2"), "[1-2]");
  EXPECT_EQ(marked("[\\p{N}-x]+", "1-x"), "[1-x]");
  EXPECT_EQ(marked("[[:digit:]]+", "12a"), "[12]a");
}

TEST(RegexSyntax, Intervals) {
  EXPECT_EQ(marked("a{2,3}+b", "aaaab"), "[aaaab]");  // repeated, not possessive
  EXPECT_EQ(marked("a{,2}b", "aaab"), "a[aab]");
  EXPECT_EQ(marked("a{x}", "a{x}"), "[a{x}]");
  EXPECT_EQ(marked("(?:ab){2}+", "ababababab"), "[abababab]ab");
  EXPECT_EQ(marked("a++a", "aaa"), "aaa");  // possessive
}

TEST(RegexSyntax, NamesAndEscapes) {
  EXPECT_EQ(marked("\\p{Letter}+", "ab1"), "[ab]1");
  EXPECT_EQ(marked("\\p{^L}+", "ab1"), "ab[1]");
  EXPECT_EQ(marked("\\p{Han}", "\u3001\u4E2D"), "\u3001[\u4E2D]");  // the comma belongs to several scripts
  EXPECT_EQ(marked("\\u4E2D", "\u4E2D"), "[\u4E2D]");
  EXPECT_EQ(marked("(?i:'s)", "'S '\u017F"), "['S] ['\u017F]");
  EXPECT_EQ(marked("(?m:.)+", "a\nb"), "[a\nb]");
  EXPECT_EQ(marked("\\v", "\v\n"), "[\v]\n");
  EXPECT_EQ(marked("a$", "a\na"), "[a]\n[a]");
  EXPECT_EQ(marked(quote_regex("a.b|\n("), "xa.b|\n("), "x[a.b|\n(]");
}

}  // namespace
}  // namespace reprise::models
