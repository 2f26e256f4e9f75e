#pragma once
// The replies to chat completions and completions (protocol/api/completions_request.h), as a stream or whole.
//
// They are written directly as text rather than built as JSON values, because a stream has a small object per
// token whose fixed parts repeat.
//
// Threading: a reply belongs to one actor.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/api/completions_request.h"
#include "protocol/api/endpoint.h"
#include "protocol/api/reply_text.h"
#include "protocol/api/slot_records.h"
#include "protocol/reply/reply_message.h"

namespace reprise::protocol {

struct ReplyHead {
  std::string id;  // e.g. "chatcmpl-…"
  std::int64_t created = 0;
  std::string model;
};

/// Appends {"content":[{"token":…,"logprob":…,"bytes":…,"top_logprobs":[…]}],"refusal":null}.
void append_chat_logprobs(std::string& out, const std::vector<ReplyToken>& tokens);
/// Appends {"tokens":[…],"token_logprobs":[…],"top_logprobs":[…],"text_offset":[…]}; advances `offset` by the
/// tokens' characters.
void append_completion_logprobs(std::string& out, const std::vector<ReplyToken>& tokens,
                                std::uint64_t& offset);

/// A streamed answer: converts the engine's events to server-sent events.
///
/// A choice's chunks carry its tokens' ids and logprobs, if requested. Those of tokens whose text is held
/// back (a partial tag or character) come with the choice's next chunk, the last of them with its
/// finish_reason. The prompt's ids come in the first chunk of a chat, and in the first chunk of each choice
/// of a completion. The last finish_reason is delayed until the engine's usage is known, so that its chunk
/// can include it.
///
/// Each call appends whole events to `out` and keeps only what later events need.
class StreamReply final : public StreamedReply {
 public:
  StreamReply(const ReplyOptions& options, ReplyContext context);

  std::string_view content_type() const override;
  void admitted(const Admitted& event, std::int64_t now, std::string& out) override;
  void progress(const Progress& event, std::string& out) override;
  void started(const Started& event, std::string& out) override;
  void delta(Delta event, std::string& out) override;
  void finished(const Finished& event, std::string& out) override;
  void done(const Done& event, std::string& out) override;
  void keep_alive(std::string& out) override;
  void failed(const Error& error, std::string& out) override;

 private:
  struct Choice {
    std::optional<ReplyParser> parser{};
    std::vector<ReplyToken> tokens{};  // not yet in a chunk
    std::uint64_t text_offset = 0;     // offset of the next token, for completions
    std::optional<FinishReason> finish{};
    SharedTokens prompt{};  // sent with the next chunk
  };

  Choice& choice(std::uint32_t index);
  void write_pieces(std::uint32_t index, const ReplyPieces& pieces, std::string& out);
  void write_finish(std::uint32_t index, const Usage* usage, std::string& out);
  void tell_role(std::string& out);
  void open_chunk(std::uint32_t index, std::string& out);
  /// Ends the choice and the chunk; includes the usage if it is not null.
  void close_chunk(std::uint32_t index, std::string_view finish_reason, const Usage* usage, std::string& out);

  const ReplyOptions options_;
  const ReplyContext context_;
  std::string prefix_;
  std::vector<Choice> choices_;
  std::uint32_t unfinished_;
  std::uint32_t reasoning_tokens_ = 0;
  std::optional<std::uint32_t> held_finish_;
  LiveTimings timings_;
  bool role_told_ = false;
  std::string prompt_text_;  // sent with the last chunk
};

/// A whole answer: converts the engine's events to one JSON object. Memory grows with the reply, which
/// max_tokens and the model's context bound.
class WholeReply final : public Reply {
 public:
  WholeReply(const ReplyOptions& options, ReplyContext context);

  void admitted(const Admitted& event, std::int64_t now, std::string& out) override;
  void started(const Started& event, std::string& out) override;
  void delta(Delta event, std::string& out) override;
  void finished(const Finished& event, std::string& out) override;
  void done(const Done& event, std::string& out) override;

 private:
  struct Choice {
    std::optional<ReplyParser> parser{};
    MessageBuilder message{};
    std::string text{};  // completions only
    std::vector<ReplyToken> tokens{};
    SharedTokens prompt{};  // if token ids were requested
    FinishReason finish = FinishReason::kLength;
    double logprob = 0;  // sum over its tokens, if known
    std::size_t length = 0;
  };

  Choice& choice(std::uint32_t index);
  std::vector<std::uint32_t> order_shown() const;
  void append_choice(std::uint32_t which, std::uint32_t index, std::string& out) const;

  const ReplyOptions options_;
  const ReplyContext context_;
  ReplyHead head_{};
  std::vector<Choice> choices_;
  std::string prompt_text_;
  std::uint32_t reasoning_tokens_ = 0;
};

/// The generation call for the request; its replies are recorded in the slot.
std::unique_ptr<GenerationCall> text_call(TextRequest request, SlotNote note);

}  // namespace reprise::protocol
