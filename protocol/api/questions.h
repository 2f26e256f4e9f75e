#pragma once
// Endpoints and questions made from functions.
//
//   endpoint_of(dialect, [](const ApiInput& input, const BodyLimits& limits) -> ParsedCall { … })
//   answered_by([…](Service& service) -> Question::Answered { … })               synchronous
//   asked_by([…](Service&) { return a_coroutine(…); })                           asynchronous
//   ask_for_text(std::move(request), &Service::render, write)                    text work by the engine
//
// Threading: as for Endpoint and Question (protocol/api/endpoint.h).

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/json.h"
#include "protocol/api/endpoint.h"

namespace reprise::protocol {

using Parse = std::function<ParsedCall(const ApiInput& input, const BodyLimits& limits)>;
/// `parse` is called as Endpoint::parse(). The dialect must outlive the endpoint.
std::shared_ptr<const Endpoint> endpoint_of(const Dialect& dialect, Parse parse);

using AnswerNow = std::function<Question::Answered(Service& service)>;
std::unique_ptr<Question> answered_by(AnswerNow answer, std::vector<std::string> unknown_fields = {});
/// Called once, in the actor's turn. Must not be a coroutine with captures, but may call a coroutine.
using AnswerLater = std::function<runtime::Task<Question::Answered>(Service& service)>;
std::unique_ptr<Question> asked_by(AnswerLater answer, std::vector<std::string> unknown_fields = {});

/// Returns the error, or the body that `write` makes of the answer.
template <class T, class Write>
Question::Answered body_of(const Answer<T>& answer, const Write& write) {
  if (const auto* error = std::get_if<Error>(&answer)) return *error;
  return write(std::get<T>(answer));
}
template <class T, class Write>
Question::Answered body_of(const runtime::Result<Answer<T>>& answer, const Write& write) {
  if (!answer.ok()) return unanswered_error(answer.error());
  return body_of(*answer, write);
}

/// One text request to the engine; counts towards its tenant's limits.
template <class Request, class T>
class TextQuestion final : public Question {
 public:
  using Via = runtime::Ask<Answer<T>> (Service::*)(Request);
  using Write = std::function<std::string(const T&)>;

  TextQuestion(Request request, Via via, Write write)
      : request_(std::move(request)), via_(via), write_(std::move(write)) {}

  runtime::Task<Answered> answer(Service& service) override {
    request_.caller = caller;
    auto asking = (service.*via_)(std::move(request_));
    const runtime::Result<Answer<T>> answer = co_await asking;
    co_return body_of(answer, write_);
  }
  bool is_text_work() const override { return true; }

 private:
  Request request_;
  const Via via_;
  const Write write_;
};

template <class Request, class T>
std::unique_ptr<Question> ask_for_text(Request request, runtime::Ask<Answer<T>> (Service::*via)(Request),
                                       std::type_identity_t<std::function<std::string(const T&)>> write,
                                       std::vector<std::string> unknown_fields = {}) {
  auto question = std::make_unique<TextQuestion<Request, T>>(std::move(request), via, std::move(write));
  question->unknown_fields = std::move(unknown_fields);
  return question;
}

/// Returns {"id":…,"object":"model",…}: a model as OpenAI lists it.
Json describe_model(const ModelCard& card);

}  // namespace reprise::protocol
