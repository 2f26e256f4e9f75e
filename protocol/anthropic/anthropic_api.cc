#include "protocol/anthropic/anthropic_api.h"

#include "protocol/anthropic/error_body.h"
#include "protocol/anthropic/message_stream.h"
#include "protocol/anthropic/message_whole.h"
#include "protocol/anthropic/messages_request.h"
#include "protocol/api/body.h"

namespace reprise::protocol::anthropic {
namespace {

using runtime::Result;
using runtime::Task;

class MessagesDialect final : public Dialect {
 public:
  ErrorAnswer error_answer(const ApiError& error) const override {
    return {status_of(error), envelope(error).dump()};
  }
};

const Dialect& messages_dialect() {
  static const MessagesDialect kDialect;
  return kDialect;
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

class MessagesEndpoint final : public Endpoint {
 public:
  const Dialect& dialect() const override { return messages_dialect(); }
  ParsedCall parse(const ApiInput& input, const BodyLimits& limits) const override {
    return std::make_unique<MessagesCall>(
        read_messages_request(parse_body(input.body, limits, BodyHolds::kText), limits));
  }
};

/// {"input_tokens": …}: the prompt rendered and tokenised, as it would be answered.
class CountQuestion final : public Question {
 public:
  explicit CountQuestion(RenderRequest request) : request_(std::move(request)) {}

  Task<Answered> answer(Service& service) override {
    const std::string model = request_.model;
    request_.caller = caller;
    auto rendering = service.render(std::move(request_));
    const Result<Answer<Rendered>> rendered = co_await rendering;
    if (!rendered.ok()) co_return to_api_error(rendered.error());
    if (const auto* error = std::get_if<ServiceError>(&*rendered)) co_return to_api_error(*error);
    auto tokenizing =
        service.tokenize({.model = model, .text = std::get<Rendered>(*rendered).prompt, .caller = caller});
    const Result<Answer<Tokenized>> tokenized = co_await tokenizing;
    if (!tokenized.ok()) co_return to_api_error(tokenized.error());
    if (const auto* error = std::get_if<ServiceError>(&*tokenized)) co_return to_api_error(*error);
    co_return Json{{"input_tokens", std::get<Tokenized>(*tokenized).tokens.size()}}.dump();
  }
  bool is_text_work() const override { return true; }

 private:
  RenderRequest request_;
};

class CountEndpoint final : public Endpoint {
 public:
  const Dialect& dialect() const override { return messages_dialect(); }
  ParsedCall parse(const ApiInput& input, const BodyLimits& limits) const override {
    std::vector<std::string> unknown;
    auto question = std::make_unique<CountQuestion>(
        read_count_request(parse_body(input.body, limits, BodyHolds::kText), limits, unknown));
    question->unknown_fields = std::move(unknown);
    return question;
  }
};

/// What Anthropic has beside these, and this server has not.
class NothingEndpoint final : public Endpoint {
 public:
  const Dialect& dialect() const override { return messages_dialect(); }
  ParsedCall parse(const ApiInput&, const BodyLimits&) const override {
    return ApiError{.status = 404, .message = "this path does not exist", .code = "not_found"};
  }
};

}  // namespace

std::vector<ApiRoute> routes() {
  return {{.path = "/v1/messages", .endpoint = std::make_shared<MessagesEndpoint>(), .generates = true},
          {.path = "/v1/messages/count_tokens", .endpoint = std::make_shared<CountEndpoint>()},
          {.path = "/v1/messages/{rest}", .endpoint = std::make_shared<NothingEndpoint>()}};
}

}  // namespace reprise::protocol::anthropic
