// Reasoning that a client dropped from its history, given back to it.

#include <gtest/gtest.h>

#include "tests/protocol/served.h"

namespace reprise::protocol {
namespace {

const std::string kHistory =
    R"([{"role":"user","content":"think"},{"role":"assistant","content":"Here it is."},{"role":"user","content":"more"}])";

struct Talk {
  explicit Talk(bool reattaches) : served(options_of(reattaches)) {
    served.service.set_chat_template(
        "<think>\n\n</think>\n\n<tool_call>{{ tool_call | tojson }}</tool_call>");
  }
  static HttpOptions options_of(bool reattaches) {
    HttpOptions options;
    options.reattach_reasoning = reattaches;
    return options;
  }
  Json say(const std::string& messages, const std::string& more = {}) {
    HttpClient client(served.port());
    return *Json::parse(client.post("/v1/chat/completions", R"({"messages":)" + messages + more + "}").body);
  }
  /// The reasoning that the engine was given with the reply of the history.
  std::string reasoning_given() const {
    const GenerateRequest asked = served.service.requests().back();
    const std::string* text =
        std::get<ChatPrompt>(asked.prompt).messages.as_array()[1].find_string("reasoning_content");
    return text == nullptr ? std::string() : *text;
  }
  static std::int64_t reattached(const Json& answer) {
    const Json* count = answer.find("reprise")->find("reattached");
    return count == nullptr ? 0 : count->as_int();
  }

  Served served;
};

TEST(Reattach, AReplyGetsItsReasoningBack) {
  Talk talk(true);
  EXPECT_EQ(Talk::reattached(talk.say(R"([{"role":"user","content":"think"}])")), 0);
  EXPECT_EQ(Talk::reattached(talk.say(kHistory)), 1);
  EXPECT_EQ(talk.reasoning_given(), "Let me see.");
  EXPECT_EQ(Talk::reattached(talk.say(kHistory, R"(,"cache_salt":"other")")), 0)
      << "nothing is shared between salts";
  EXPECT_EQ(talk.reasoning_given(), "");
}

TEST(Reattach, OfAStreamAsWell) {
  Talk talk(true);
  HttpClient client(talk.served.port());
  client.post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"think"}],"stream":true})");
  EXPECT_EQ(Talk::reattached(talk.say(kHistory)), 1);
}

TEST(Reattach, IsOffUnlessItIsAskedFor) {
  Talk talk(false);
  talk.say(R"([{"role":"user","content":"think"}])");
  EXPECT_EQ(Talk::reattached(talk.say(kHistory)), 0);
  EXPECT_EQ(talk.reasoning_given(), "");
}

}  // namespace
}  // namespace reprise::protocol
