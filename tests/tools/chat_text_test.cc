// What the terminal chat prints: wrapped replies and the line about a turn.
#include <gtest/gtest.h>

#include <string>

#include "tools/reprise/chat_text.h"

namespace reprise::tools {
namespace {

/// The text as it is printed when it comes in pieces of so many bytes.
std::string wrapped(const std::string& text, std::size_t columns, std::size_t piece = 1) {
  TextWrap wrap(columns);
  std::string out;
  for (std::size_t at = 0; at < text.size(); at += piece) out += wrap.push(text.substr(at, piece));
  return out + wrap.flush();
}

TEST(TextWrap, LinesEndBetweenWords) {
  const std::string text = "the quick brown fox";
  EXPECT_EQ(wrapped(text, 10), "the quick \nbrown fox");
  EXPECT_EQ(wrapped(text, 9), "the quick\nbrown fox");
  for (const std::size_t piece : {1, 2, 3, 5, 100}) EXPECT_EQ(wrapped(text, 10, piece), wrapped(text, 10));
  EXPECT_EQ(wrapped(text, 0), text);
  EXPECT_EQ(wrapped(text, 80), text);
}

TEST(TextWrap, NewlinesBeginLines) {
  EXPECT_EQ(wrapped("a b\n\nc d e", 4), "a b\n\nc d \ne");
  EXPECT_EQ(wrapped("", 4), "");
  EXPECT_EQ(wrapped("ends\n", 4), "ends\n");
}

TEST(TextWrap, WordsLongerThanALineAreNotLost) {
  EXPECT_EQ(wrapped("abcdefghij", 4), "abcdefghij");
  EXPECT_EQ(wrapped("x abcdefghij y", 4), "x \nabcdefghij y");
}

TEST(TextWrap, CodeIsLeftAsItIs) {
  const std::string code = "```\none two three four\n```\n";
  EXPECT_EQ(wrapped(code, 8), code);
  EXPECT_EQ(wrapped(code + "one two three", 8), code + "one two \nthree");
}

TEST(TextWrap, WordsAreHeldBackUntilTheyEnd) {
  TextWrap wrap(20);
  EXPECT_EQ(wrap.push("wo"), "");
  EXPECT_EQ(wrap.push("rd "), "word ");
  EXPECT_EQ(wrap.push("next"), "");
  EXPECT_EQ(wrap.flush(), "next");
}

TEST(TextWrap, CharactersHaveTheirWidth) {
  use_utf8_locale();
  EXPECT_EQ(wrapped("äöü äöü", 4, 100), "äöü \näöü");
  EXPECT_EQ(wrapped("日本語日本語", 6, 100), "日本語\n日本語");
}

TEST(StatusLine, SaysWhatATurnWas) {
  ChatOutcome outcome{.tokens = 12, .prompt_tokens = 129, .restored = 120, .prefilled = 9};
  outcome.restored_from = "history";
  outcome.miss_reason = "no_checkpoint";
  outcome.miss_position = 120;
  outcome.first_token_ms = 8;
  outcome.tokens_per_second = 45.14;
  EXPECT_EQ(
      status_line(outcome, 0),
      "[12 tokens, 45.1 a second, first after 8 ms; prompt of 129, 120 from the cache (history), 9 computed "
      "(no checkpoint after 120)]");
  for (std::size_t columns = 60; columns < 130; ++columns) {
    const std::string line = status_line(outcome, columns);
    EXPECT_LT(line.size(), columns);
    EXPECT_TRUE(line.starts_with("[12 tokens") && line.ends_with("]")) << line;
    EXPECT_NE(line.find("prompt of 129, 120 from the cache"), std::string::npos) << line;
  }
}

TEST(StatusLine, SaysHowAReplyEnded) {
  EXPECT_EQ(status_line({.stopped = true, .tokens = 3, .prompt_tokens = 5, .prefilled = 5}, 0),
            "[3 tokens, stopped; prompt of 5, 0 from the cache, 5 computed]");
  EXPECT_EQ(status_line({.stopped = true}, 0), "[stopped]");
  EXPECT_NE(status_line({.at_limit = true, .prompt_tokens = 1}, 0).find("cut at --max-tokens"),
            std::string::npos);
}

}  // namespace
}  // namespace reprise::tools
