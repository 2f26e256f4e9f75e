#pragma once
// An answer in one piece: {"id":…,"type":"message","role":"assistant","content":[…],"stop_reason":…,"usage":…}.
//
// Threading: one actor's. Memory grows with the reply, which max_tokens bounds.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/api/reply.h"

namespace reprise::protocol::anthropic {

class MessageWhole final : public Reply {
 public:
  explicit MessageWhole(ReplyContext context) : context_(std::move(context)) {}

  void admitted(const Admitted& event, std::int64_t now, std::string& out) override;
  void started(const Started& event, std::string& out) override;
  void delta(Delta event, std::string& out) override;
  void finished(const Finished& event, std::string& out) override;
  void done(const Done& event, std::string& out) override;

 private:
  void add(const ReplyPieces& pieces);

  const ReplyContext context_;
  std::string model_;
  std::optional<ReplyParser> parser_;
  ReplyPieces blocks_;                  // text, reasoning and calls in their order, each whole
  std::vector<std::string> arguments_;  // of the calls
  Finished finished_{};
};

}  // namespace reprise::protocol::anthropic
