#pragma once
// Who answers in `reprise chat`: a model in the same process (chat_engine.h), or a server (chat_server.h).
//
// Threading: the main thread. A reply blocks it, and looks for Ctrl-C meanwhile.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/json.h"
#include "protocol/reply/reply_parser.h"

namespace reprise::tools {

class ChatInput;

/// What is to be answered: a conversation whose last message is the user's.
struct ChatWish {
  Json messages;
  std::uint64_t number = 0;        // of the reply, from 0
  std::uint32_t conversation = 1;  // another after each /reset
};

/// What became of it. What the model said went to who shows it.
struct ChatOutcome {
  std::optional<std::string> error{};  // nothing else counts
  bool stopped = false;                // by Ctrl-C
  bool at_limit = false;               // of tokens
  std::uint32_t tokens = 0;            // of the reply
  std::uint32_t prompt_tokens = 0;
  std::uint32_t restored = 0;
  std::uint32_t prefilled = 0;
  std::string restored_from{};  // "history"; empty: nothing was restored
  std::string miss_reason{};    // empty: the partner does not tell
  std::uint32_t miss_position = 0;
  std::optional<double> first_token_ms{};
  std::optional<double> tokens_per_second{};
};

class ChatPartner {
 public:
  using Show = std::function<void(const protocol::ReplyPieces&)>;

  virtual ~ChatPartner() = default;

  /// Once and first: waits until it can answer. A line about it; nothing where it cannot chat at all, which it has
  /// said. Throws std::exception.
  virtual std::optional<std::string> meet(ChatInput& input) = 0;
  virtual ChatOutcome reply(const ChatWish& wish, ChatInput& input, const Show& show) = 0;
  /// What it keeps for later: "; 3 snapshots of 1.5 MiB"; empty: not known.
  virtual std::string kept() const { return {}; }
};

}  // namespace reprise::tools
