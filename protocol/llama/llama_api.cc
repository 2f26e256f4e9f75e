#include "protocol/llama/llama_api.h"

#include "protocol/api/body.h"
#include "protocol/api/field_rules.h"
#include "protocol/api/fields.h"
#include "protocol/llama/completion_reply.h"
#include "protocol/llama/completion_request.h"
#include "protocol/llama/llama_dialect.h"
#include "protocol/llama/server_facts.h"
#include "protocol/llama/slot_api.h"
#include "protocol/llama/token_requests.h"
#include "protocol/openai/slot_book.h"
#include "protocol/openai/stream_reply.h"
#include "protocol/openai/whole_reply.h"

namespace reprise::protocol::llama {

using runtime::Result;
using runtime::Task;

namespace {

/// What the engine answered, as a body that `write` makes.
template <class T, class Write>
Question::Answered body_of(const Result<Answer<T>>& answer, Write write) {
  if (!answer.ok()) return to_api_error(answer.error());
  if (const auto* error = std::get_if<ServiceError>(&*answer)) return to_api_error(*error);
  return write(std::get<T>(*answer));
}

class TokenizeQuestion final : public Question {
 public:
  TokenizeQuestion(std::string_view body, const BodyLimits& limits)
      : request_(read_tokenize(body, limits, &unknown_fields)) {}

  Task<Answered> answer(Service& service) override {
    const bool pieces = request_.with_pieces;
    request_.caller = caller;
    auto asking = service.tokenize(std::move(request_));
    const Result<Answer<Tokenized>> answer = co_await asking;
    co_return body_of(answer, [&](const Tokenized& found) { return tokenize_body(found, pieces); });
  }
  bool is_text_work() const override { return true; }

 private:
  TokenizeRequest request_;
};

class DetokenizeQuestion final : public Question {
 public:
  DetokenizeQuestion(std::string_view body, const BodyLimits& limits)
      : request_(read_detokenize(body, limits, &unknown_fields)) {}

  Task<Answered> answer(Service& service) override {
    request_.caller = caller;
    auto asking = service.detokenize(std::move(request_));
    const Result<Answer<Detokenized>> answer = co_await asking;
    co_return body_of(answer, detokenize_body);
  }
  bool is_text_work() const override { return true; }

 private:
  DetokenizeRequest request_;
};

class ApplyTemplateQuestion final : public Question {
 public:
  ApplyTemplateQuestion(std::string_view body, const BodyLimits& limits)
      : request_(read_apply_template(body, limits, &unknown_fields)) {}

  Task<Answered> answer(Service& service) override {
    request_.caller = caller;
    auto asking = service.render(std::move(request_));
    const Result<Answer<Rendered>> answer = co_await asking;
    co_return body_of(answer, apply_template_body);
  }
  bool is_text_work() const override { return true; }

 private:
  RenderRequest request_;
};

class CountQuestion final : public Question {
 public:
  CountQuestion(std::string_view body, const BodyLimits& limits)
      : request_(read_apply_template(body, limits, &unknown_fields)) {}

  Task<Answered> answer(Service& service) override {
    request_.want_tokens = true;
    request_.caller = caller;
    auto asking = service.render(std::move(request_));
    const Result<Answer<Rendered>> answer = co_await asking;
    co_return body_of(answer, input_tokens_body);
  }
  bool is_text_work() const override { return true; }

 private:
  RenderRequest request_;
};

template <class Asked>
class QuestionEndpoint final : public Endpoint {
 public:
  const Dialect& dialect() const override { return llama::dialect(); }
  ParsedCall parse(const ApiInput& input, const BodyLimits& limits) const override {
    return std::make_unique<Asked>(input.body, limits);
  }
};

/// GET, of which nothing but the path is looked at.
template <class Make>
class FactsEndpoint final : public Endpoint {
 public:
  explicit FactsEndpoint(Make make) : make_(std::move(make)) {}
  const Dialect& dialect() const override { return llama::dialect(); }
  ParsedCall parse(const ApiInput&, const BodyLimits&) const override { return make_(); }

 private:
  const Make make_;
};

template <class Make>
std::shared_ptr<const Endpoint> facts(Make make) {
  return std::make_shared<FactsEndpoint<Make>>(std::move(make));
}

class CompletionCall final : public GenerationCall {
 public:
  CompletionCall(CompletionRequest request, openai::SlotNote note)
      : GenerationCall(std::move(request.asked)),
        options_(std::move(request.reply)),
        note_(std::move(note)) {}
  std::unique_ptr<StreamedReply> stream(ReplyContext) override {
    return openai::noted(std::unique_ptr<StreamedReply>(std::make_unique<StreamedCompletion>(options_)),
                         std::move(note_));
  }
  std::unique_ptr<Reply> whole(ReplyContext) override {
    return openai::noted(std::unique_ptr<Reply>(std::make_unique<WholeCompletion>(options_)),
                         std::move(note_));
  }

 private:
  const CompletionOptions options_;
  openai::SlotNote note_;
};

class CompletionEndpoint final : public Endpoint {
 public:
  using Read = CompletionRequest (*)(const Json&, const BodyLimits&);
  CompletionEndpoint(Read read, std::shared_ptr<openai::SlotBook> slots)
      : read_(read), slots_(std::move(slots)) {}
  const Dialect& dialect() const override { return llama::dialect(); }
  ParsedCall parse(const ApiInput& input, const BodyLimits& limits) const override {
    const Json body = parse_body(input.body, limits, BodyHolds::kTokenIds);
    return std::make_unique<CompletionCall>(read_(body, limits),
                                            openai::slot_note(slots_, body, input.tenant));
  }

 private:
  const Read read_;
  const std::shared_ptr<openai::SlotBook> slots_;
};

class ChatCall final : public GenerationCall {
 public:
  ChatCall(openai::TextRequest request, openai::SlotNote note)
      : GenerationCall(std::move(request.asked)), options_(request.reply), note_(std::move(note)) {}
  std::unique_ptr<StreamedReply> stream(ReplyContext context) override {
    return openai::noted(
        std::unique_ptr<StreamedReply>(std::make_unique<openai::StreamReply>(options_, std::move(context))),
        std::move(note_));
  }
  std::unique_ptr<Reply> whole(ReplyContext context) override {
    return openai::noted(
        std::unique_ptr<Reply>(std::make_unique<openai::WholeReply>(options_, std::move(context))),
        std::move(note_));
  }

 private:
  const openai::ReplyOptions options_;
  openai::SlotNote note_;
};

class ChatEndpoint final : public Endpoint {
 public:
  ChatEndpoint(bool verbose, std::shared_ptr<openai::SlotBook> slots)
      : verbose_(verbose), slots_(std::move(slots)) {}
  const Dialect& dialect() const override { return llama::dialect(); }
  ParsedCall parse(const ApiInput& input, const BodyLimits& limits) const override {
    const Json body = parse_body(input.body, limits, BodyHolds::kText);
    openai::TextRequest request = openai::read_chat_request(body, limits, openai::Manners::kLlamaServer);
    request.reply.verbose = request.reply.verbose || verbose_;
    request.asked.generate.want_settled = request.reply.verbose;
    return std::make_unique<ChatCall>(std::move(request), openai::slot_note(slots_, body, input.tenant));
  }

 private:
  const bool verbose_;
  const std::shared_ptr<openai::SlotBook> slots_;
};

/// {"id", "action": "reasoning_end"}: closes the reasoning of a reply under way, by the id that its client was told.
class ControlQuestion final : public Question {
 public:
  ControlQuestion(std::string id, std::string tenant) : id_(std::move(id)), tenant_(std::move(tenant)) {}

  Task<Answered> answer(Service& service) override {
    const std::string reply =
        id_.substr(id_.find_last_of("-_") + 1);  // without "chatcmpl-", "msg_", "resp_" …
    if (service.end_reasoning(reply, tenant_)) co_return Json{{"success", true}}.dump();
    co_return ApiError{.status = 404,
                       .message = "id: no reply " + in_quotes(id_) + " is being generated",
                       .code = "not_found",
                       .param = "id"};
  }

 private:
  const std::string id_;
  const std::string tenant_;
};

class ControlEndpoint final : public Endpoint {
 public:
  const Dialect& dialect() const override { return llama::dialect(); }
  ParsedCall parse(const ApiInput& input, const BodyLimits& limits) const override {
    const Json body = parse_body(input.body, limits, BodyHolds::kText);
    const Fields fields(body);
    const std::string* id = fields.string("id", limits.label_bytes);
    if (id == nullptr) refuse_field("id", "missing", "is required");
    const std::string* action = fields.string("action", limits.label_bytes);
    if (action == nullptr) refuse_field("action", "missing", "is required");
    if (*action != "reasoning_end") {
      refuse_field("action", "invalid_value", in_quotes(*action) + " is not 'reasoning_end'");
    }
    auto question = std::make_unique<ControlQuestion>(*id, std::string(input.tenant));
    question->unknown_fields = unknown_fields_of(fields);
    return question;
  }
};

}  // namespace

std::vector<ApiRoute> routes(const LlamaSettings& settings) {
  const auto completion = std::make_shared<CompletionEndpoint>(read_completion, settings.slot_book);
  const auto count = std::make_shared<QuestionEndpoint<CountQuestion>>();
  const auto control = std::make_shared<ControlEndpoint>();
  const bool slots = settings.slots;
  return {
      {.path = "/completion", .endpoint = completion, .generates = true},
      {.path = "/completions", .endpoint = completion, .generates = true},
      {.path = "/infill",
       .endpoint = std::make_shared<CompletionEndpoint>(read_infill, settings.slot_book),
       .generates = true},
      {.path = "/chat/completions",
       .endpoint = std::make_shared<ChatEndpoint>(settings.verbose, settings.slot_book),
       .generates = true},
      {.path = "/chat/completions/input_tokens", .endpoint = count},
      {.path = "/v1/chat/completions/input_tokens", .endpoint = count},
      {.path = "/chat/completions/control", .endpoint = control},
      {.path = "/v1/chat/completions/control", .endpoint = control},
      {.path = "/tokenize", .endpoint = std::make_shared<QuestionEndpoint<TokenizeQuestion>>()},
      {.path = "/detokenize", .endpoint = std::make_shared<QuestionEndpoint<DetokenizeQuestion>>()},
      {.path = "/apply-template", .endpoint = std::make_shared<QuestionEndpoint<ApplyTemplateQuestion>>()},
      {.method = HttpMethod::kGet, .path = "/props", .endpoint = facts([slots] {
                                                       return std::make_unique<PropsQuestion>(slots);
                                                     })},
      {.method = HttpMethod::kGet,
       .path = "/slots",
       .endpoint = facts([slots] { return std::make_unique<SlotsQuestion>(slots); }),
       .for_operators = true},
      {.path = "/slots/{id}",
       .endpoint = slot_endpoint(settings.names, settings.slot_book),
       .generates = true},
      {.method = HttpMethod::kGet, .path = "/models", .endpoint = facts([] {
                                                        return std::make_unique<LlamaModelsQuestion>();
                                                      })}};
}

}  // namespace reprise::protocol::llama
