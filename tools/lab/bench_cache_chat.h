#pragma once
// Stories of conversations, on models that have a tokenizer and a chat template.
//
// What is asked of them: all that stands before the last border of messages in what the cache has seen. A
// border is the place just past the special token that opens a message.
//
// Threading: one thread.

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
  /// Null, with the reason in `why_not`, for a model that cannot chat. Throws models::LoadError.
  static std::unique_ptr<ChatWorld> load(const std::string& model, const protocol::ModelCard& card,
                                         std::uint32_t prompt, const RestoreRules& rules,
                                         std::string& why_not);

  std::uint32_t prompt() const { return prompt_; }
  const RestoreRules& rules() const { return rules_; }
  bool thinks() const { return chat_->source().find("<think>") != std::string::npos; }

  /// Words of about so many tokens; the same for the same seed.
  std::string words(std::uint32_t tokens, std::uint32_t seed) const;
  /// Throws std::runtime_error where the template refuses.
  std::string text_of(const protocol::ChatPrompt& chat) const;
  TokenList tokens_of(const protocol::ChatPrompt& chat) const;
  /// An answer as the message that a client keeps of it.
  Json message_of(const protocol::ChatPrompt& chat, const BenchAnswer& answer) const;
  /// Of a prompt, after others that were sent or prefilled.
  Hope up_to_border(const TokenList& prompt, const std::vector<TokenList>& seen) const;
  /// Just past the last opener among the first `count` tokens; 0: there is none.
  std::uint32_t last_border(const TokenList& tokens, std::size_t count) const;
  /// What the engine prefills of a conversation in idle time, once it has answered.
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

/// `world` must outlive them.
std::vector<StoryPlan> chat_stories(const ChatWorld& world);
/// The names of the stories that chat_stories() may have.
const std::vector<std::string>& chat_story_names();

}  // namespace reprise::tools
