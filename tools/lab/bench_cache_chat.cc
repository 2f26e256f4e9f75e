#include "tools/lab/bench_cache_chat.h"

#include <algorithm>
#include <random>

#include "actors/request/chat_tokens.h"
#include "models/text/chat_template_source.h"
#include "models/text/tokenizer_load.h"

namespace reprise::tools {

using protocol::ChatPrompt;

std::unique_ptr<ChatWorld> ChatWorld::load(const std::string& model, const protocol::ModelCard& card,
                                           std::uint32_t prompt, const RestoreRules& rules,
                                           std::string& why_not) {
  if (!card.takes_text) {
    why_not = "the model has no tokenizer";
    return nullptr;
  }
  std::optional<std::string> source = models::load_chat_template(model);
  if (!source) {
    why_not = "the model has no chat template";
    return nullptr;
  }
  auto tokenizer = std::make_shared<const models::Tokenizer>(models::load_tokenizer(model));
  auto chat = protocol::ChatFormat::make(std::move(*source), actors::chat_tokens(tokenizer));
  if (!chat.ok()) {
    why_not = chat.error();
    return nullptr;
  }
  if (!(*chat)->shape().known()) {
    why_not = "the chat template opens messages with no special token";
    return nullptr;
  }
  return std::unique_ptr<ChatWorld>(new ChatWorld(std::move(*chat), std::move(tokenizer), prompt, rules));
}

std::string ChatWorld::words(std::uint32_t tokens, std::uint32_t seed) const {
  static constexpr const char* kWords[] = {"the",   "state", "of",     "a",     "river",  "holds",
                                           "what",  "came",  "before", "and",   "water",  "stone",
                                           "time",  "under", "bridge", "house", "small",  "number",
                                           "light", "every", "not",    "where", "people", "work"};
  std::mt19937 random(seed);
  std::string text;
  for (std::size_t count = 0; count < tokens;) {
    for (int i = 0; i < 8; ++i)
      text += std::string(text.empty() ? "" : " ") + kWords[random() % std::size(kWords)];
    text += ".";
    count = tokenizer_->encode(text).size();
  }
  return text;
}

std::string ChatWorld::text_of(const ChatPrompt& chat) const {
  auto rendered = chat_->render(chat);
  if (!rendered.ok()) throw std::runtime_error(rendered.error().message);
  return std::move(*rendered);
}

TokenList ChatWorld::tokens_of(const ChatPrompt& chat) const {
  return tokenizer_->encode(text_of(chat));
}

Json ChatWorld::message_of(const ChatPrompt& chat, const BenchAnswer& answer) const {
  return chat_->message_of(chat, answer.text, answer.prompt_tail, "bench");
}

Hope ChatWorld::up_to_border(const TokenList& prompt, const std::vector<TokenList>& seen) const {
  Hope hope;
  for (const TokenList& other : seen) {
    const auto end = std::mismatch(prompt.begin(), prompt.end(), other.begin(), other.end()).first;
    hope.shared = std::max(hope.shared, static_cast<std::uint32_t>(end - prompt.begin()));
  }
  hope.asked = rules_.on_grid(
      rules_.any_token ? std::min<std::uint32_t>(hope.shared, static_cast<std::uint32_t>(prompt.size()) - 1)
                       : last_border(prompt, hope.shared));
  return hope;
}

TokenList ChatWorld::history_of(const ChatPrompt& chat, const Json& reply) const {
  ChatPrompt next = chat;
  next.reply_opening.clear();
  next.add_generation_prompt = false;
  next.messages.push_back(reply);
  next.messages.push_back(Json{{"role", "user"}, {"content", "?"}});
  TokenList tokens = tokens_of(next);
  tokens.resize(last_border(tokens, tokens.size()));
  return tokens;
}

std::uint32_t ChatWorld::last_border(const TokenList& tokens, std::size_t count) const {
  for (std::size_t i = count; i > 0; --i) {
    if (tokens[i - 1] == chat_->shape().opener) return static_cast<std::uint32_t>(i);
  }
  return 0;
}

namespace {
Json message(const char* role, std::string content) {
  return Json{{"role", role}, {"content", std::move(content)}};
}

/// A growing conversation, and the prompts that the cache has seen of it.
struct Talk {
  const ChatWorld& world;
  Story& story;
  ChatPrompt chat{.messages = Json::array()};
  std::vector<TokenList> seen{};

  /// The system message is half of a prompt, each other message an eighth.
  Talk(const ChatWorld& of, Story& in, std::uint32_t seed) : world(of), story(in) {
    chat.messages.push_back(message("system", world.words(world.prompt() / 2, seed)));
  }

  Talk& user(std::uint32_t seed) {
    chat.messages.push_back(message("user", world.words(world.prompt() / 8, seed)));
    return *this;
  }
  void say() { keep(story.tell(chat)); }
  void say(const std::string& row) { keep(story.measure(row, chat, hope())); }
  Hope hope() const { return world.up_to_border(world.tokens_of(chat), seen); }
  /// Sends another version, whose answer is not kept.
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

  // A branch from the second turn, taken after the third.
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
    // A random model's reply contains no tool call, so the client's next message has one that the model did
    // not write.
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
