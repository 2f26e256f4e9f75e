#include "tests/protocol/other_dialects.h"

#include <optional>

#include "protocol/api/body.h"
#include "protocol/api/event_text.h"
#include "protocol/api/fields.h"
#include "protocol/apis.h"

namespace reprise::protocol {
namespace {

/// What both read: a message of the user's.
ApiRequest read_say(std::string_view body, const BodyLimits& limits) {
  const Json json = parse_body(body, limits, BodyHolds::kText);
  const Fields fields(json);
  const std::string* say = fields.string("say", limits.prompt_bytes);
  if (say == nullptr) refuse_field("say", "missing", "is required");
  Json messages = Json::array();
  messages.push_back(Json{{"role", "user"}, {"content", *say}});
  ApiRequest request{.generate = {.prompt = ChatPrompt{.messages = std::move(messages)}}};
  request.stream = fields.boolean_or("stream", false);
  request.tool_choice.mode = ToolChoice::Mode::kAuto;
  if (const std::string* tool = fields.string("tool", limits.label_bytes)) {
    request.tool_choice = {.mode = ToolChoice::Mode::kNamed, .name = *tool};
  }
  return request;
}

/// What both tell of a piece.
std::optional<Json> told(const ReplyPiece& piece) {
  if (const auto* content = std::get_if<ReplyContent>(&piece)) return Json{{"text", content->text}};
  if (const auto* reasoning = std::get_if<ReplyReasoning>(&piece)) {
    return Json{{"thought", reasoning->text}};
  }
  if (const auto* begin = std::get_if<ToolCallBegin>(&piece)) return Json{{"call", begin->name}};
  return std::nullopt;
}

/// The text of the only choice, as one.
class WholeText final : public Reply {
 public:
  explicit WholeText(ReplyContext context) : context_(std::move(context)) {}

  void admitted(const Admitted& event, std::int64_t, std::string&) override { model_ = event.model; }
  void started(const Started& event, std::string&) override { parser_.emplace(context_.parser_of(0, event)); }
  void delta(Delta event, std::string&) override { add(parser_->push(event.text)); }
  void finished(const Finished&, std::string&) override { add(parser_->finish()); }
  void done(const Done& event, std::string& out) override {
    Json{{"model", model_}, {"said", text_}, {"tokens", event.usage.completion_tokens}}.dump_to(out);
  }

 private:
  void add(const ReplyPieces& pieces) {
    for (const ReplyPiece& piece : pieces) {
      if (const auto* content = std::get_if<ReplyContent>(&piece)) text_ += content->text;
    }
  }

  const ReplyContext context_;
  std::string model_;
  std::string text_;
  std::optional<ReplyParser> parser_;
};

// -- events with names and numbers

class NamedDialect final : public Dialect {
 public:
  /// Where others say 503 for a server that is busy, this says 529.
  ErrorAnswer error_answer(const ApiError& error) const override {
    return {error.status == 503 ? 529 : error.status,
            Json{{"type", "error"}, {"problem", error.code}, {"words", error.message}}.dump()};
  }
};

const Dialect& named_dialect() {
  static const NamedDialect kDialect;
  return kDialect;
}

class NamedEvents final : public StreamedReply {
 public:
  explicit NamedEvents(ReplyContext context) : context_(std::move(context)) {}

  std::string_view content_type() const override { return kSseContentType; }
  void admitted(const Admitted& event, std::int64_t, std::string& out) override {
    write("begin", Json{{"id", "say_" + context_.id}, {"input", event.prompt_tokens}}, out);
  }
  void started(const Started& event, std::string&) override { parser_.emplace(context_.parser_of(0, event)); }
  void delta(Delta event, std::string& out) override { write_all(parser_->push(event.text), out); }
  void finished(const Finished&, std::string& out) override { write_all(parser_->finish(), out); }
  void done(const Done& event, std::string& out) override {
    write("end", Json{{"tokens", event.usage.completion_tokens}}, out);
  }
  void keep_alive(std::string& out) override { write("ping", Json::object(), out); }
  void failed(const ApiError& error, std::string& out) override {
    write("error", Json{{"problem", error.code}}, out);
  }

 private:
  void write(std::string_view name, Json event, std::string& out) {
    event["number"] = number_++;
    append_sse_event(out, name, event.dump());
  }
  void write_all(const ReplyPieces& pieces, std::string& out) {
    for (const ReplyPiece& piece : pieces) {
      if (std::optional<Json> event = told(piece)) write("piece", std::move(*event), out);
    }
  }

  const ReplyContext context_;
  std::optional<ReplyParser> parser_;
  std::int64_t number_ = 0;
};

class NamedCall final : public GenerationCall {
 public:
  using GenerationCall::GenerationCall;
  std::unique_ptr<StreamedReply> stream(ReplyContext context) override {
    return std::make_unique<NamedEvents>(std::move(context));
  }
  std::unique_ptr<Reply> whole(ReplyContext context) override {
    return std::make_unique<WholeText>(std::move(context));
  }
};

class NamedEndpoint final : public Endpoint {
 public:
  const Dialect& dialect() const override { return named_dialect(); }
  ParsedCall parse(const ApiInput& input, const BodyLimits& limits) const override {
    return std::make_unique<NamedCall>(read_say(input.body, limits));
  }
};

/// Two asks of the engine for one answer: how many tokens the rendered chat has.
class CountQuestion final : public Question {
 public:
  explicit CountQuestion(ApiRequest asked) : asked_(std::move(asked)) {}

  runtime::Task<Answered> answer(Service& service) override {
    auto rendering = service.render({.chat = std::get<ChatPrompt>(std::move(asked_.generate.prompt))});
    const runtime::Result<Answer<Rendered>> rendered = co_await rendering;
    if (!rendered.ok()) co_return to_api_error(rendered.error());
    auto counting = service.tokenize({.text = std::get<Rendered>(*rendered).prompt});
    const runtime::Result<Answer<Tokenized>> tokens = co_await counting;
    if (!tokens.ok()) co_return to_api_error(tokens.error());
    co_return Json{{"count", std::get<Tokenized>(*tokens).tokens.size()}}.dump();
  }

 private:
  ApiRequest asked_;
};

class CountEndpoint final : public Endpoint {
 public:
  const Dialect& dialect() const override { return named_dialect(); }
  ParsedCall parse(const ApiInput& input, const BodyLimits& limits) const override {
    return std::make_unique<CountQuestion>(read_say(input.body, limits));
  }
};

/// Says what it was asked for, and by whom.
class ThingQuestion final : public Question {
 public:
  explicit ThingQuestion(const ApiInput& input) : thing_(input.path_end), tenant_(input.tenant) {}

  runtime::Task<Answered> answer(Service&) override {
    if (thing_ == "none") {
      co_return ApiError{.status = 404, .message = "there is none", .code = "no_thing"};
    }
    co_return Json{{"thing", thing_}, {"for", tenant_}}.dump();
  }

 private:
  const std::string thing_;
  const std::string tenant_;
};

class ThingEndpoint final : public Endpoint {
 public:
  const Dialect& dialect() const override { return named_dialect(); }
  ParsedCall parse(const ApiInput& input, const BodyLimits&) const override {
    return std::make_unique<ThingQuestion>(input);
  }
};

// -- JSON lines

class LinesDialect final : public Dialect {
 public:
  ErrorAnswer error_answer(const ApiError& error) const override {
    return {error.status, Json{{"wrong", error.message}}.dump()};
  }
};

class Lines final : public StreamedReply {
 public:
  explicit Lines(ReplyContext context) : context_(std::move(context)) {}

  std::string_view content_type() const override { return kJsonLinesContentType; }
  void admitted(const Admitted&, std::int64_t, std::string&) override {}
  void started(const Started& event, std::string&) override { parser_.emplace(context_.parser_of(0, event)); }
  void delta(Delta event, std::string& out) override { write_all(parser_->push(event.text), out); }
  void finished(const Finished&, std::string& out) override { write_all(parser_->finish(), out); }
  void done(const Done&, std::string& out) override { append_json_line(out, R"({"done":true})"); }
  void keep_alive(std::string&) override {}  // a line would be an event
  void failed(const ApiError& error, std::string& out) override {
    append_json_line(out, Json{{"wrong", error.message}}.dump());
  }

 private:
  void write_all(const ReplyPieces& pieces, std::string& out) {
    for (const ReplyPiece& piece : pieces) {
      if (const std::optional<Json> line = told(piece)) append_json_line(out, line->dump());
    }
  }

  const ReplyContext context_;
  std::optional<ReplyParser> parser_;
};

class LinesCall final : public GenerationCall {
 public:
  using GenerationCall::GenerationCall;
  std::unique_ptr<StreamedReply> stream(ReplyContext context) override {
    return std::make_unique<Lines>(std::move(context));
  }
  std::unique_ptr<Reply> whole(ReplyContext context) override {
    return std::make_unique<WholeText>(std::move(context));
  }
};

/// Says at once that it is there where it is asked nothing, as Ollama does.
class HereQuestion final : public Question {
 public:
  runtime::Task<Answered> answer(Service&) override { co_return std::string(R"({"done":true})"); }
};

class LinesEndpoint final : public Endpoint {
 public:
  const Dialect& dialect() const override { return dialect_; }
  ParsedCall parse(const ApiInput& input, const BodyLimits& limits) const override {
    if (input.body == "{}") return std::make_unique<HereQuestion>();
    return std::make_unique<LinesCall>(read_say(input.body, limits));
  }

 private:
  const LinesDialect dialect_{};
};

}  // namespace

ApiTable other_dialects() {
  ApiTable table = all_apis();
  table.routes.push_back(
      {.path = "/named/say", .endpoint = std::make_shared<NamedEndpoint>(), .generates = true});
  table.routes.push_back({.path = "/named/count", .endpoint = std::make_shared<CountEndpoint>()});
  table.routes.push_back({.method = HttpMethod::kGet,
                          .path = "/named/things/{id}",
                          .endpoint = std::make_shared<ThingEndpoint>()});
  table.routes.push_back(
      {.path = "/lines", .endpoint = std::make_shared<LinesEndpoint>(), .generates = true});
  return table;
}

}  // namespace reprise::protocol
