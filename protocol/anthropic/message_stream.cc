#include "protocol/anthropic/message_stream.h"

#include "base/json_text.h"
#include "protocol/anthropic/error_body.h"
#include "protocol/anthropic/message_text.h"
#include "protocol/api/event_text.h"
#include "protocol/openai/reply_text.h"

namespace reprise::protocol::anthropic {

std::string_view MessageStream::content_type() const {
  return kSseContentType;
}

void MessageStream::admitted(const Admitted& event, std::int64_t, std::string&) {
  admitted_ = true;
  model_ = event.model;
  prompt_tokens_ = event.prompt_tokens;
}

void MessageStream::begin(const CacheReport& cache, std::string& out) {
  if (std::exchange(begun_, true)) return;
  std::string json = "{\"type\":\"message_start\",\"message\":";
  append_opening(json, context_.id, model_);
  json += ",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":";
  append_usage(json, cache, prompt_tokens_, 0);
  json += "}}";
  append_sse_event(out, "message_start", json);
}

void MessageStream::started(const Started& event, std::string& out) {
  begin(event.cache, out);
  parser_.emplace(context_.parser_of(0, event));
}

void MessageStream::delta(Delta event, std::string& out) {
  for (const ReplyPiece& piece : parser_->push(event.text)) write(piece, out);
}

void MessageStream::finished(const Finished& event, std::string& out) {
  for (const ReplyPiece& piece : parser_->finish()) write(piece, out);
  close_block(out);
  finished_ = event;
}

void MessageStream::done(const Done& event, std::string& out) {
  std::string json = "{\"type\":\"message_delta\",\"delta\":{";
  std::string stop;
  append_stop(stop, finished_, parser_ && parser_->calls() > 0);
  json += std::string_view(stop).substr(1);
  json += "},\"usage\":";
  append_usage(json, event.usage.cache, event.usage.prompt_tokens, event.usage.completion_tokens);
  json += ",\"reprise\":";
  openai::append_reprise(json, event.usage);
  json += '}';
  append_sse_event(out, "message_delta", json);
  append_sse_event(out, "message_stop", "{\"type\":\"message_stop\"}");
}

void MessageStream::keep_alive(std::string& out) {
  if (!admitted_) {  // clients want message_start to be the first event
    out += kSseKeepAlive;
    return;
  }
  begin({}, out);
  append_sse_event(out, "ping", "{\"type\":\"ping\"}");
}

void MessageStream::failed(const ApiError& error, std::string& out) {
  append_sse_event(out, "error", envelope(error).dump());
}

void MessageStream::write(const ReplyPiece& piece, std::string& out) {
  if (const auto* content = std::get_if<ReplyContent>(&piece)) {
    if (open_ != Block::kText) open_block(Block::kText, R"({"type":"text","text":""})", out);
    write_delta("text_delta", "text", content->text, out);
  } else if (const auto* reasoning = std::get_if<ReplyReasoning>(&piece)) {
    if (open_ != Block::kThinking) {
      open_block(Block::kThinking, R"({"type":"thinking","thinking":"","signature":""})", out);
    }
    write_delta("thinking_delta", "thinking", reasoning->text, out);
  } else if (const auto* call = std::get_if<ToolCallBegin>(&piece)) {
    std::string content = R"({"type":"tool_use","id":)";
    append_json_string(content, call->id);
    content += ",\"name\":";
    append_json_string(content, call->name);
    content += ",\"input\":{}}";
    open_block(Block::kCall, content, out);
  } else if (const auto* arguments = std::get_if<ToolCallArguments>(&piece)) {
    write_delta("input_json_delta", "partial_json", arguments->json, out);
  } else {
    close_block(out);
  }
}

void MessageStream::open_block(Block kind, std::string_view content, std::string& out) {
  close_block(out);
  open_ = kind;
  std::string json = "{\"type\":\"content_block_start\",\"index\":";
  append_integer(json, blocks_++);
  json += ",\"content_block\":";
  json += content;
  json += '}';
  append_sse_event(out, "content_block_start", json);
}

void MessageStream::close_block(std::string& out) {
  if (open_ == Block::kNone) return;
  if (open_ == Block::kThinking) write_delta("signature_delta", "signature", signature_of(context_.id), out);
  open_ = Block::kNone;
  std::string json = "{\"type\":\"content_block_stop\",\"index\":";
  append_integer(json, blocks_ - 1);
  json += '}';
  append_sse_event(out, "content_block_stop", json);
}

void MessageStream::write_delta(std::string_view type, std::string_view key, std::string_view text,
                                std::string& out) {
  std::string json = "{\"type\":\"content_block_delta\",\"index\":";
  append_integer(json, blocks_ - 1);
  json += ",\"delta\":{\"type\":\"";
  json += type;
  json += "\",\"";
  json += key;
  json += "\":";
  append_json_string(json, text);
  json += "}}";
  append_sse_event(out, "content_block_delta", json);
}

}  // namespace reprise::protocol::anthropic
