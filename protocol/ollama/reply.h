#pragma once
// The reply to /api/chat and /api/generate: JSON lines, or one object.
//
// A line carries the text that has come, or its thinking, or a whole tool call; the last has "done": true and the
// account, with times in nanoseconds.
//
// Threading: one actor's. Memory grows with the reply, which max_tokens and the model's context bound.

#include <cstdint>
#include <optional>
#include <string>

#include "protocol/api/reply.h"
#include "protocol/ollama/request.h"
#include "protocol/reply/reply_message.h"

namespace reprise::protocol::ollama {

/// What both forms share: the reply's text read for its marks, and what lines begin with.
class OllamaText {
 public:
  OllamaText(OllamaKind kind, bool is_chat, ReplyContext context);

  void admitted(const Admitted& event, std::int64_t now);
  void started(const Started& event);
  ReplyPieces push(const Delta& event);
  ReplyPieces finish(const Finished& event);

  /// {"model":…,"created_at":…} and the text in its place: "message" or "response".
  Json line(const std::string& text, const std::string& thinking, Json calls) const;
  /// What the last line has besides.
  void add_account(Json& line, const Usage& usage) const;

 private:
  const OllamaKind kind_;
  const bool is_chat_;  // the prompt was one: marks are looked for
  const ReplyContext context_;
  std::string model_;
  std::string created_;
  std::optional<ReplyParser> parser_;
  FinishReason reason_ = FinishReason::kStop;
};

class OllamaWhole final : public Reply {
 public:
  OllamaWhole(OllamaKind kind, bool is_chat, ReplyContext context);
  void admitted(const Admitted& event, std::int64_t now, std::string& out) override;
  void started(const Started& event, std::string& out) override;
  void delta(Delta event, std::string& out) override;
  void finished(const Finished& event, std::string& out) override;
  void done(const Done& event, std::string& out) override;

 private:
  OllamaText text_;
  MessageBuilder message_;
};

class OllamaStream final : public StreamedReply {
 public:
  OllamaStream(OllamaKind kind, bool is_chat, ReplyContext context);
  std::string_view content_type() const override;
  void admitted(const Admitted& event, std::int64_t now, std::string& out) override;
  void started(const Started& event, std::string& out) override;
  void delta(Delta event, std::string& out) override;
  void finished(const Finished& event, std::string& out) override;
  void done(const Done& event, std::string& out) override;
  void keep_alive(std::string& out) override;
  void failed(const ApiError& error, std::string& out) override;

 private:
  void write(const ReplyPieces& pieces, std::string& out);

  OllamaText text_;
  std::string call_name_;       // of a call that is being written
  std::string call_arguments_;  // bounded as the reply is
};

/// {"error":…}
std::string error_text(const ApiError& error);

}  // namespace reprise::protocol::ollama
