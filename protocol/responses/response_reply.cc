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

/// The names of the events of an item's text.
std::string_view delta_name(bool reasoning, bool call) {
  if (call) return "response.function_call_arguments.delta";
  return reasoning ? "response.reasoning_text.delta" : "response.output_text.delta";
}
std::string_view done_name(bool reasoning, bool call) {
  if (call) return "response.function_call_arguments.done";
  return reasoning ? "response.reasoning_text.done" : "response.output_text.done";
}

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
}

void ResponseReply::done(const Done& event, std::string& out) {
  const bool cut = finished_.reason == FinishReason::kLength;
  Json response = response_json(cut ? "incomplete" : "completed", &event.usage);
  if (plan_.store != nullptr && plan_.messages.is_array()) store(response);
  std::string report;
  openai::append_reprise(report, event.usage);
  auto reprise = Json::parse(report);
  REPRISE_CHECK(reprise.ok(), "the report is JSON");
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
  plan_.store->put(plan_.tenant, *response.find_string("id"),
                   {.body = response.dump(), .messages = messages.dump()});
}

// -- items

void ResponseReply::take(const ReplyPieces& pieces, std::string& out) {
  said_.add(pieces);
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
      open({.kind = Item::Kind::kCall, .call_id = call->id, .name = call->name}, out);
    } else if (const auto* arguments = std::get_if<ToolCallArguments>(&piece)) {
      items_.back().text += arguments->json;
      write_delta(items_.back(), arguments->json, out);
    } else {
      close(out);
    }
  }
}

ResponseReply::Item& ResponseReply::item(Item::Kind kind, std::string& out) {
  if (!open_ || items_.back().kind != kind) open({.kind = kind}, out);
  return items_.back();
}

void ResponseReply::open(Item item, std::string& out) {
  close(out);
  const bool call = item.kind == Item::Kind::kCall;
  const char* prefix = call ? "fc_" : item.kind == Item::Kind::kReasoning ? "rs_" : "msg_";
  item.id = prefix + context_.id + "_" + std::to_string(items_.size());
  items_.push_back(std::move(item));
  open_ = true;
  if (!plan_.stream) return;
  const Item& now = items_.back();
  const std::size_t index = items_.size() - 1;
  event("response.output_item.added", Json{{"output_index", index}, {"item", item_json(now, "in_progress")}},
        out);
  if (call) return;
  event("response.content_part.added",
        Json{{"item_id", now.id}, {"output_index", index}, {"content_index", 0}, {"part", part_json(now)}},
        out);
}

void ResponseReply::close(std::string& out) {
  if (!std::exchange(open_, false) || !plan_.stream) return;
  const Item& now = items_.back();
  const std::size_t index = items_.size() - 1;
  const bool call = now.kind == Item::Kind::kCall;
  const bool reasoning = now.kind == Item::Kind::kReasoning;
  Json text{{"item_id", now.id}, {"output_index", index}};
  if (call) {
    text["name"] = now.name;
    text["arguments"] = now.text;
  } else {
    text["content_index"] = 0;
    text["text"] = now.text;
    if (!reasoning) text["logprobs"] = Json::array();
  }
  event(done_name(reasoning, call), std::move(text), out);
  if (!call) {
    event("response.content_part.done",
          Json{{"item_id", now.id}, {"output_index", index}, {"content_index", 0}, {"part", part_json(now)}},
          out);
  }
  event("response.output_item.done", Json{{"output_index", index}, {"item", item_json(now, "completed")}},
        out);
}

// -- as JSON

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
      out["encrypted_content"] = plan_.seals_reasoning && !begins
                                     ? Json(sealed_reasoning(item.text, turn_id(context_.id, 0)))
                                     : Json();
      return out;
    }
    case Item::Kind::kMessage:
      return Json{{"id", item.id},
                  {"type", "message"},
                  {"status", status},
                  {"role", "assistant"},
                  {"content", std::move(parts)}};
    case Item::Kind::kCall:
      break;
  }
  return Json{{"id", item.id},           {"type", "function_call"}, {"status", status},
              {"call_id", item.call_id}, {"name", item.name},       {"arguments", item.text}};
}

Json ResponseReply::response_json(std::string_view status, const Usage* usage) const {
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
  const bool call = item.kind == Item::Kind::kCall;
  const std::string_view name = delta_name(item.kind == Item::Kind::kReasoning, call);
  std::string json = "{\"type\":\"";
  json += name;
  json += "\",\"sequence_number\":";
  append_integer(json, static_cast<std::int64_t>(number_++));
  json += ",\"item_id\":\"" + item.id + "\",\"output_index\":";
  append_integer(json, static_cast<std::int64_t>(items_.size() - 1));
  if (!call) json += ",\"content_index\":0";
  json += ",\"delta\":";
  append_json_string(json, text);
  if (item.kind == Item::Kind::kMessage) json += ",\"logprobs\":[]";
  json += '}';
  append_sse_event(out, name, json);
}

}  // namespace reprise::protocol::responses
