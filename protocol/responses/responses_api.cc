// OpenAI's Responses API: creates, reads and deletes responses, compacts conversations, counts prompt tokens.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_text.h"
#include "base/utf8.h"
#include "protocol/api/fields.h"
#include "protocol/api/questions.h"
#include "protocol/api/reply_text.h"
#include "protocol/apis.h"
#include "protocol/reply/reply_message.h"
#include "protocol/responses/custom_input.h"
#include "protocol/responses/response_store.h"
#include "protocol/responses/responses_request.h"
#include "protocol/sampled_turns.h"

namespace reprise::protocol::responses {
namespace {

using StorePtr = std::shared_ptr<ResponseStore>;

// -- the reply

struct ResponsePlan {
  ResponseKind kind = ResponseKind::kResponse;
  std::vector<ResponseTool> tools{};
  Json kept{};
  bool stream = false;
  Json frame{};     // repeated fields of the request
  Json messages{};  // the conversation so far; null: do not store
  bool seals_reasoning = false;
  StorePtr store{};
  ResponseOwner owner{};
};

/// A response, streamed or whole. Items follow the order in which the model writes them: reasoning, messages,
/// calls. An item keeps the ids it begins with.
///
///   response.created  response.in_progress
///     response.output_item.added  (response.content_part.added  response.….delta...  response.….done
///     response.content_part.done)  response.output_item.done                            for each item
///   response.completed, or .incomplete, or .failed
/// Every event has the next sequence_number. During the prefill, response.in_progress is repeated as a
/// keep-alive.
///
/// The reply of a compaction is the summary, sent at the end as one compaction item, without its reasoning.
///
/// A response to be stored is stored before its last event is appended; a failed one is not stored.
///
/// Threading: belongs to one actor. Memory grows with the reply, which max_output_tokens bounds.
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
  void failed(const Error& error, std::string& out) override;

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
    std::string text{};  // call: arguments or input; compaction: sealed text
    std::string call_id{};
    std::string name{};
    std::string name_space{};  // calls only; empty: none

    bool is_call() const { return kind == Kind::kCall || kind == Kind::kCustomCall; }
    bool has_parts() const { return kind == Kind::kReasoning || kind == Kind::kMessage; }
  };
  struct KindNames {
    const char* id;
    std::string_view delta;
    std::string_view done;
  };
  static KindNames names_of(Item::Kind kind);

  void take(const ReplyPieces& pieces, std::string& out);
  void open_call(const ToolCallBegin& call, std::string& out);
  void add_to_call(std::string_view text, std::string& out);
  /// Writes the compaction item from the whole text.
  void give_summary(std::string& out);
  /// Returns the open item if it is of this kind; otherwise opens a new one.
  Item& item(Item::Kind kind, std::string& out);
  void open(Item item, std::string& out);
  void close(std::string& out);

  Json item_json(const Item& item, std::string_view status) const;
  static Json part_json(const Item& item);
  Json response_json(std::string_view status, const Usage* usage) const;

  /// Writes a numbered event with `members`, a JSON object. Does nothing without a stream.
  void event(std::string_view name, Json members, std::string& out);
  void write_delta(const Item& item, std::string_view text, std::string& out);
  void store(const Json& response) const;

  ResponsePlan plan_;
  const ReplyContext context_;
  std::string model_;
  std::int64_t created_ = 0;
  std::optional<ReplyParser> parser_;
  std::vector<Item> items_;
  bool open_ = false;
  CustomInput input_;
  MessageBuilder said_;
  Finished finished_{};
  std::uint32_t reasoning_tokens_ = 0;
  std::uint64_t number_ = 0;
};

Json usage_json(const Usage& usage, std::uint32_t reasoning_tokens) {
  return Json{{"input_tokens", usage.prompt_tokens},
              {"input_tokens_details", Json{{"cached_tokens", usage.cache.restored_tokens}}},
              {"output_tokens", usage.completion_tokens},
              {"output_tokens_details", Json{{"reasoning_tokens", reasoning_tokens}}},
              {"total_tokens", std::uint64_t{usage.prompt_tokens} + usage.completion_tokens}};
}

std::string_view ResponseReply::content_type() const {
  return kSseContentType;
}

void ResponseReply::admitted(const Admitted& event, std::int64_t now, std::string& out) {
  model_ = event.model;
  created_ = now;
  if (!plan_.stream) return;
  this->event("response.created", Json{{"response", response_json("in_progress", nullptr)}}, out);
  this->event("response.in_progress", Json{{"response", response_json("in_progress", nullptr)}}, out);
}

void ResponseReply::started(const Started& event, std::string&) {
  parser_.emplace(context_.parser_of(0, event));
}

void ResponseReply::delta(Delta event, std::string& out) {
  const bool before = parser_->in_reasoning();
  take(parser_->push(event.text), out);
  if (before || parser_->in_reasoning()) reasoning_tokens_ += static_cast<std::uint32_t>(event.tokens.size());
}

void ResponseReply::finished(const Finished& event, std::string& out) {
  take(parser_->finish(), out);
  finished_ = event;
  close(out);
  if (plan_.kind != ResponseKind::kResponse) give_summary(out);
}

void ResponseReply::done(const Done& event, std::string& out) {
  const bool cut = finished_.reason == FinishReason::kLength && plan_.kind == ResponseKind::kResponse;
  Json response = response_json(cut ? "incomplete" : "completed", &event.usage);
  if (plan_.store != nullptr && plan_.messages.is_array()) store(response);
  std::string report;
  append_reprise(report, event.usage);
  auto reprise = Json::parse(report);
  REPRISE_CHECK(reprise.ok(), "the report is not JSON");
  response["reprise"] = std::move(*reprise);
  if (plan_.stream) {
    this->event(cut ? "response.incomplete" : "response.completed", Json{{"response", std::move(response)}},
                out);
  } else {
    response.dump_to(out);
  }
}

void ResponseReply::keep_alive(std::string& out) {
  if (created_ == 0 || parser_) {
    out += kSseKeepAlive;
  } else {
    event("response.in_progress", Json{{"response", response_json("in_progress", nullptr)}}, out);
  }
}

void ResponseReply::failed(const Error& error, std::string& out) {
  Json response = response_json("failed", nullptr);
  response["error"] = Json{{"code", shown(error).code}, {"message", as_utf8(error.message)}};
  event("response.failed", Json{{"response", std::move(response)}}, out);
}

void ResponseReply::store(const Json& response) const {
  Json messages = plan_.messages;
  messages.push_back(said_.message());
  plan_.store->put(plan_.owner, *response.find_string("id"),
                   {.body = response.dump(), .messages = messages.dump()});
}

// -- items

void ResponseReply::take(const ReplyPieces& pieces, std::string& out) {
  said_.add(pieces);
  if (plan_.kind != ResponseKind::kResponse) return;
  for (const ReplyPiece& piece : pieces) {
    if (const auto* content = std::get_if<ReplyContent>(&piece)) {
      Item& into = item(Item::Kind::kMessage, out);
      into.text += content->text;
      write_delta(into, content->text, out);
    } else if (const auto* reasoning = std::get_if<ReplyReasoning>(&piece)) {
      Item& into = item(Item::Kind::kReasoning, out);
      into.text += reasoning->text;
      write_delta(into, reasoning->text, out);
    } else if (const auto* call = std::get_if<ToolCallBegin>(&piece)) {
      open_call(*call, out);
    } else if (const auto* arguments = std::get_if<ToolCallArguments>(&piece)) {
      const bool custom = items_.back().kind == Item::Kind::kCustomCall;
      add_to_call(custom ? input_.push(arguments->json) : arguments->json, out);
    } else {
      close(out);
    }
  }
}

void ResponseReply::open_call(const ToolCallBegin& call, std::string& out) {
  Item item{.kind = Item::Kind::kCall, .call_id = call.id, .name = call.name};
  for (const ResponseTool& tool : plan_.tools) {
    if (tool.shown != call.name) continue;
    if (tool.takes_text) item.kind = Item::Kind::kCustomCall;
    item.name = tool.name;
    item.name_space = tool.name_space;
  }
  close(out);
  input_ = {};
  open(std::move(item), out);
}

void ResponseReply::add_to_call(std::string_view text, std::string& out) {
  if (text.empty()) return;
  items_.back().text += text;
  write_delta(items_.back(), text, out);
}

void ResponseReply::give_summary(std::string& out) {
  const std::string& summary = said_.content().empty() ? said_.reasoning() : said_.content();
  open({.kind = Item::Kind::kCompaction, .text = sealed_text(summary)}, out);
  close(out);
}

ResponseReply::Item& ResponseReply::item(Item::Kind kind, std::string& out) {
  if (!open_ || items_.back().kind != kind) open({.kind = kind}, out);
  return items_.back();
}

void ResponseReply::open(Item item, std::string& out) {
  close(out);
  item.id = names_of(item.kind).id + context_.id + "_" + std::to_string(items_.size());
  items_.push_back(std::move(item));
  open_ = true;
  if (!plan_.stream) return;
  const Item& now = items_.back();
  const std::size_t index = items_.size() - 1;
  event("response.output_item.added", Json{{"output_index", index}, {"item", item_json(now, "in_progress")}},
        out);
  if (!now.has_parts()) return;
  event("response.content_part.added",
        Json{{"item_id", now.id}, {"output_index", index}, {"content_index", 0}, {"part", part_json(now)}},
        out);
}

void ResponseReply::close(std::string& out) {
  if (!open_) return;
  if (items_.back().kind == Item::Kind::kCustomCall) add_to_call(input_.finish(), out);
  open_ = false;
  if (!plan_.stream) return;
  const Item& now = items_.back();
  const std::size_t index = items_.size() - 1;
  Json text{{"item_id", now.id}, {"output_index", index}};
  if (now.kind == Item::Kind::kCall) {
    text["name"] = now.name;
    text["arguments"] = now.text;
  } else if (now.kind == Item::Kind::kCustomCall) {
    text["input"] = now.text;
  } else {
    text["content_index"] = 0;
    text["text"] = now.text;
    if (now.kind == Item::Kind::kMessage) text["logprobs"] = Json::array();
  }
  if (now.kind != Item::Kind::kCompaction) event(names_of(now.kind).done, std::move(text), out);
  if (now.has_parts()) {
    event("response.content_part.done",
          Json{{"item_id", now.id}, {"output_index", index}, {"content_index", 0}, {"part", part_json(now)}},
          out);
  }
  event("response.output_item.done", Json{{"output_index", index}, {"item", item_json(now, "completed")}},
        out);
}

// -- the reply as JSON

ResponseReply::KindNames ResponseReply::names_of(Item::Kind kind) {
  switch (kind) {
    case Item::Kind::kReasoning:
      return {"rs_", "response.reasoning_text.delta", "response.reasoning_text.done"};
    case Item::Kind::kMessage:
      return {"msg_", "response.output_text.delta", "response.output_text.done"};
    case Item::Kind::kCall:
      return {"fc_", "response.function_call_arguments.delta", "response.function_call_arguments.done"};
    case Item::Kind::kCustomCall:
      return {"ctc_", "response.custom_tool_call_input.delta", "response.custom_tool_call_input.done"};
    case Item::Kind::kCompaction:
      return {"cmp_", {}, {}};
  }
  return {};
}

Json ResponseReply::part_json(const Item& item) {
  if (item.kind == Item::Kind::kReasoning) return Json{{"type", "reasoning_text"}, {"text", item.text}};
  return Json{{"type", "output_text"},
              {"text", item.text},
              {"annotations", Json::array()},
              {"logprobs", Json::array()}};
}

Json ResponseReply::item_json(const Item& item, std::string_view status) const {
  const bool begins = status == "in_progress";
  Json parts = Json::array();
  if (!begins) parts.push_back(part_json(item));
  switch (item.kind) {
    case Item::Kind::kReasoning: {
      Json out{{"id", item.id}, {"type", "reasoning"}, {"status", status}, {"summary", Json::array()}};
      out["content"] = std::move(parts);
      out["encrypted_content"] =
          plan_.seals_reasoning && !begins ? Json(sealed_text(item.text, turn_id(context_.id, 0))) : Json();
      return out;
    }
    case Item::Kind::kMessage:
      return Json{{"id", item.id},
                  {"type", "message"},
                  {"status", status},
                  {"role", "assistant"},
                  {"content", std::move(parts)}};
    case Item::Kind::kCompaction:
      return Json{{"id", item.id}, {"type", "compaction"}, {"encrypted_content", begins ? "" : item.text}};
    case Item::Kind::kCall:
    case Item::Kind::kCustomCall:
      break;
  }
  const bool custom = item.kind == Item::Kind::kCustomCall;
  Json out{{"id", item.id},
           {"type", custom ? "custom_tool_call" : "function_call"},
           {"status", status},
           {"call_id", item.call_id},
           {"name", item.name}};
  if (!item.name_space.empty()) out["namespace"] = item.name_space;
  out[custom ? "input" : "arguments"] = item.text;
  return out;
}

Json ResponseReply::response_json(std::string_view status, const Usage* usage) const {
  if (plan_.kind == ResponseKind::kCompaction) {
    Json output = plan_.kept;
    for (const Item& item : items_) output.push_back(item_json(item, "completed"));
    return Json{{"id", "resp_" + context_.id},
                {"object", "response.compaction"},
                {"created_at", created_},
                {"model", model_},
                {"output", std::move(output)},
                {"usage", usage == nullptr ? Json() : usage_json(*usage, reasoning_tokens_)}};
  }
  Json response{{"id", "resp_" + context_.id},
                {"object", "response"},
                {"created_at", created_},
                {"status", status},
                {"error", nullptr},
                {"incomplete_details", nullptr},
                {"model", model_}};
  if (status == "incomplete") response["incomplete_details"] = Json{{"reason", "max_output_tokens"}};
  Json output = Json::array();
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const bool unfinished = i + 1 == items_.size() && (open_ || status == "incomplete");
    output.push_back(item_json(items_[i], unfinished ? "incomplete" : "completed"));
  }
  response["output"] = std::move(output);
  for (const Json::Member& member : plan_.frame.as_object()) response[member.key] = member.value;
  response["usage"] = usage == nullptr ? Json() : usage_json(*usage, reasoning_tokens_);
  return response;
}

void ResponseReply::event(std::string_view name, Json members, std::string& out) {
  if (!plan_.stream) return;
  Json event{{"type", name}, {"sequence_number", number_++}};
  for (const Json::Member& member : members.as_object()) event[member.key] = member.value;
  append_sse_event(out, name, event.dump());
}

// Written directly as text, because there is one per token.
void ResponseReply::write_delta(const Item& item, std::string_view text, std::string& out) {
  if (!plan_.stream) return;
  const std::string_view name = names_of(item.kind).delta;
  std::string json = "{\"type\":\"";
  json += name;
  json += "\",\"sequence_number\":";
  append_integer(json, static_cast<std::int64_t>(number_++));
  json += ",\"item_id\":\"" + item.id + "\",\"output_index\":";
  append_integer(json, static_cast<std::int64_t>(items_.size() - 1));
  if (!item.is_call()) json += ",\"content_index\":0";
  json += ",\"delta\":";
  append_json_string(json, text);
  if (item.kind == Item::Kind::kMessage) json += ",\"logprobs\":[]";
  json += '}';
  append_sse_event(out, name, json);
}

// -- endpoints

class ResponseCall final : public GenerationCall {
 public:
  ResponseCall(ResponseRequest request, StorePtr store, std::string tenant)
      : GenerationCall(std::move(request.asked)),
        plan_{.kind = request.kind,
              .tools = std::move(request.tools),
              .kept = std::move(request.kept),
              .stream = this->request.stream,
              .frame = std::move(request.frame),
              .messages = std::move(request.messages),
              .seals_reasoning = request.seals_reasoning,
              .store = std::move(store),
              .owner = {.tenant = std::move(tenant), .salt = this->request.cache_salt}} {}

  std::unique_ptr<StreamedReply> stream(ReplyContext context) override {
    return std::make_unique<ResponseReply>(std::move(plan_), std::move(context));
  }
  std::unique_ptr<Reply> whole(ReplyContext context) override {
    return std::make_unique<ResponseReply>(std::move(plan_), std::move(context));
  }

 private:
  ResponsePlan plan_;
};

/// Creates a response or a compaction.
ParsedCall parse_response(const StorePtr& store, ResponseKind kind, const ApiInput& input,
                          const BodyLimits& limits) {
  const Json body = parse_body(input.body, limits, BodyHolds::kText);
  std::string tenant(input.tenant);
  ResponseRequest request = read_response_request(body, limits, *store, tenant, kind);
  return std::make_unique<ResponseCall>(std::move(request), store, std::move(tenant));
}

/// Counts the tokens of a response's prompt.
ParsedCall parse_count(const StorePtr& store, const ApiInput& input, const BodyLimits& limits) {
  const Json body = parse_body(input.body, limits, BodyHolds::kText);
  ApiRequest asked = read_response_request(body, limits, *store, std::string(input.tenant)).asked;
  RenderRequest request{.model = std::move(asked.generate.model),
                        .chat = std::move(std::get<ChatPrompt>(asked.generate.prompt)),
                        .want_tokens = true};
  const auto write = [](const Rendered& found) {
    return Json{{"object", "response.input_tokens"}, {"input_tokens", found.tokens.size()}}.dump();
  };
  return ask_for_text(std::move(request), &Service::render, write, std::move(asked.unknown_fields));
}

/// GET and DELETE of a stored response.
ParsedCall parse_stored(const StorePtr& store, const ApiInput& input) {
  const std::string id(input.path_end);
  const ResponseOwner owner{.tenant = std::string(input.tenant), .salt = std::string(input.cache_salt)};
  std::optional<std::string> answer;
  if (!input.deletes) {
    if (auto found = store->find(owner, id)) answer = std::move(found->body);
  } else if (store->erase(owner, id)) {
    answer = Json{{"id", id}, {"object", "response"}, {"deleted", true}}.dump();
  }
  if (answer) return answered_by([body = std::move(*answer)](Service&) { return body; });
  return Error{ErrorKind::kNotFound, "there is no response '" + id + "'", "response_id"};
}

}  // namespace

std::vector<ApiRoute> routes(const ApiSettings&) {
  const auto store = std::make_shared<ResponseStore>();  // one store per routes() call
  const auto at = [](Parse parse) { return endpoint_of(openai_dialect(), std::move(parse)); };
  const auto response = [&](ResponseKind kind) {
    return at([store, kind](const ApiInput& input, const BodyLimits& limits) {
      return parse_response(store, kind, input, limits);
    });
  };
  const auto count = at(
      [store](const ApiInput& input, const BodyLimits& limits) { return parse_count(store, input, limits); });
  const auto stored =
      at([store](const ApiInput& input, const BodyLimits&) { return parse_stored(store, input); });
  return {
      {.path = "/v1/responses", .endpoint = response(ResponseKind::kResponse), .generates = true},
      {.path = "/v1/responses/compact", .endpoint = response(ResponseKind::kCompaction), .generates = true},
      {.path = "/v1/responses/input_tokens", .endpoint = count},
      {.method = HttpMethod::kGetDelete, .path = "/v1/responses/{id}", .endpoint = stored}};
}

}  // namespace reprise::protocol::responses
