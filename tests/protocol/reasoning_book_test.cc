#include "protocol/chat/reasoning_book.h"

#include <gtest/gtest.h>

namespace reprise::protocol {
namespace {

Json json_of(const std::string& text) {
  return *Json::parse(text);
}
const std::string kAsked = R"({"role":"user","content":"hi"})";
const std::string kReply =
    R"({"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[)"
    R"({"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}}]})";
// The same as a client may send it back: without reasoning, arguments written anew, another id.
const std::string kBack = R"({"role":"assistant","content":"","tool_calls":[)"
                          R"({"id":"x","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]})";

std::uint32_t reattached(ReasoningBook& book, const std::string& owner, Json& messages) {
  ReasoningBook::Key key;
  return book.reattach(owner, messages, key);
}

TEST(ReasoningBook, GivesBackWhatAClientDropped) {
  ReasoningBook book;
  ReasoningBook::Key history;
  Json first = json_of("[" + kAsked + "]");
  EXPECT_EQ(book.reattach("ann", first, history), 0u);
  book.keep(history, json_of(kReply));
  Json second = json_of("[" + kAsked + "," + kBack + R"(,{"role":"tool","content":"ok"}])");
  EXPECT_EQ(book.reattach("ann", second, history), 1u);
  EXPECT_EQ(*second.as_array()[1].find_string("reasoning_content"), "hm");
  // The next reply is found behind that history, whether its reasoning was sent or not.
  book.keep(history, json_of(R"({"role":"assistant","content":"done","reasoning_content":"so"})"));
  Json third = json_of("[" + kAsked + "," + kReply +
                       R"(,{"role":"tool","content":"ok"},{"role":"assistant","content":"done"}])");
  EXPECT_EQ(reattached(book, "ann", third), 1u);
  EXPECT_EQ(*third.as_array()[3].find_string("reasoning_content"), "so");
}

TEST(ReasoningBook, GivesNobodyWhatIsNotTheirs) {
  ReasoningBook book;
  ReasoningBook::Key history;
  Json first = json_of("[" + kAsked + "]");
  book.reattach("ann", first, history);
  book.keep(history, json_of(kReply));
  Json of_bob = json_of("[" + kAsked + "," + kBack + "]");
  EXPECT_EQ(reattached(book, "bob", of_bob), 0u);
  Json other_words = json_of(R"([{"role":"user","content":"hi!"},)" + kBack + "]");
  EXPECT_EQ(reattached(book, "ann", other_words), 0u);
  Json own = json_of("[" + kAsked + R"(,{"role":"assistant","content":"","reasoning":"mine"}])");
  EXPECT_EQ(reattached(book, "ann", own), 0u);
}

TEST(ReasoningBook, IsBounded) {
  ReasoningBook book({.replies = 2, .bytes = 10'000});
  const auto keep = [&](const std::string& words, const std::string& thought) {
    ReasoningBook::Key history;
    Json messages = json_of(R"([{"role":"user","content":")" + words + "\"}]");
    book.reattach("", messages, history);
    book.keep(history, Json{{"role", "assistant"}, {"content", "a"}, {"reasoning_content", thought}});
  };
  const auto knows = [&](const std::string& words) {
    Json messages =
        json_of(R"([{"role":"user","content":")" + words + R"("},{"role":"assistant","content":"a"}])");
    return reattached(book, "", messages) == 1;
  };
  keep("1", "x");
  keep("2", "x");
  EXPECT_TRUE(knows("1"));
  keep("3", "x");
  EXPECT_FALSE(knows("2"));
  EXPECT_TRUE(knows("1"));
  keep("4", std::string(9'500, 'x'));
  EXPECT_EQ(book.size(), 1u);
  keep("5", std::string(20'000, 'x'));
  EXPECT_TRUE(knows("4")) << "what is too large is not kept";
  keep("6", "");
  EXPECT_EQ(book.size(), 1u) << "nothing to keep";
}

}  // namespace
}  // namespace reprise::protocol
