#pragma once
// Who answers in `reprise chat`: a server, asked over HTTP: POST /v1/chat/completions, as a stream. Any that speaks OpenAI's
// API will do; Reprise tells besides what its cache did. Without --url it is a server in this process, on a port of the
// loopback device, which lets nobody else in.
//
// Bounds: an event of the stream has 4 MiB, the list of models 16 MiB; a connection that is not made within ten seconds fails.
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

  /// The server at options.url; without one, a server in this process that begins to load the options' model. The options
  /// must outlive it. Throws std::exception.
  explicit ChatPartner(const ChatOptions& options);
  ~ChatPartner();

  /// Once and first: waits until it can answer. A line about it; nothing where it cannot chat at all, which it has
  /// said. Throws std::exception.
  std::optional<std::string> meet(ChatInput& input);
  ChatOutcome reply(const ChatWish& wish, ChatInput& input, const Show& show);
  /// What it keeps for later: "; 3 snapshots of 1.5 MiB"; empty: not known.
  std::string kept() const;

 private:
  class Exchange;
  class OwnServer;

  std::string find_model(ChatInput& input);
  std::string body_of(const ChatWish& wish) const;

  const ChatOptions& options_;
  std::unique_ptr<OwnServer> own_;  // null: the server is elsewhere
  std::string base_;                // "http://127.0.0.1:8080"
  std::string key_;
  std::string model_;  // as the server calls it
};

}  // namespace reprise::tools
