#include "tools/lab/bench_cache_chat.h"

namespace reprise::tools {
namespace {

using protocol::ChatPrompt;

Json message(const char* role, std::string content) {
  return Json{{"role", role}, {"content", std::move(content)}};
}

/// A conversation that grows, and what the cache has seen of it.
struct Talk {
  const ChatWorld& world;
  Story& story;
  ChatPrompt chat{.messages = Json::array()};
  std::vector<TokenList> seen{};

  /// Half of a prompt is the system's, an eighth each message.
  Talk(const ChatWorld& of, Story& in, std::uint32_t seed) : world(of), story(in) {
    chat.messages.push_back(message("system", world.words(world.prompt() / 2, seed)));
  }

  Talk& user(std::uint32_t seed) {
    chat.messages.push_back(message("user", world.words(world.prompt() / 8, seed)));
    return *this;
  }
  /// Sends it as it stands, and puts the answer behind.
  void say() { keep(story.tell(chat)); }
  void say(const std::string& row) { keep(story.measure(row, chat, hope())); }
  Hope hope() const { return world.up_to_border(world.tokens_of(chat), seen); }
  /// Sends another version of it, whose answer is not kept.
  void aside(const std::string& row, const ChatPrompt& other) {
    story.measure(row, other, world.up_to_border(world.tokens_of(other), seen));
    seen.push_back(world.tokens_of(other));
  }

  void keep(const BenchAnswer& answer) {
    seen.push_back(world.tokens_of(chat));
    Json reply = world.message_of(chat, answer);
    seen.push_back(world.history_of(chat, reply));
    chat.reply_opening.clear();
    chat.messages.push_back(std::move(reply));
  }
};

void tell_turns(Story& story, const ChatWorld& world) {
  Talk talk(world, story, 1);
  talk.user(2).say();
  talk.user(3).say("next turn");
  ChatPrompt again = talk.chat;
  again.messages.as_array().pop_back();
  const auto whole = static_cast<std::uint32_t>(world.tokens_of(again).size());
  story.measure("regenerate", again, world.rules().all(whole - 1), 1);
  story.measure("regenerate again", again, world.rules().all(whole - 1), 2);

  ChatPrompt edited = again;
  edited.messages.as_array().back() = message("user", world.words(world.prompt() / 8, 4));
  talk.aside("last message edited", edited);

  Talk other(world, story, 5);
  other.user(6).say();
  talk.user(7).say("other conversation and back");

  // A way that leaves at the second turn, when the third has been taken.
  ChatPrompt old = talk.chat;
  old.messages.as_array().pop_back();
  old.messages.as_array()[3] = message("user", world.words(world.prompt() / 8, 8));
  talk.aside("old message edited", old);
}

void tell_branches(Story& story, const ChatWorld& world) {
  Talk talk(world, story, 10);
  talk.user(11).say();
  ChatPrompt branch = talk.chat;
  branch.messages.as_array().resize(1);
  const auto leave = [&](const char* row, std::uint32_t seed) {
    ChatPrompt one = branch;
    one.messages.push_back(message("user", world.words(world.prompt() / 8, seed)));
    talk.aside(row, one);
  };
  leave("branch", 12);
  leave("branch again", 13);
}

void tell_users(Story& story, const ChatWorld& world) {
  Talk first(world, story, 20);
  first.user(21).say();
  for (std::uint32_t user = 2; user <= 3; ++user) {
    Talk next(world, story, 20);
    next.seen = first.seen;
    next.user(20 + user).say("shared system prompt, user " + std::to_string(user));
    first.seen = next.seen;
  }
}

void tell_document(Story& story, const ChatWorld& world) {
  const std::string document = world.words(world.prompt(), 30);
  std::vector<TokenList> seen;
  for (std::uint32_t question = 1; question <= 5; ++question) {
    ChatPrompt chat{.messages = Json::array()};
    chat.messages.push_back(message("system", document));
    chat.messages.push_back(message("user", world.words(16, 30 + question)));
    const TokenList tokens = world.tokens_of(chat);
    if (question == 2 || question == 5) {
      story.measure("one document, question " + std::to_string(question), chat,
                    world.up_to_border(tokens, seen));
    } else {
      story.tell(chat);
    }
    seen.push_back(tokens);
  }
}

void tell_tools(Story& story, const ChatWorld& world) {
  Talk talk(world, story, 40);
  talk.chat.tools = Json::array();
  talk.chat.tools.push_back(Json{
      {"type", "function"},
      {"function", Json{{"name", "look_up"},
                        {"description", "Finds a word in the book."},
                        {"parameters", Json{{"type", "object"},
                                            {"properties", Json{{"word", Json{{"type", "string"}}}}}}}}}});
  talk.user(41);
  for (std::uint32_t step = 1; step <= 3; ++step) {
    // What a random model says is no call, so the client's next message has one that it did not say.
    const TokenList sent = world.tokens_of(talk.chat);
    if (step == 1) {
      story.tell(talk.chat);
    } else {
      story.measure("tool loop, step " + std::to_string(step), talk.chat, talk.hope());
    }
    talk.seen.push_back(sent);
    Json calls = Json::array();
    calls.push_back(Json{{"id", "call_" + std::to_string(step)},
                         {"type", "function"},
                         {"function", Json{{"name", "look_up"}, {"arguments", "{\"word\": \"river\"}"}}}});
    talk.chat.messages.push_back(
        Json{{"role", "assistant"}, {"content", ""}, {"tool_calls", std::move(calls)}});
    talk.chat.messages.push_back(Json{{"role", "tool"},
                                      {"tool_call_id", "call_" + std::to_string(step)},
                                      {"content", world.words(world.prompt() / 8, 41 + step)}});
  }
}

void tell_thinking(Story& story, const ChatWorld& world) {
  Talk talk(world, story, 50);
  talk.user(51);
  const std::string text = world.text_of(talk.chat);
  const std::string thought = world.words(world.prompt() / 16, 52) + "\n</think>\n\n";
  const bool open = text.ends_with("<think>") || text.ends_with("<think>\n");
  talk.chat.reply_opening = (open ? "" : "<think>\n") + thought;
  talk.say();
  talk.user(53).say("next turn, thinking stripped");
}

struct Named {
  const char* name;
  void (*tell)(Story&, const ChatWorld&);
};
constexpr Named kStories[] = {
    {"turns", tell_turns},           {"branches", tell_branches}, {"shared system prompt", tell_users},
    {"one document", tell_document}, {"tool loop", tell_tools},   {"thinking stripped", tell_thinking}};

}  // namespace

std::vector<StoryPlan> chat_stories(const ChatWorld& world) {
  std::vector<StoryPlan> plans;
  for (const Named& story : kStories) {
    if (story.tell == tell_thinking && !world.thinks()) continue;
    plans.push_back({story.name, [&world, tell = story.tell](Story& told) { tell(told, world); }});
  }
  return plans;
}

const std::vector<std::string>& chat_story_names() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (const Named& story : kStories) names.emplace_back(story.name);
    return names;
  }();
  return kNames;
}

}  // namespace reprise::tools
