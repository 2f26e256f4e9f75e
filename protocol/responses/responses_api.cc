#include "protocol/responses/responses_api.h"

#include "protocol/api/body.h"
#include "protocol/openai/openai_api.h"
#include "protocol/responses/response_reply.h"
#include "protocol/responses/responses_request.h"

namespace reprise::protocol::responses {
namespace {

using StorePtr = std::shared_ptr<ResponseStore>;

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

/// To make a response, or a compaction.
class ResponsesEndpoint final : public Endpoint {
 public:
  ResponsesEndpoint(StorePtr store, ResponseKind kind) : store_(std::move(store)), kind_(kind) {}

  const Dialect& dialect() const override { return *dialect_; }
  ParsedCall parse(const ApiInput& input, const BodyLimits& limits) const override {
    const Json body = parse_body(input.body, limits, BodyHolds::kText);
    std::string tenant(input.tenant);
    ResponseRequest request = read_response_request(body, limits, *store_, tenant, kind_);
    return std::make_unique<ResponseCall>(std::move(request), store_, std::move(tenant));
  }

 private:
  const StorePtr store_;
  const ResponseKind kind_;
  const std::shared_ptr<const Dialect> dialect_ = openai::dialect();
};

/// How many tokens the prompt of a response would have.
class CountQuestion final : public Question {
 public:
  explicit CountQuestion(ResponseRequest request) {
    GenerateRequest& generate = request.asked.generate;
    request_ = {.model = std::move(generate.model),
                .chat = std::move(std::get<ChatPrompt>(generate.prompt)),
                .want_tokens = true};
  }

  runtime::Task<Answered> answer(Service& service) override {
    request_.caller = caller;
    auto asking = service.render(std::move(request_));
    const runtime::Result<Answer<Rendered>> answer = co_await asking;
    if (!answer.ok()) co_return to_api_error(answer.error());
    if (const auto* error = std::get_if<ServiceError>(&*answer)) co_return to_api_error(*error);
    co_return Json{{"object", "response.input_tokens"},
                   {"input_tokens", std::get<Rendered>(*answer).tokens.size()}}
        .dump();
  }
  bool is_text_work() const override { return true; }

 private:
  RenderRequest request_;
};

class CountEndpoint final : public Endpoint {
 public:
  explicit CountEndpoint(StorePtr store) : store_(std::move(store)) {}

  const Dialect& dialect() const override { return *dialect_; }
  ParsedCall parse(const ApiInput& input, const BodyLimits& limits) const override {
    const Json body = parse_body(input.body, limits, BodyHolds::kText);
    ResponseRequest request = read_response_request(body, limits, *store_, std::string(input.tenant));
    std::vector<std::string> unknown = std::move(request.asked.unknown_fields);
    auto question = std::make_unique<CountQuestion>(std::move(request));
    question->unknown_fields = std::move(unknown);
    return question;
  }

 private:
  const StorePtr store_;
  const std::shared_ptr<const Dialect> dialect_ = openai::dialect();
};

class StoredQuestion final : public Question {
 public:
  explicit StoredQuestion(Answered answer) : answer_(std::move(answer)) {}
  runtime::Task<Answered> answer(Service&) override { co_return std::move(answer_); }

 private:
  Answered answer_;
};

/// GET and DELETE of a stored response.
class StoredEndpoint final : public Endpoint {
 public:
  explicit StoredEndpoint(StorePtr store) : store_(std::move(store)) {}

  const Dialect& dialect() const override { return *dialect_; }
  ParsedCall parse(const ApiInput& input, const BodyLimits&) const override {
    const std::string id(input.path_end);
    const ResponseOwner owner{.tenant = std::string(input.tenant), .salt = std::string(input.cache_salt)};
    if (input.deletes) {
      if (!store_->erase(owner, id)) return unknown(id);
      return std::make_unique<StoredQuestion>(
          Json{{"id", id}, {"object", "response"}, {"deleted", true}}.dump());
    }
    auto found = store_->find(owner, id);
    if (!found) return unknown(id);
    return std::make_unique<StoredQuestion>(std::move(found->body));
  }

 private:
  static ApiError unknown(const std::string& id) {
    return {.status = 404,
            .message = "there is no response '" + id + "'",
            .code = "not_found",
            .param = "response_id"};
  }

  const StorePtr store_;
  const std::shared_ptr<const Dialect> dialect_ = openai::dialect();
};

}  // namespace

std::vector<ApiRoute> routes() {
  const auto store = std::make_shared<ResponseStore>();
  return {{.path = "/v1/responses",
           .endpoint = std::make_shared<ResponsesEndpoint>(store, ResponseKind::kResponse),
           .generates = true},
          {.path = "/v1/responses/compact",
           .endpoint = std::make_shared<ResponsesEndpoint>(store, ResponseKind::kCompaction),
           .generates = true},
          {.path = "/v1/responses/input_tokens", .endpoint = std::make_shared<CountEndpoint>(store)},
          {.method = HttpMethod::kGetDelete,
           .path = "/v1/responses/{id}",
           .endpoint = std::make_shared<StoredEndpoint>(store)}};
}

}  // namespace reprise::protocol::responses
