#pragma once
// Chat scenarios ("stories") of bench --cache, for models with a tokenizer and a chat template.
//
// Expected to be restored: the prompt up to the last message border in what the cache has seen. A message
// border is the position just after the special token that opens a message.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "models/text/tokenizer.h"
#include "protocol/chat/chat_format.h"
#include "tools/lab/bench_cache_story.h"

namespace reprise::tools {

class ChatWorld {
 public:
  /// Returns null, with the reason in `why_not`, if the model has no chat template. Throws models::LoadError.
  static std::unique_ptr<ChatWorld> load(const std::string& model, const protocol::ModelCard& card,
                                         std::uint32_t prompt, const RestoreRules& rules,
                                         std::string& why_not);

  std::uint32_t prompt() const { return prompt_; }
  const RestoreRules& rules() const { return rules_; }
  bool thinks() const { return chat_->source().find("<think>") != std::string::npos; }

  /// Returns about `tokens` tokens of random words, a function of `seed`.
  std::string words(std::uint32_t tokens, std::uint32_t seed) const;
  /// Throws std::runtime_error if the template fails.
  std::string text_of(const protocol::ChatPrompt& chat) const;
  TokenList tokens_of(const protocol::ChatPrompt& chat) const;
  /// Converts an answer to the message that a client keeps.
  Json message_of(const protocol::ChatPrompt& chat, const BenchAnswer& answer) const;
  /// Returns the restoration expected for `prompt` after the prompts `seen`.
  Hope up_to_border(const TokenList& prompt, const std::vector<TokenList>& seen) const;
  /// Returns the last message border within the first `count` tokens; 0: none.
  std::uint32_t last_border(const TokenList& tokens, std::size_t count) const;
  /// Returns the tokens that the engine prefills in idle time after answering.
  TokenList history_of(const protocol::ChatPrompt& chat, const Json& reply) const;

 private:
  ChatWorld(protocol::ChatFormatPtr chat, std::shared_ptr<const models::Tokenizer> tokenizer,
            std::uint32_t prompt, const RestoreRules& rules)
      : chat_(std::move(chat)), tokenizer_(std::move(tokenizer)), prompt_(prompt), rules_(rules) {}

  const protocol::ChatFormatPtr chat_;
  const std::shared_ptr<const models::Tokenizer> tokenizer_;
  const std::uint32_t prompt_;
  const RestoreRules rules_;
};

/// `world` must outlive the stories.
std::vector<StoryPlan> chat_stories(const ChatWorld& world);
const std::vector<std::string>& chat_story_names();

}  // namespace reprise::tools
