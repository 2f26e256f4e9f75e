#include "protocol/llama/llama_api.h"

#include "protocol/llama/token_requests.h"
#include "protocol/openai/openai_api.h"

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
  TokenizeQuestion(std::string_view body, const BodyLimits& limits) : request_(read_tokenize(body, limits)) {}

  Task<Answered> answer(Service& service) override {
    const bool pieces = request_.with_pieces;
    auto asking = service.tokenize(std::move(request_));
    const Result<Answer<Tokenized>> answer = co_await asking;
    co_return body_of(answer, [&](const Tokenized& found) { return tokenize_body(found, pieces); });
  }

 private:
  TokenizeRequest request_;
};

class DetokenizeQuestion final : public Question {
 public:
  DetokenizeQuestion(std::string_view body, const BodyLimits& limits)
      : request_(read_detokenize(body, limits)) {}

  Task<Answered> answer(Service& service) override {
    auto asking = service.detokenize(std::move(request_));
    const Result<Answer<Detokenized>> answer = co_await asking;
    co_return body_of(answer, detokenize_body);
  }

 private:
  DetokenizeRequest request_;
};

class ApplyTemplateQuestion final : public Question {
 public:
  ApplyTemplateQuestion(std::string_view body, const BodyLimits& limits)
      : request_(read_apply_template(body, limits)) {}

  Task<Answered> answer(Service& service) override {
    auto asking = service.render(std::move(request_));
    const Result<Answer<Rendered>> answer = co_await asking;
    co_return body_of(answer, apply_template_body);
  }

 private:
  RenderRequest request_;
};

template <class Asked>
class QuestionEndpoint final : public Endpoint {
 public:
  const Dialect& dialect() const override { return *dialect_; }
  ParsedCall parse(const ApiInput& input, const BodyLimits& limits) const override {
    return std::make_unique<Asked>(input.body, limits);
  }

 private:
  const std::shared_ptr<const Dialect> dialect_ = openai::dialect();
};

}  // namespace

std::vector<ApiRoute> routes() {
  return {
      {.path = "/tokenize", .endpoint = std::make_shared<QuestionEndpoint<TokenizeQuestion>>()},
      {.path = "/detokenize", .endpoint = std::make_shared<QuestionEndpoint<DetokenizeQuestion>>()},
      {.path = "/apply-template", .endpoint = std::make_shared<QuestionEndpoint<ApplyTemplateQuestion>>()}};
}

}  // namespace reprise::protocol::llama
