#pragma once
// The server behind `reprise chat`: streams POST /v1/chat/completions. Works with any OpenAI-compatible
// server; Reprise also reports cache use. Without --url, runs a server in this process on a loopback port
// with a random key.
//
// Bounds: 4 MiB per stream event, 16 MiB for the model list, 10 s to connect.
//
// Threading: the main thread. reply() blocks and polls for Ctrl-C.

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
  std::optional<double> temperature{};  // nullopt: the model's default
  std::optional<double> top_p{};
  std::optional<std::uint64_t> seed{};
  std::uint32_t max_tokens = 2048;
  bool no_think = false;
  bool no_cache = false;
  std::string url{};      // server, on which engine.model is a name; empty: load engine.model in this process
  std::string api_key{};  // for the server at `url`
};

class ChatInput;

/// The conversation to answer; its last message is the user's.
struct ChatWish {
  Json messages;
  std::uint64_t number = 0;        // index of the reply, from 0
  std::uint32_t conversation = 1;  // incremented by each /reset
};

class ChatPartner {
 public:
  using Show = std::function<void(const protocol::ReplyPieces&)>;

  /// Uses the server at options.url, or starts one in this process that loads the options' model. `options`
  /// must outlive it. Throws std::exception.
  explicit ChatPartner(const ChatOptions& options);
  ~ChatPartner();

  /// Waits until the server is ready; call once, before reply(). Returns a line that describes it; nullopt,
  /// after printing why, if the model cannot chat. Throws std::exception.
  std::optional<std::string> meet(ChatInput& input);
  ChatOutcome reply(const ChatWish& wish, ChatInput& input, const Show& show);
  /// Describes the snapshots kept: "; 3 snapshots of 1.5 MiB"; empty: unknown.
  std::string kept() const;

 private:
  class Exchange;
  class OwnServer;

  std::string find_model(ChatInput& input);
  std::string body_of(const ChatWish& wish) const;

  const ChatOptions& options_;
  std::unique_ptr<OwnServer> own_;  // null: remote server
  std::string base_;                // "http://127.0.0.1:8080"
  std::string key_;
  std::string model_;  // name on the server
};

}  // namespace reprise::tools
