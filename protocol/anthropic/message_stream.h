#pragma once
// An answer as a stream of named events:
//
//   message_start  content_block_start  content_block_delta...  content_block_stop  ...  message_delta  message_stop
//
// A block is a text, a thinking block or a call. message_start comes when the prompt has been computed, so that it can
// tell what was restored; where that takes longer than a client should wait for a sign, before, with the prompt's
// length alone. message_delta has the whole account in any case.
//
// Each call appends whole events to `out`. Threading: one actor's.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/api/reply.h"

namespace reprise::protocol::anthropic {

class MessageStream final : public StreamedReply {
 public:
  explicit MessageStream(ReplyContext context) : context_(std::move(context)) {}

  std::string_view content_type() const override;
  void admitted(const Admitted& event, std::int64_t now, std::string& out) override;
  void started(const Started& event, std::string& out) override;
  void delta(Delta event, std::string& out) override;
  void finished(const Finished& event, std::string& out) override;
  void done(const Done& event, std::string& out) override;
  void keep_alive(std::string& out) override;
  void failed(const ApiError& error, std::string& out) override;

 private:
  enum class Block : std::uint8_t { kNone, kText, kThinking, kCall };

  void begin(const CacheReport& cache, std::string& out);
  void write(const ReplyPiece& piece, std::string& out);
  /// Closes the open block and opens one; `content` is its JSON at the start.
  void open_block(Block kind, std::string_view content, std::string& out);
  void close_block(std::string& out);
  /// Goes on with the open block: {"type":TYPE,KEY:TEXT}.
  void write_delta(std::string_view type, std::string_view key, std::string_view text, std::string& out);

  const ReplyContext context_;
  std::string model_;
  std::uint32_t prompt_tokens_ = 0;
  bool admitted_ = false;
  bool begun_ = false;
  std::optional<ReplyParser> parser_;
  Block open_ = Block::kNone;
  std::uint32_t blocks_ = 0;  // opened so far
  Finished finished_{};
};

}  // namespace reprise::protocol::anthropic
