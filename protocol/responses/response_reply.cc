#include "protocol/responses/response_reply.h"

#include <utility>

#include "base/json_text.h"
#include "base/utf8.h"
#include "protocol/api/event_text.h"
#include "protocol/openai/reply_text.h"
#include "protocol/responses/input_items.h"
#include "protocol/sampled_turns.h"

namespace reprise::protocol::responses {
namespace {

Json usage_json(const Usage& usage, std::uint32_t reasoning_tokens) {
  return Json{{"input_tokens", usage.prompt_tokens},
              {"input_tokens_details", Json{{"cached_tokens", usage.cache.restored_tokens}}},
              {"output_tokens", usage.completion_tokens},
              {"output_tokens_details", Json{{"reasoning_tokens", reasoning_tokens}}},
              {"total_tokens", std::uint64_t{usage.prompt_tokens} + usage.completion_tokens}};
}

}  // namespace

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
  openai::append_reprise(report, event.usage);
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

void ResponseReply::failed(const ApiError& error, std::string& out) {
  Json response = response_json("failed", nullptr);
  response["error"] = Json{{"code", error.code}, {"message", as_utf8(error.message)}};
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

// -- as JSON

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

// Written as text: there is one for each token.
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

}  // namespace reprise::protocol::responses
