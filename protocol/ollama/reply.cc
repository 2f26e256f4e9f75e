#include "protocol/ollama/reply.h"

#include "base/utf8.h"
#include "protocol/api/event_text.h"
#include "protocol/api/field_rules.h"
#include "protocol/ollama/facts.h"

namespace reprise::protocol::ollama {
namespace {

std::int64_t nanoseconds(double ms) {
  return static_cast<std::int64_t>(ms * 1e6);
}

/// Arguments as an object; what is none stays text.
Json call_of(const std::string& name, const std::string& arguments) {
  auto parsed = Json::parse(arguments.empty() ? std::string("{}") : arguments);
  Json object = parsed.ok() && parsed->is_object() ? std::move(*parsed) : Json(arguments);
  return Json{{"function", Json{{"name", name}, {"arguments", std::move(object)}}}};
}

}  // namespace

std::string error_text(const ApiError& error) {
  return Json{{"error", as_utf8(error.message)}}.dump();
}

OllamaText::OllamaText(OllamaKind kind, bool is_chat, ReplyContext context)
    : kind_(kind), is_chat_(is_chat), context_(std::move(context)) {}

void OllamaText::admitted(const Admitted& event, std::int64_t now) {
  model_ = event.model;
  created_ = time_text(now);
}

void OllamaText::started(const Started& event) {
  if (is_chat_) parser_.emplace(context_.parser_of(0, event));
}

ReplyPieces OllamaText::push(const Delta& event) {
  if (parser_) return parser_->push(event.text);
  ReplyPieces pieces;
  if (!event.text.empty()) pieces.emplace_back(ReplyContent{event.text});
  return pieces;
}

ReplyPieces OllamaText::finish(const Finished& event) {
  reason_ = event.reason;
  return parser_ ? parser_->finish() : ReplyPieces{};
}

Json OllamaText::line(const std::string& text, const std::string& thinking, Json calls) const {
  Json line{{"model", model_}, {"created_at", created_}};
  Json message{{"role", "assistant"}, {"content", text}};
  Json& place = kind_ == OllamaKind::kChat ? message : line;
  if (kind_ == OllamaKind::kGenerate) line["response"] = text;
  if (!thinking.empty()) place["thinking"] = thinking;
  if (calls.is_array()) place["tool_calls"] = std::move(calls);
  if (kind_ == OllamaKind::kChat) line["message"] = std::move(message);
  line["done"] = false;
  return line;
}

void OllamaText::add_account(Json& line, const Usage& usage) const {
  const Timing& timing = usage.timing;
  line["done"] = true;
  line["done_reason"] = name_of(reason_);
  line["total_duration"] = nanoseconds(timing.queued_ms + timing.prefill_ms + timing.decode_ms);
  line["load_duration"] = nanoseconds(timing.queued_ms);
  line["prompt_eval_count"] = usage.prompt_tokens;
  line["prompt_eval_duration"] = nanoseconds(timing.prefill_ms);
  line["eval_count"] = usage.completion_tokens;
  line["eval_duration"] = nanoseconds(timing.decode_ms);
  line["cached_tokens"] = usage.cache.restored_tokens;
  if (!usage.unknown_fields.empty()) line["reprise"] = unknown_fields_report(usage.unknown_fields);
}

// -- in one piece

OllamaWhole::OllamaWhole(OllamaKind kind, bool is_chat, ReplyContext context)
    : text_(kind, is_chat, std::move(context)) {}

void OllamaWhole::admitted(const Admitted& event, std::int64_t now, std::string&) {
  text_.admitted(event, now);
}
void OllamaWhole::started(const Started& event, std::string&) {
  text_.started(event);
}
void OllamaWhole::delta(Delta event, std::string&) {
  message_.add(text_.push(event));
}
void OllamaWhole::finished(const Finished& event, std::string&) {
  message_.add(text_.finish(event));
}

void OllamaWhole::done(const Done& event, std::string& out) {
  Json calls;
  if (message_.has_calls()) {
    calls = Json::array();
    const Json message = message_.message();
    for (const Json& call : *message.find_array("tool_calls")) {
      const Json& function = *call.find_object("function");
      calls.push_back(call_of(*function.find_string("name"), *function.find_string("arguments")));
    }
  }
  Json line = text_.line(message_.content(), message_.reasoning(), std::move(calls));
  text_.add_account(line, event.usage);
  line.dump_to(out);
}

// -- as a stream

OllamaStream::OllamaStream(OllamaKind kind, bool is_chat, ReplyContext context)
    : text_(kind, is_chat, std::move(context)) {}

std::string_view OllamaStream::content_type() const {
  return kJsonLinesContentType;
}

void OllamaStream::admitted(const Admitted& event, std::int64_t now, std::string&) {
  text_.admitted(event, now);
}
void OllamaStream::started(const Started& event, std::string&) {
  text_.started(event);
}
void OllamaStream::delta(Delta event, std::string& out) {
  write(text_.push(event), out);
}
void OllamaStream::finished(const Finished& event, std::string& out) {
  write(text_.finish(event), out);
}

void OllamaStream::write(const ReplyPieces& pieces, std::string& out) {
  for (const ReplyPiece& piece : pieces) {
    if (const auto* content = std::get_if<ReplyContent>(&piece)) {
      append_json_line(out, text_.line(content->text, {}, {}).dump());
    } else if (const auto* reasoning = std::get_if<ReplyReasoning>(&piece)) {
      append_json_line(out, text_.line({}, reasoning->text, {}).dump());
    } else if (const auto* begin = std::get_if<ToolCallBegin>(&piece)) {
      call_name_ = begin->name;
      call_arguments_.clear();
    } else if (const auto* arguments = std::get_if<ToolCallArguments>(&piece)) {
      call_arguments_ += arguments->json;
    } else if (std::holds_alternative<ToolCallEnd>(piece)) {
      Json calls = Json::array();
      calls.push_back(call_of(call_name_, call_arguments_));
      append_json_line(out, text_.line({}, {}, std::move(calls)).dump());
    }
  }
}

void OllamaStream::done(const Done& event, std::string& out) {
  Json line = text_.line({}, {}, {});
  text_.add_account(line, event.usage);
  append_json_line(out, line.dump());
}

// JSON lines have no comments; a space before the next one is part of none.
void OllamaStream::keep_alive(std::string& out) {
  out += ' ';
}

void OllamaStream::failed(const ApiError& error, std::string& out) {
  append_json_line(out, error_text(error));
}

}  // namespace reprise::protocol::ollama
