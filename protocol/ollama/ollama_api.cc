// Ollama's API, as far as editors and chat pages use it.
//
//   POST /api/chat, /api/generate                              JSON lines unless "stream" is false
//   GET /api/version, /api/tags, /api/ps, POST /api/show       the served models
//
// Errors are {"error": "…"}.
#include <array>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <optional>
#include <string>

#include "base/utf8.h"
#include "protocol/api/api_error.h"
#include "protocol/api/chat_messages.h"
#include "protocol/api/common_fields.h"
#include "protocol/api/field_rules.h"
#include "protocol/api/fields.h"
#include "protocol/api/questions.h"
#include "protocol/api/reply_text.h"
#include "protocol/apis.h"
#include "protocol/chat/chat_format.h"
#include "protocol/reply/reply_message.h"

namespace reprise::protocol::ollama {
namespace {

/// Clients require a minimum version; this is the one whose fields are implemented.
constexpr const char* kOllamaVersion = "0.12.6";
constexpr std::string_view kUsualTag = ":latest";

/// e.g. 2026-11-16T08:00:00Z
std::string time_text(std::int64_t seconds_since_1970) {
  const auto time = static_cast<std::time_t>(seconds_since_1970);
  std::tm parts{};
  gmtime_r(&time, &parts);
  std::array<char, 32> text{};
  const std::size_t length = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {text.data(), length};
}

/// Removes the tag that Ollama appends to names without one.
std::string without_tag(const std::string& name) {
  return name.ends_with(kUsualTag) ? name.substr(0, name.size() - kUsualTag.size()) : name;
}

std::string error_text(const Error& error) {
  return Json{{"error", as_utf8(error.message)}}.dump();
}

Error model_not_found(const std::string& name) {
  return {ErrorKind::kUnknownModel, "model '" + name + "' not found", "model"};
}

class OllamaDialect final : public Dialect {
 public:
  ErrorAnswer error_answer(const Error& error) const override {
    return {shown(error).status, error_text(error)};
  }
};

const Dialect& ollama_dialect() {
  static const OllamaDialect kDialect;
  return kDialect;
}

// -- requests
//
// "options" are read as the same fields of OpenAI's API (protocol/api/common_fields.h), with num_predict as
// the token limit. Options that place a model (num_ctx, num_gpu, keep_alive …) have no effect: the operator
// decides. Unsupported options that would change the answer (images, template, context …) are refused by
// name.

enum class OllamaKind : std::uint8_t { kChat, kGenerate };

struct OllamaRequest {
  ApiRequest asked;
  OllamaKind kind = OllamaKind::kChat;
  bool is_load = false;  // no prompt: only checks that the model is available
};

void read_limit(const Fields& options, const BodyLimits& limits, GenerateRequest& generate) {
  const auto max = options.integer("num_predict", -2, limits.max_tokens);
  if (!max) return;
  if (*max == 0) refuse_field(options.path_of("num_predict"), "out_of_range", "must be -1 or at least 1");
  if (*max < 0) {
    generate.rules.unlimited = true;
  } else {
    generate.max_tokens = static_cast<std::uint32_t>(*max);
  }
}

grammar::Constraint read_format(const Fields& fields) {
  const Json* format = fields.find("format");
  if (format == nullptr || (format->is_string() && format->as_string().empty())) return {};
  if (format->is_string() && format->as_string() == "json") {
    return {.kind = grammar::Constraint::Kind::kJsonObject, .field = "format"};
  }
  if (!format->is_object()) refuse_kind("format", "\"json\" or a JSON schema", *format);
  return {.kind = grammar::Constraint::Kind::kJsonSchema, .json = *format, .field = "format"};
}

OllamaRequest read_shared(const Fields& fields, const BodyLimits& limits, OllamaKind kind) {
  static const Json kNoOptions = Json::object();
  const Json* given = fields.object("options");
  const Fields options(given == nullptr ? kNoOptions : *given, "options", fields);
  OllamaRequest request{.asked = read_common(options, limits, ApiFlavor::kLlamaServer), .kind = kind};
  ApiRequest& asked = request.asked;
  asked.any_model = false;
  for (const char* name : {"model", "stream", "reprise"}) {  // not options, or without effect
    if (const Json* value = options.find(name)) options.mark_unread(options.path_of(name), *value);
  }
  const std::string* model = fields.string("model", limits.label_bytes);
  if (model == nullptr) refuse_field("model", "missing", "is required");
  asked.generate.model = without_tag(*model);
  asked.stream = fields.boolean_or("stream", true);
  read_limit(options, limits, asked.generate);
  if (asked.generate.n != 1) refuse_unsupported("options.n", "is not supported: there is always one reply");
  if (grammar::Constraint format = read_format(fields)) {
    if (asked.generate.rules.constraint) {
      refuse_field("format", "invalid_value",
                   "does not go together with " + asked.generate.rules.constraint.field);
    }
    asked.generate.rules.constraint = std::move(format);
  }
  return request;
}

/// Reads "think": true, false, or an effort.
void read_thinking(const Fields& fields, ChatPrompt& chat) {
  const Json* think = fields.find("think");
  if (think == nullptr) return;
  if (think->is_bool()) {
    chat.template_extra["enable_thinking"] = think->as_bool();
  } else if (think->is_string()) {
    chat.template_extra["enable_thinking"] = true;
    chat.template_extra["reasoning_effort"] = think->as_string();
  } else {
    refuse_kind("think", "a boolean or a string", *think);
  }
}

/// Converts a message to OpenAI's format: other field names, and arguments as text.
Json translated(const Json& given, const std::string& path) {
  if (!given.is_object()) refuse_kind(path, "an object", given);
  const Fields fields(given, path);
  const Json::Array* images = fields.array("images");
  if (images != nullptr && !images->empty()) {
    refuse_unsupported(fields.path_of("images"), "is not supported: models here take text");
  }
  Json message = Json::object();
  for (const Json::Member& member : given.as_object()) {
    if (member.key == "images") continue;
    const std::string& name = member.key == "thinking"    ? "reasoning_content"
                              : member.key == "tool_name" ? "name"
                                                          : member.key;
    message[name] = member.value;
  }
  if (message.find("content") == nullptr) message["content"] = "";
  Json* calls = message.find("tool_calls");
  if (calls == nullptr || !calls->is_array()) return message;
  for (Json& call : calls->as_array()) {
    Json* function = call.is_object() ? call.find("function") : nullptr;
    Json* arguments = function != nullptr && function->is_object() ? function->find("arguments") : nullptr;
    if (call.is_object() && call.find("type") == nullptr) call["type"] = "function";
    if (arguments != nullptr && !arguments->is_string()) *arguments = arguments->dump();
  }
  return message;
}

OllamaRequest read_chat_fields(const Fields& fields, const BodyLimits& limits) {
  OllamaRequest request = read_shared(fields, limits, OllamaKind::kChat);
  const Json::Array* messages = fields.array("messages");
  request.is_load = messages == nullptr || messages->empty();
  if (request.is_load) return request;
  ChatPrompt chat{.messages = Json::array()};
  for (std::size_t i = 0; i < messages->size(); ++i) {
    chat.messages.push_back(translated((*messages)[i], item_of("messages", i)));
  }
  check_messages(chat.messages.as_array(), limits);
  if (const Json::Array* tools = fields.array("tools"); tools != nullptr && !tools->empty()) {
    check_tools(*tools, limits);
    chat.tools = Json(*tools);
    request.asked.tool_choice = {.mode = ToolChoice::Mode::kAuto};
  }
  read_thinking(fields, chat);
  request.asked.generate.prompt = std::move(chat);
  return request;
}

OllamaRequest read_generate_fields(const Fields& fields, const BodyLimits& limits) {
  OllamaRequest request = read_shared(fields, limits, OllamaKind::kGenerate);
  const std::string* prompt = fields.string("prompt", limits.prompt_bytes);
  const std::string* suffix = fields.string("suffix", limits.prompt_bytes);
  const std::string* system = fields.string("system", limits.prompt_bytes);
  request.is_load = (prompt == nullptr || prompt->empty()) && (suffix == nullptr || suffix->empty());
  if (request.is_load) return request;
  const std::string text = prompt == nullptr ? std::string() : *prompt;
  if (suffix != nullptr && !suffix->empty()) {
    request.asked.generate.prompt = InfillPrompt{.prefix = text, .suffix = *suffix, .field = "suffix"};
  } else if (fields.boolean_or("raw", false)) {
    request.asked.generate.prompt = text;
  } else {
    ChatPrompt chat{.messages = Json::array()};
    if (system != nullptr && !system->empty()) {
      chat.messages.push_back(Json{{"role", "system"}, {"content", *system}});
    }
    chat.messages.push_back(Json{{"role", "user"}, {"content", text}});
    read_thinking(fields, chat);
    request.asked.generate.prompt = std::move(chat);
  }
  return request;
}

OllamaRequest read_chat(const Json& body, const BodyLimits& limits) {
  const Fields fields(body);
  OllamaRequest request = read_chat_fields(fields, limits);
  request.asked.unknown_fields = unknown_fields_of(fields);
  return request;
}

OllamaRequest read_generate(const Json& body, const BodyLimits& limits) {
  const Fields fields(body);
  OllamaRequest request = read_generate_fields(fields, limits);
  request.asked.unknown_fields = unknown_fields_of(fields);
  return request;
}

// -- replies. Memory grows with the reply, which max_tokens and the model's context bound.

/// State shared by whole and streamed replies: the reply parser, and the common members of lines.
class OllamaText {
 public:
  OllamaText(OllamaKind kind, bool is_chat, ReplyContext context);

  void admitted(const Admitted& event, std::int64_t now);
  void started(const Started& event);
  ReplyPieces push(const Delta& event);
  ReplyPieces finish(const Finished& event);

  /// Returns {"model":…,"created_at":…} with the text as "message" or "response".
  Json line(const std::string& text, const std::string& thinking, Json calls) const;
  void add_account(Json& line, const Usage& usage) const;

 private:
  const OllamaKind kind_;
  const bool is_chat_;  // the prompt was a chat, so tags are parsed
  const ReplyContext context_;
  std::string model_;
  std::string created_;
  std::optional<ReplyParser> parser_;
  FinishReason reason_ = FinishReason::kStop;
};

class OllamaWhole final : public Reply {
 public:
  OllamaWhole(OllamaKind kind, bool is_chat, ReplyContext context);
  void admitted(const Admitted& event, std::int64_t now, std::string& out) override;
  void started(const Started& event, std::string& out) override;
  void delta(Delta event, std::string& out) override;
  void finished(const Finished& event, std::string& out) override;
  void done(const Done& event, std::string& out) override;

 private:
  OllamaText text_;
  MessageBuilder message_;
};

/// A reply as JSON lines. A line carries new text, thinking, or a whole tool call; the last has "done": true
/// and the usage, with times in nanoseconds.
class OllamaStream final : public StreamedReply {
 public:
  OllamaStream(OllamaKind kind, bool is_chat, ReplyContext context);
  std::string_view content_type() const override;
  void admitted(const Admitted& event, std::int64_t now, std::string& out) override;
  void started(const Started& event, std::string& out) override;
  void delta(Delta event, std::string& out) override;
  void finished(const Finished& event, std::string& out) override;
  void done(const Done& event, std::string& out) override;
  void keep_alive(std::string& out) override;
  void failed(const Error& error, std::string& out) override;

 private:
  void write(const ReplyPieces& pieces, std::string& out);

  OllamaText text_;
  std::string call_name_;
  std::string call_arguments_;  // bounded by max_tokens
};

std::int64_t nanoseconds(double ms) {
  return static_cast<std::int64_t>(ms * 1e6);
}

/// Returns the arguments as an object, or as text if they are not an object.
Json call_of(const std::string& name, const std::string& arguments) {
  auto parsed = Json::parse(arguments.empty() ? std::string("{}") : arguments);
  Json object = parsed.ok() && parsed->is_object() ? std::move(*parsed) : Json(arguments);
  return Json{{"function", Json{{"name", name}, {"arguments", std::move(object)}}}};
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
  Json& target = kind_ == OllamaKind::kChat ? message : line;
  if (kind_ == OllamaKind::kGenerate) line["response"] = text;
  if (!thinking.empty()) target["thinking"] = thinking;
  if (calls.is_array()) target["tool_calls"] = std::move(calls);
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

// -- whole

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

// JSON lines have no comments, but allow white space before a line.
void OllamaStream::keep_alive(std::string& out) {
  out += ' ';
}

void OllamaStream::failed(const Error& error, std::string& out) {
  append_json_line(out, error_text(error));
}

class OllamaCall final : public GenerationCall {
 public:
  explicit OllamaCall(OllamaRequest request)
      : GenerationCall(std::move(request.asked)),
        kind_(request.kind),
        is_chat_(std::holds_alternative<ChatPrompt>(this->request.generate.prompt)) {}

  std::unique_ptr<StreamedReply> stream(ReplyContext context) override {
    return std::make_unique<OllamaStream>(kind_, is_chat_, std::move(context));
  }
  std::unique_ptr<Reply> whole(ReplyContext context) override {
    return std::make_unique<OllamaWhole>(kind_, is_chat_, std::move(context));
  }

 private:
  const OllamaKind kind_;
  const bool is_chat_;
};

/// Answers a request without a prompt: whether the model is available.
Question::Answered loaded(Service& service, const std::string& model, OllamaKind kind) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::vector<ModelCard> cards = service.models();
  const ModelCard* card = card_named(cards, model);
  if (card == nullptr) return model_not_found(model);
  Json body{{"model", card->id},
            {"created_at", time_text(std::chrono::duration_cast<std::chrono::seconds>(now).count())}};
  if (kind == OllamaKind::kChat) {
    body["message"] = Json{{"role", "assistant"}, {"content", ""}};
  } else {
    body["response"] = "";
  }
  body["done"] = true;
  body["done_reason"] = "load";
  return body.dump() + "\n";
}

ParsedCall parsed_text(OllamaRequest request) {
  if (!request.is_load) return std::make_unique<OllamaCall>(std::move(request));
  return answered_by([model = request.asked.generate.model,
                      kind = request.kind](Service& service) { return loaded(service, model, kind); },
                     std::move(request.asked.unknown_fields));
}

// -- models

Json details_of(const ModelCard& card) {
  Json families = Json::array();
  families.push_back(card.architecture);
  return Json{
      {"parent_model", card.parent}, {"format", card.file.ends_with(".gguf") ? "gguf" : "safetensors"},
      {"family", card.architecture}, {"families", std::move(families)},
      {"parameter_size", ""},        {"quantization_level", ""}};
}

Json entry_of(const ModelCard& card) {
  return Json{{"name", card.id}, {"model", card.id}, {"modified_at", time_text(card.created)},
              {"size", 0},       {"digest", ""},     {"details", details_of(card)}};
}

/// The capabilities by which clients choose models.
Json capabilities_of(const ModelCard& card) {
  Json list = Json::array();
  list.push_back("completion");
  if (card.chat == nullptr) return list;
  const ReplyFormat& format = card.chat->reply_format();
  if (card.chat->call_opening("", "")) list.push_back("tools");
  if (format.has_reasoning()) list.push_back("thinking");
  return list;
}

/// /api/tags lists all models, /api/ps those that are ready.
Question::Answered model_tags(Service& service, bool only_loaded) {
  Json list = Json::array();
  for (const ModelCard& card : service.models()) {
    if (only_loaded && card.state != ModelCard::State::kReady) continue;
    list.push_back(entry_of(card));
  }
  return Json{{"models", std::move(list)}}.dump();
}

Question::Answered shown_model(Service& service, const std::string& model) {
  const std::vector<ModelCard> cards = service.models();
  const ModelCard* named = card_named(cards, model);
  if (named == nullptr) return model_not_found(model);
  const ModelCard& card = *named;
  Json info{{"general.architecture", card.architecture}, {"general.basename", card.id}};
  info[card.architecture + ".context_length"] = card.context;
  info[card.architecture + ".vocab_size"] = card.vocab;
  return Json{{"modelfile", ""},
              {"parameters", ""},
              {"template", card.chat == nullptr ? std::string() : as_utf8(card.chat->source())},
              {"details", details_of(card)},
              {"model_info", std::move(info)},
              {"capabilities", capabilities_of(card)},
              {"modified_at", time_text(card.created)}}
      .dump();
}

ParsedCall parse_show(const ApiInput& input, const BodyLimits& limits) {
  const Json json = parse_body(input.body, limits, BodyHolds::kText);
  const Fields fields(json);
  const std::string* name = fields.string("model", limits.label_bytes);
  if (name == nullptr) name = fields.string("name", limits.label_bytes);
  if (name == nullptr) refuse_field("model", "missing", "is required");
  static_cast<void>(fields.find("verbose"));  // without effect: everything is always shown
  return answered_by([model = without_tag(*name)](Service& service) { return shown_model(service, model); },
                     unknown_fields_of(fields));
}

}  // namespace

std::vector<ApiRoute> routes(const ApiSettings&) {
  const auto at = [](Parse parse) { return endpoint_of(ollama_dialect(), std::move(parse)); };
  const auto text = [&](OllamaRequest (*read)(const Json&, const BodyLimits&)) {
    return at([read](const ApiInput& input, const BodyLimits& limits) {
      return parsed_text(read(parse_body(input.body, limits, BodyHolds::kText), limits));
    });
  };
  const auto fact = [&](AnswerNow answer) {
    return at([answer](const ApiInput&, const BodyLimits&) -> ParsedCall { return answered_by(answer); });
  };
  const auto version = fact([](Service&) -> Question::Answered {
    return Json{{"version", kOllamaVersion}}.dump();
  });
  const auto tags = fact([](Service& service) { return model_tags(service, false); });
  const auto loaded = fact([](Service& service) { return model_tags(service, true); });
  return {{.path = "/api/chat", .endpoint = text(read_chat), .generates = true},
          {.path = "/api/generate", .endpoint = text(read_generate), .generates = true},
          {.method = HttpMethod::kGet, .path = "/api/version", .endpoint = version},
          {.method = HttpMethod::kGet, .path = "/api/tags", .endpoint = tags},
          {.method = HttpMethod::kGet, .path = "/api/ps", .endpoint = loaded},
          {.path = "/api/show", .endpoint = at(parse_show)}};
}

}  // namespace reprise::protocol::ollama
