#pragma once
// The replies to chat completions and completions (protocol/api/completions_request.h), as streams and in one piece.
//
// They are written as text, not built as values: a stream has one small object for each token, and the
// text between its changing parts is always the same.
//
// Threading: one actor's.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/api/completions_request.h"
#include "protocol/api/endpoint.h"
#include "protocol/api/reply_text.h"
#include "protocol/api/slot_book.h"
#include "protocol/reply/reply_message.h"

namespace reprise::protocol {

/// What all objects of one answer begin with.
struct ReplyHead {
  std::string id;  // "chatcmpl-…"
  std::int64_t created = 0;
  std::string model;
};

/// {"content":[{"token":…,"logprob":…,"bytes":…,"top_logprobs":[…]}],"refusal":null}
void append_chat_logprobs(std::string& out, const std::vector<ReplyToken>& tokens);
/// {"tokens":[…],"token_logprobs":[…],"top_logprobs":[…],"text_offset":[…]}; moves `offset` on by the
/// characters of the tokens.
void append_completion_logprobs(std::string& out, const std::vector<ReplyToken>& tokens,
                                std::uint64_t& offset);

/// An answer as a stream: events of the engine in, server-sent events out.
///
/// A choice's chunks carry its tokens' ids and logprobs where they were asked for: those of tokens whose text
/// is held back (the start of a mark, half a character) come with the next chunk of the choice, the last of
/// them with its finish_reason. The prompt's ids come in the first chunk of a chat, and in the first chunk of
/// each choice of a completion. The last finish_reason waits for the engine's account, so that it can carry
/// it.
///
/// Each call appends whole events to `out`; what is not asked for now is not kept.
class StreamReply final : public StreamedReply {
 public:
  /// A completion's text is passed on as it is, a chat's is read for its marks.
  StreamReply(const ReplyOptions& options, ReplyContext context);

  std::string_view content_type() const override;
  void admitted(const Admitted& event, std::int64_t now, std::string& out) override;
  void progress(const Progress& event, std::string& out) override;
  void started(const Started& event, std::string& out) override;
  void delta(Delta event, std::string& out) override;
  void finished(const Finished& event, std::string& out) override;
  void done(const Done& event, std::string& out) override;
  void keep_alive(std::string& out) override;
  void failed(const ApiError& error, std::string& out) override;

 private:
  struct Choice {
    std::optional<ReplyParser> parser{};
    std::vector<ReplyToken> tokens{};  // not yet in a chunk
    std::uint64_t text_offset = 0;     // of the next token, for completions
    std::optional<FinishReason> finish{};
    SharedTokens prompt{};  // to be told with the next chunk
  };

  Choice& choice(std::uint32_t index);
  void write_pieces(std::uint32_t index, const ReplyPieces& pieces, std::string& out);
  void write_finish(std::uint32_t index, const Usage* usage, std::string& out);
  void tell_role(std::string& out);
  void open_chunk(std::uint32_t index, std::string& out);
  /// Closes the choice and the chunk; with the account where there is one.
  void close_chunk(std::uint32_t index, std::string_view finish_reason, const Usage* usage, std::string& out);

  const ReplyOptions options_;
  const ReplyContext context_;
  std::string prefix_;  // of every chunk
  std::vector<Choice> choices_;
  std::uint32_t unfinished_;
  std::uint32_t reasoning_tokens_ = 0;  // of all choices
  std::optional<std::uint32_t> held_finish_;
  LiveTimings timings_;
  bool role_told_ = false;
  std::string prompt_text_;  // to be told with the last chunk
};

/// An answer in one piece: events of the engine in, one JSON object out. Memory grows with the reply, which max_tokens and
/// the model's context bound.
class WholeReply final : public Reply {
 public:
  /// A completion's text is passed on as it is, a chat's is read for its marks.
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
    std::string text{};  // of a completion
    std::vector<ReplyToken> tokens{};
    SharedTokens prompt{};  // where token ids were asked for
    FinishReason finish = FinishReason::kLength;
    double logprob = 0;  // of all its tokens, where they have one
    std::size_t length = 0;
  };

  Choice& choice(std::uint32_t index);
  std::vector<std::uint32_t> order_shown() const;
  void append_choice(std::uint32_t which, std::uint32_t index, std::string& out) const;

  const ReplyOptions options_;
  const ReplyContext context_;
  ReplyHead head_{};
  std::vector<Choice> choices_;
  std::string prompt_text_;             // where it is to be told
  std::uint32_t reasoning_tokens_ = 0;  // of all choices
};

/// The request, with replies that are noted.
std::unique_ptr<GenerationCall> text_call(TextRequest request, SlotNote note);

}  // namespace reprise::protocol
