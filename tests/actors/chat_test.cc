// Chats with a template that strips reasoning: the tokens restored in each turn, and equal answers with and
// without the cache.

#include <unistd.h>

#include "actors/request/chat_tokens.h"
#include "models/text/tokenizer_load.h"
#include "tests/actors/chat_model.h"
#include "tests/actors/engine_harness.h"

namespace reprise::actors {
namespace {

using protocol::ChatPrompt;

Json message(const char* role, const std::string& content) {
  return Json{{"role", role}, {"content", content}};
}

std::string words(std::size_t count, const std::string& seed) {
  std::string text = "This is about " + seed + ".";
  for (std::size_t i = 0; i < count; ++i)
    text += " And " + std::to_string(i * 37 % 101) + " more about " + seed + ".";
  return text;
}

class ChatTest : public testing::TestWithParam<std::string> {
 protected:
  void start(bool prefill_history = false) {
    EngineOptions options = EngineHarness::defaults(GetParam(), "");
    options.models = {{.name = "m", .path = folder_.path()}};
    options.requests.prefill_history = prefill_history;
    options.requests.verify_share = 1;
    harness_ = std::make_unique<EngineHarness>(options);
  }

  static ChatPrompt chat(Json::Array messages, Json tools = {}) {
    return ChatPrompt{.messages = Json(std::move(messages)), .tools = std::move(tools)};
  }

  protocol::GenerateRequest request(const ChatPrompt& prompt) {
    protocol::GenerateRequest request{.prompt = prompt};
    request.max_tokens = 12;
    request.sampling.temperature = 0;
    request.sampling.logprobs = 20;
    return request;
  }

  /// Answers with the cache, and compares with a cold run.
  Reply ask(const ChatPrompt& prompt) {
    const Reply warm = harness_->ask(request(prompt));
    protocol::GenerateRequest again = request(prompt);
    again.cache.enabled = false;
    const Reply cold = harness_->ask(again);
    EXPECT_FALSE(warm.error.has_value()) << warm.error->message;
    EXPECT_TRUE(warm.choices == cold.choices) << "restored " << warm.cache.restored_tokens;
    return warm;
  }

  /// Returns the tokens up to and including the last special token common to both prompts: the last message
  /// border before they diverge.
  std::uint32_t border(const ChatPrompt& one, const ChatPrompt& other) {
    const TokenList a = tokens(one);
    const TokenList b = tokens(other);
    auto common =
        static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
    const TokenId opener = *tokenizer().find("<|im_start|>");
    while (common > 0 && a[common - 1] != opener) --common;
    return on_grid(static_cast<std::uint32_t>(common));
  }
  std::uint32_t on_grid(std::uint32_t at) const { return GetParam() != "cpu" ? at / 64 * 64 : at; }

  const models::Tokenizer& tokenizer() {
    if (!tokenizer_) {
      tokenizer_ = std::make_shared<const models::Tokenizer>(models::load_tokenizer(folder_.path()));
    }
    return *tokenizer_;
  }
  TokenList tokens(const ChatPrompt& prompt) {
    const models::Tokenizer& encoder = tokenizer();
    const auto format = protocol::ChatFormat::make(kChatTemplate, chat_tokens(tokenizer_));
    auto text = (*format)->render(prompt);
    EXPECT_TRUE(text.ok()) << text.error().message;
    return encoder.encode(*text);
  }
  void expect_no_mismatch() {
    EXPECT_TRUE(harness_->eventually([&] { return harness_->engine().running_requests() == 0; }));
    EXPECT_GT(harness_->figure("cache_verified_total"), 0);
    EXPECT_EQ(harness_->figure("cache_mismatches_total"), 0);
    for (const char* held : {"sequences", "cache_leases", "cache_flights"}) {
      EXPECT_TRUE(harness_->eventually([&] { return harness_->figure(held) == 0; })) << held;
    }
  }

  ChatModelFolder folder_;
  std::unique_ptr<EngineHarness> harness_;
  std::shared_ptr<const models::Tokenizer> tokenizer_;
};

TEST_P(ChatTest, ASharedSystemPromptAtItsSecondSighting) {
  start();
  const Json system = message("system", words(30, "manners"));
  const ChatPrompt one = chat({system, message("user", "What is polite?")});
  const ChatPrompt two = chat({system, message("user", "Tell me a story about forks and spoons.")});
  EXPECT_EQ(ask(one).cache.restored_tokens, 0U);
  const Reply second = ask(two);
  EXPECT_GT(border(one, two), 100U);
  EXPECT_GE(second.cache.restored_tokens, border(one, two));
  expect_no_mismatch();
}

TEST_P(ChatTest, TheNextTurnWithItsThinkingStripped) {
  for (const bool idle : {false, true}) {
    start(idle);
    const ChatPrompt first_turn =
        chat({message("system", words(10, "numbers")), message("user", words(20, "seven"))});
    const Reply first = ask(first_turn);
    if (idle) {
      ASSERT_TRUE(harness_->eventually([&] { return harness_->engine().running_requests() == 0; }));
    }
    ChatPrompt second_turn = first_turn;
    // As a client sends it back: the client omits its reasoning, or the template strips it.
    second_turn.messages.push_back(
        Json{{"role", "assistant"}, {"content", first.choices[0].text}, {"reasoning_content", "hm"}});
    second_turn.messages.push_back(message("user", "And now?"));
    const Reply second = ask(second_turn);
    EXPECT_GE(second.cache.restored_tokens, border(first_turn, second_turn)) << "idle " << idle;
    EXPECT_GT(second.cache.restored_tokens, 100U);
    expect_no_mismatch();
  }
}

TEST_P(ChatTest, IdleTimePrefillsTheHistory) {
  start(true);
  ChatPrompt turn = chat({message("user", words(20, "history"))});
  const Reply first = ask(turn);
  ASSERT_TRUE(harness_->eventually([&] { return harness_->engine().running_requests() == 0; }));
  // The whole reply is reasoning, truncated before its end. The client echoes it as such.
  turn.messages.push_back(
      Json{{"role", "assistant"}, {"content", ""}, {"reasoning_content", first.choices[0].text}});
  turn.messages.push_back(message("user", "Go on, please."));
  const TokenList prompt = tokens(turn);
  const TokenId opener = *tokenizer().find("<|im_start|>");
  // Idle work has computed everything up to the last user message's opener.
  std::size_t at = prompt.size();
  int openers = 0;
  while (at > 0 && openers < 2) openers += prompt[--at] == opener;
  const Reply second = ask(turn);
  EXPECT_GE(second.cache.restored_tokens, on_grid(static_cast<std::uint32_t>(at + 1)));
  EXPECT_GT(harness_->figure("cache_inserts_total", "history"), 0);
  expect_no_mismatch();
}

TEST_P(ChatTest, AUserMessageAfterAToolLoop) {
  start();
  const Json tools(
      Json::Array{Json{{"type", "function"},
                       {"function", Json{{"name", "weather"}, {"parameters", Json{{"type", "object"}}}}}}});
  ChatPrompt loop = chat({message("system", words(8, "weather")), message("user", words(25, "rain"))}, tools);
  ask(loop);
  const ChatPrompt before = loop;
  for (int i = 0; i < 3; ++i) {
    const ChatPrompt previous = loop;
    loop.messages.push_back(Json{
        {"role", "assistant"},
        {"content", ""},
        {"reasoning_content", words(3, "tools")},
        {"tool_calls", Json(Json::Array{Json{{"id", "c"},
                                             {"type", "function"},
                                             {"function", Json{{"name", "weather"},
                                                               {"arguments", R"({"city": "Bern"})"}}}}})}});
    loop.messages.push_back(message("tool", words(4, "clouds")));
    const Reply step = ask(loop);
    EXPECT_GE(step.cache.restored_tokens, border(previous, loop)) << "step " << i;
  }
  // The next user message strips the loop's reasoning: everything after the first user message is new.
  ChatPrompt next = loop;
  next.messages.push_back(message("assistant", "It rains."));
  next.messages.push_back(message("user", "Thank you."));
  const Reply after = ask(next);
  EXPECT_GE(after.cache.restored_tokens, border(before, next));
  EXPECT_GT(border(before, next), 200U);
  expect_no_mismatch();
}

TEST_P(ChatTest, EditsRegenerationsAndBranches) {
  start();
  const Json system = message("system", words(8, "trees"));
  const ChatPrompt first_turn = chat({system, message("user", words(10, "oaks"))});
  const Reply first = ask(first_turn);
  const Json answer = message("assistant", "Oaks are old.");
  const ChatPrompt second_turn =
      chat({system, message("user", words(10, "oaks")), answer, message("user", words(10, "elms"))});
  ask(second_turn);
  const auto size = static_cast<std::uint32_t>(tokens(second_turn).size());
  EXPECT_EQ(ask(second_turn).cache.restored_tokens, on_grid(size - 1)) << "regenerated";
  const ChatPrompt edited =
      chat({system, message("user", words(10, "oaks")), answer, message("user", words(9, "beeches"))});
  EXPECT_GE(ask(edited).cache.restored_tokens, border(edited, second_turn)) << "the last message edited";
  const ChatPrompt branch = chat({system, message("user", words(10, "firs"))});
  EXPECT_GE(ask(branch).cache.restored_tokens, border(branch, first_turn)) << "from the first message";
  ChatPrompt third_turn = second_turn;
  third_turn.messages.push_back(message("assistant", "Elms are ill."));
  third_turn.messages.push_back(message("user", "Why?"));
  EXPECT_GE(ask(third_turn).cache.restored_tokens, border(third_turn, second_turn)) << "and back";
  expect_no_mismatch();
}

TEST_P(ChatTest, ALastMessageThatDiffersInItsLastBlock) {
  start();
  const auto asked = [&](const std::string& last) {
    Json parts = Json::array();
    for (const std::string& text : {words(4, "rules"), words(20, "the project"), last})
      parts.push_back(Json{{"type", "text"}, {"text", text}});
    return chat({message("system", words(8, "code")), Json{{"role", "user"}, {"content", std::move(parts)}}});
  };
  const ChatPrompt one = asked("Why is that so?");
  const ChatPrompt other = asked("How many are there?");
  ask(one);
  const TokenList a = tokens(one), b = tokens(other);
  const auto common =
      static_cast<std::uint32_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
  ASSERT_GT(common, border(one, other) + 100) << "no message begins near";
  protocol::GenerateRequest explained = request(other);
  explained.report.explained = true;
  const Reply reply = harness_->ask(explained);
  // The text's last tag may be one token with the following line break.
  EXPECT_GE(reply.cache.restored_tokens, on_grid(common - 2));
  if (reply.cache.reason != MissReason::kNone) {
    ASSERT_TRUE(reply.usage.miss_text);
    EXPECT_TRUE(reply.usage.miss_text->before.ends_with("the project.\n")) << reply.usage.miss_text->before;
    EXPECT_TRUE(reply.usage.miss_text->after.starts_with("How many")) << reply.usage.miss_text->after;
  }
  EXPECT_FALSE(harness_->ask(request(asked("Who?"))).usage.miss_text) << "not asked for";
  ask(other);
  expect_no_mismatch();
}

TEST_P(ChatTest, TwoConversationsInTurns) {
  start();
  std::vector<ChatPrompt> chats = {chat({message("user", words(12, "cats"))}),
                                   chat({message("user", words(12, "dogs"))})};
  for (int turn = 0; turn < 4; ++turn) {
    for (ChatPrompt& one : chats) {
      const ChatPrompt before = one;
      ask(one);
      one.messages.push_back(message("assistant", "Yes, " + std::to_string(turn)));
      one.messages.push_back(message("user", words(3, "turn " + std::to_string(turn))));
      if (turn > 0) {
        EXPECT_GE(ask(one).cache.restored_tokens, border(before, one));
      }
    }
  }
  expect_no_mismatch();
}

TEST_P(ChatTest, SaltsShareNothing) {
  start();
  const ChatPrompt prompt = chat({message("user", words(30, "secrets"))});
  ask(prompt);
  protocol::GenerateRequest other = request(prompt);
  other.cache.name_space = "someone else";
  const Reply reply = harness_->ask(other);
  EXPECT_EQ(reply.cache.restored_tokens, 0U);
  EXPECT_EQ(reply.cache.reason, MissReason::kNeverSeen);
  EXPECT_EQ(reply.cache.known_tokens, 0U) << "not even that it is known elsewhere";
}

// A long text prepared in one request's turn would block all requests on the same thread.
TEST_P(ChatTest, LongTextsArePreparedElsewhere) {
  start(true);
  const std::uint64_t before = harness_->turns_of("texts");
  EXPECT_FALSE(ask(chat({message("user", "Hello.")})).error.has_value());
  EXPECT_EQ(harness_->turns_of("texts"), before) << "a short one is not worth the way";
  // Text that is not rendered, so that the prompt still fits the context.
  Json padded = message("user", "Hello.");
  padded["padding"] = std::string(100'000, 'x');
  const Reply reply = ask(chat({padded}));
  EXPECT_FALSE(reply.error.has_value());
  EXPECT_TRUE(reply.choices == ask(chat({message("user", "Hello.")})).choices);
  EXPECT_GE(harness_->turns_of("texts"), before + 2);
  const Reply too_long = harness_->ask(request(chat({message("user", words(20'000, "cheese"))})));
  ASSERT_TRUE(too_long.error.has_value());
  EXPECT_EQ(too_long.error->kind, protocol::ErrorKind::kTooLong) << too_long.error->message;
}

INSTANTIATE_TEST_SUITE_P(Devices, ChatTest, testing::ValuesIn(test_devices()),
                         [](const auto& info) { return test_name(info.param); });

}  // namespace
}  // namespace reprise::actors
