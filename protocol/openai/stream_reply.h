#pragma once
// An answer as a stream: events of the engine in, server-sent events out.
//
// A choice's chunks carry its tokens' ids and logprobs where they were asked for: those of tokens whose text
// is held back (the start of a mark, half a character) come with the next chunk of the choice, the last of
// them with its finish_reason. The prompt's ids come in the first chunk of a chat, and in the first chunk of
// each choice of a completion. The last finish_reason waits for the engine's account, so that it can carry
// it.
//
// Each call appends whole events to `out`; what is not asked for now is not kept.
//
// Threading: one actor's.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/api/reply.h"
#include "protocol/api/timings.h"
#include "protocol/openai/reply_text.h"
#include "protocol/openai/request.h"

namespace reprise::protocol::openai {

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

}  // namespace reprise::protocol::openai
