// Anthropic's API: messages and token counting.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_text.h"
#include "base/utf8.h"
#include "protocol/anthropic/messages_request.h"
#include "protocol/api/fields.h"
#include "protocol/api/questions.h"
#include "protocol/api/reply_text.h"
#include "protocol/apis.h"
#include "protocol/sampled_turns.h"

namespace reprise::protocol::anthropic {
namespace {

// -- errors

/// Returns e.g. "invalid_request_error" for the status.
std::string_view type_of(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return status >= 500 ? "api_error" : "invalid_request_error";
  }
}

/// Returns {"type":"error","error":{"type":…,"message":…}}. Invalid UTF-8 is replaced by U+FFFD.
Json envelope(const Error& error) {
  std::string message = as_utf8(error.message);
  // Clients detect by these words that they must shorten the conversation.
  if (error.kind == ErrorKind::kTooLong) message = "prompt is too long: " + message;
  Json body{{"type", type_of(shown(error).status)}, {"message", std::move(message)}};
  return Json{{"type", "error"}, {"error", std::move(body)}};
}

/// Maps 503 to Anthropic's 529 for an overloaded server.
int anthropic_status(const Error& error) {
  constexpr int kOverloaded = 529;
  const int status = shown(error).status;
  return status == 503 ? kOverloaded : status;
}

class MessagesDialect final : public Dialect {
 public:
  ErrorAnswer error_answer(const Error& error) const override {
    return {anthropic_status(error), envelope(error).dump()};
  }
};

const Dialect& messages_dialect() {
  static const MessagesDialect kDialect;
  return kDialect;
}

// -- replies

std::string signature_of(const std::string& reply_id) {
  return std::string(kSignature) + turn_id(reply_id, 0);
}

/// Appends {"input_tokens":…,"cache_creation_input_tokens":…,"cache_read_input_tokens":…,"output_tokens":…}.
/// The first three add up to the prompt: tokens restored are "read", further tokens this request cached are
/// "creation", the rest is "input".
void append_usage(std::string& out, const CacheReport& cache, std::uint32_t prompt_tokens,
                  std::uint32_t output_tokens) {
  const std::uint32_t read = std::min(cache.restored_tokens, prompt_tokens);
  const std::uint32_t kept = std::min(cache.kept_tokens, prompt_tokens);
  const std::uint32_t created = kept > read ? kept - read : 0;
  out += "{\"input_tokens\":";
  append_integer(out, prompt_tokens - read - created);
  out += ",\"cache_creation_input_tokens\":";
  append_integer(out, created);
  out += ",\"cache_read_input_tokens\":";
  append_integer(out, read);
  out += ",\"output_tokens\":";
  append_integer(out, output_tokens);
  out += '}';
}

/// Appends ,"stop_reason":…,"stop_sequence":….
void append_stop(std::string& out, const Finished& finished, bool has_calls) {
  std::string_view reason = "end_turn";
  if (finished.reason == FinishReason::kLength) {
    reason = "max_tokens";
  } else if (!finished.stop.empty()) {
    reason = "stop_sequence";
  } else if (has_calls) {
    reason = "tool_use";
  }
  out += ",\"stop_reason\":\"";
  out += reason;
  out += "\",\"stop_sequence\":";
  if (finished.stop.empty()) {
    out += "null";
  } else {
    append_json_string(out, finished.stop);
  }
}

/// Appends {"id":…,"type":"message","role":"assistant","model":… without the closing brace.
void append_opening(std::string& out, const std::string& id, std::string_view model) {
  out += "{\"id\":\"msg_" + id + "\",\"type\":\"message\",\"role\":\"assistant\",\"model\":";
  append_json_string(out, model);
}

/// A streamed answer of named events:
///
///   message_start  content_block_start  content_block_delta...  content_block_stop  ...
///   message_delta  message_stop
///
/// A block is a text, a thinking block or a call. message_start is sent after the prefill, so that it can
/// report the restored tokens; if that exceeds the keep-alive interval, it is sent earlier with only the
/// prompt's length. message_delta always has the full usage.
///
/// Each call appends whole events to `out`.
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
  void failed(const Error& error, std::string& out) override;

 private:
  enum class Block : std::uint8_t { kNone, kText, kThinking, kCall };

  void begin(const CacheReport& cache, std::string& out);
  void write(const ReplyPiece& piece, std::string& out);
  /// Closes the open block and opens another; `content` is its initial JSON.
  void open_block(Block kind, std::string_view content, std::string& out);
  void close_block(std::string& out);
  /// Continues the open block: {"type":TYPE,KEY:TEXT}.
  void write_delta(std::string_view type, std::string_view key, std::string_view text, std::string& out);

  const ReplyContext context_;
  std::string model_;
  std::uint32_t prompt_tokens_ = 0;
  bool admitted_ = false;
  bool begun_ = false;
  std::optional<ReplyParser> parser_;
  Block open_ = Block::kNone;
  std::uint32_t blocks_ = 0;
  Finished finished_{};
};

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
  append_reprise(json, event.usage);
  json += '}';
  append_sse_event(out, "message_delta", json);
  append_sse_event(out, "message_stop", "{\"type\":\"message_stop\"}");
}

void MessageStream::keep_alive(std::string& out) {
  if (!admitted_) {  // clients expect message_start as the first event
    out += kSseKeepAlive;
    return;
  }
  begin({}, out);
  append_sse_event(out, "ping", "{\"type\":\"ping\"}");
}

void MessageStream::failed(const Error& error, std::string& out) {
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

/// Returns the arguments as an object; text that is not an object, e.g. of a truncated call, is wrapped.
Json input_of(const std::string& arguments) {
  if (arguments.empty()) return Json::object();
  auto parsed = Json::parse(arguments);
  if (parsed.ok() && parsed->is_object()) return std::move(*parsed);
  return Json{{"INVALID_JSON", arguments}};
}

template <class Piece>
bool join(ReplyPieces& blocks, const ReplyPiece& piece) {
  const auto* more = std::get_if<Piece>(&piece);
  auto* last = blocks.empty() ? nullptr : std::get_if<Piece>(&blocks.back());
  if (more == nullptr || last == nullptr) return false;
  last->text += more->text;
  return true;
}

Json block_of(const ReplyPiece& piece, const std::vector<std::string>& arguments,
              const std::string& reply_id) {
  if (const auto* content = std::get_if<ReplyContent>(&piece)) {
    return Json{{"type", "text"}, {"text", content->text}};
  }
  if (const auto* reasoning = std::get_if<ReplyReasoning>(&piece)) {
    return Json{{"type", "thinking"}, {"thinking", reasoning->text}, {"signature", signature_of(reply_id)}};
  }
  const auto& call = std::get<ToolCallBegin>(piece);
  return Json{
      {"type", "tool_use"}, {"id", call.id}, {"name", call.name}, {"input", input_of(arguments[call.index])}};
}

/// A whole answer: {"id":…,"type":"message","role":"assistant","content":[…],"stop_reason":…,"usage":…}.
/// Memory grows with the reply, which max_tokens bounds.
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
  ReplyPieces blocks_;  // texts, reasoning and calls in order, each merged
  std::vector<std::string> arguments_;
  Finished finished_{};
};

void MessageWhole::admitted(const Admitted& event, std::int64_t, std::string&) {
  model_ = event.model;
}

void MessageWhole::started(const Started& event, std::string&) {
  parser_.emplace(context_.parser_of(0, event));
}

void MessageWhole::delta(Delta event, std::string&) {
  add(parser_->push(event.text));
}

void MessageWhole::finished(const Finished& event, std::string&) {
  add(parser_->finish());
  finished_ = event;
}

void MessageWhole::add(const ReplyPieces& pieces) {
  for (const ReplyPiece& piece : pieces) {
    if (const auto* more = std::get_if<ToolCallArguments>(&piece)) {
      arguments_[more->index] += more->json;
    } else if (!std::holds_alternative<ToolCallEnd>(piece) && !join<ReplyContent>(blocks_, piece) &&
               !join<ReplyReasoning>(blocks_, piece)) {
      if (std::holds_alternative<ToolCallBegin>(piece)) arguments_.emplace_back();
      blocks_.push_back(piece);
    }
  }
}

void MessageWhole::done(const Done& event, std::string& out) {
  Json content = Json::array();
  for (const ReplyPiece& piece : blocks_) content.push_back(block_of(piece, arguments_, context_.id));
  append_opening(out, context_.id, model_);
  out += ",\"content\":";
  content.dump_to(out);
  append_stop(out, finished_, !arguments_.empty());
  out += ",\"usage\":";
  append_usage(out, event.usage.cache, event.usage.prompt_tokens, event.usage.completion_tokens);
  out += ",\"reprise\":";
  append_reprise(out, event.usage);
  out += '}';
}

class MessagesCall final : public GenerationCall {
 public:
  using GenerationCall::GenerationCall;

  std::unique_ptr<StreamedReply> stream(ReplyContext context) override {
    return std::make_unique<MessageStream>(std::move(context));
  }
  std::unique_ptr<Reply> whole(ReplyContext context) override {
    return std::make_unique<MessageWhole>(std::move(context));
  }
};

// -- endpoints

ParsedCall parse_messages(const ApiInput& input, const BodyLimits& limits) {
  return std::make_unique<MessagesCall>(
      read_messages_request(parse_body(input.body, limits, BodyHolds::kText), limits));
}

/// {"input_tokens": …}: the tokens that the prompt of /v1/messages would have.
ParsedCall parse_count(const ApiInput& input, const BodyLimits& limits) {
  std::vector<std::string> unknown;
  RenderRequest request =
      read_count_request(parse_body(input.body, limits, BodyHolds::kText), limits, unknown);
  request.want_tokens = true;
  const auto write = [](const Rendered& answer) {
    return Json{{"input_tokens", answer.tokens.size()}}.dump();
  };
  return ask_for_text(std::move(request), &Service::render, write, std::move(unknown));
}

/// Answers Anthropic's paths that this server does not implement.
ParsedCall parse_nothing(const ApiInput&, const BodyLimits&) {
  return Error{ErrorKind::kNotFound, "this path does not exist"};
}

}  // namespace

std::vector<ApiRoute> routes(const ApiSettings&) {
  const auto at = [](Parse parse) { return endpoint_of(messages_dialect(), std::move(parse)); };
  return {{.path = "/v1/messages", .endpoint = at(parse_messages), .generates = true},
          {.path = "/v1/messages/count_tokens", .endpoint = at(parse_count)},
          {.path = "/v1/messages/{rest}", .endpoint = at(parse_nothing)}};
}

}  // namespace reprise::protocol::anthropic
