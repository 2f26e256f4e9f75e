#pragma once
// A response, as a stream or in one piece. Items come in the order in which the model writes them: reasoning, messages,
// calls. The ids that an item has when it begins are those that it has at the end.
//
//   response.created  response.in_progress
//     response.output_item.added  (response.content_part.added  response.….delta...  response.….done
//     response.content_part.done)  response.output_item.done                            for each item
//   response.completed, or .incomplete, or .failed
// Every event has the next sequence_number. While the prompt is computed response.in_progress comes again as a sign of
// life.
//
// Of a compaction the reply is the summary, given out at the end as one compaction item, without its reasoning.
//
// The response is stored, where it is to be, before its last event is given out. One that failed is not.
//
// Threading: one actor's. Memory grows with the reply, which max_output_tokens bounds.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/api/reply.h"
#include "protocol/reply/reply_message.h"
#include "protocol/responses/custom_input.h"
#include "protocol/responses/response_store.h"
#include "protocol/responses/responses_request.h"

namespace reprise::protocol::responses {

/// What a reply has to know of its request.
struct ResponsePlan {
  ResponseKind kind = ResponseKind::kResponse;
  std::vector<ResponseTool> tools{};
  Json kept{};  // as ResponseRequest has it
  bool stream = false;
  Json frame{};     // what it repeats of the request
  Json messages{};  // of the conversation so far; null: it is not to be stored
  bool seals_reasoning = false;
  std::shared_ptr<ResponseStore> store{};
  ResponseOwner owner{};
};

class ResponseReply final : public StreamedReply {
 public:
  ResponseReply(ResponsePlan plan, ReplyContext context)
      : plan_(std::move(plan)), context_(std::move(context)) {}

  std::string_view content_type() const override;
  void admitted(const Admitted& event, std::int64_t now, std::string& out) override;
  void started(const Started& event, std::string& out) override;
  void delta(Delta event, std::string& out) override;
  void finished(const Finished& event, std::string& out) override;
  void done(const Done& event, std::string& out) override;
  void keep_alive(std::string& out) override;
  void failed(const ApiError& error, std::string& out) override;

 private:
  struct Item {
    enum class Kind : std::uint8_t {
      kReasoning,
      kMessage,
      kCall,
      kCustomCall,
      kCompaction
    } kind = Kind::kMessage;
    std::string id{};
    std::string text{};  // of a call its arguments or input, of a compaction what is sealed
    std::string call_id{};
    std::string name{};
    std::string name_space{};  // of a call; empty: none

    bool is_call() const { return kind == Kind::kCall || kind == Kind::kCustomCall; }
    bool has_parts() const { return kind == Kind::kReasoning || kind == Kind::kMessage; }
  };
  /// Names of an item's id and of the events of its text.
  struct KindNames {
    const char* id;
    std::string_view delta;
    std::string_view done;
  };
  static KindNames names_of(Item::Kind kind);

  void take(const ReplyPieces& pieces, std::string& out);
  void open_call(const ToolCallBegin& call, std::string& out);
  void add_to_call(std::string_view text, std::string& out);
  /// The item of a compaction, from all that was said.
  void give_summary(std::string& out);
  /// The open item, if it is of this kind; else a new one.
  Item& item(Item::Kind kind, std::string& out);
  void open(Item item, std::string& out);
  void close(std::string& out);

  Json item_json(const Item& item, std::string_view status) const;
  static Json part_json(const Item& item);
  /// The whole response as it stands.
  Json response_json(std::string_view status, const Usage* usage) const;

  /// Writes an event with `members`, a JSON object, and its number; nothing where there is no stream.
  void event(std::string_view name, Json members, std::string& out);
  void write_delta(const Item& item, std::string_view text, std::string& out);
  void store(const Json& response) const;

  ResponsePlan plan_;
  const ReplyContext context_;
  std::string model_;
  std::int64_t created_ = 0;
  std::optional<ReplyParser> parser_;
  std::vector<Item> items_;
  bool open_ = false;  // the last item
  CustomInput input_;  // of the call that is open
  MessageBuilder said_;
  Finished finished_{};
  std::uint32_t reasoning_tokens_ = 0;
  std::uint64_t number_ = 0;
};

}  // namespace reprise::protocol::responses
