#pragma once
// Who answers in `reprise chat`: a model in the same process, or a server: POST /v1/chat/completions, as a stream. Any that
// speaks OpenAI's API will do; Reprise tells besides what its cache did.
//
// Bounds: an event of a server's stream has 4 MiB, its list of models 16 MiB; a connection that is not made within ten seconds
// fails.
//
// Threading: the main thread. A reply blocks it, and looks for Ctrl-C meanwhile.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/json.h"
#include "protocol/reply/reply_parser.h"
#include "tools/reprise/chat_text.h"
#include "tools/reprise/engine_flags.h"

namespace reprise::tools {

struct ChatOptions {
  EngineFlags engine;
  std::string system{};
  std::optional<double> temperature{};  // none: the model's own
  std::optional<double> top_p{};
  std::optional<std::uint64_t> seed{};
  std::uint32_t max_tokens = 2048;
  bool no_think = false;
  bool no_cache = false;
  std::string url{};      // of a server; empty: none, and engine.model is loaded. Else that is a name there
  std::string api_key{};  // for the server
};

class ChatInput;

/// What is to be answered: a conversation whose last message is the user's.
struct ChatWish {
  Json messages;
  std::uint64_t number = 0;        // of the reply, from 0
  std::uint32_t conversation = 1;  // another after each /reset
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

/// Begins to load the model that the options name, which must outlive it.
std::unique_ptr<ChatPartner> engine_partner(const ChatOptions& options);

/// The one at options.url; the options must outlive it.
std::unique_ptr<ChatPartner> server_partner(const ChatOptions& options);

}  // namespace reprise::tools
