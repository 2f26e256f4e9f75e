// How a model's conversations become tokens, told from outside the engine.

#include <algorithm>
#include <random>

#include "actors/request/chat_tokens.h"
#include "models/text/chat_template_source.h"
#include "models/text/tokenizer_load.h"
#include "tools/lab/bench_cache_chat.h"

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

}  // namespace reprise::tools
