#include "protocol/ollama/ollama_api.h"

#include <chrono>

#include "protocol/api/body.h"
#include "protocol/ollama/facts.h"
#include "protocol/ollama/reply.h"
#include "protocol/ollama/request.h"

namespace reprise::protocol::ollama {
namespace {

class OllamaDialect final : public Dialect {
 public:
  ErrorAnswer error_answer(const ApiError& error) const override { return {error.status, error_text(error)}; }
};

const Dialect& ollama_dialect() {
  static const OllamaDialect kDialect;
  return kDialect;
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

/// A request without a prompt: the model is here, or it is not.
class LoadQuestion final : public Question {
 public:
  LoadQuestion(std::string model, OllamaKind kind) : model_(std::move(model)), kind_(kind) {}

  runtime::Task<Answered> answer(Service& service) override {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const std::vector<ModelCard> cards = service.models();
    if (const ModelCard* card = card_named(cards, model_)) {
      Json body{{"model", card->id},
                {"created_at", time_text(std::chrono::duration_cast<std::chrono::seconds>(now).count())}};
      if (kind_ == OllamaKind::kChat) {
        body["message"] = Json{{"role", "assistant"}, {"content", ""}};
      } else {
        body["response"] = "";
      }
      body["done"] = true;
      body["done_reason"] = "load";
      co_return body.dump() + "\n";
    }
    co_return ApiError{.status = 404,
                       .message = "model '" + model_ + "' not found",
                       .code = "model_not_found",
                       .param = "model"};
  }

 private:
  const std::string model_;
  const OllamaKind kind_;
};

class TextEndpoint final : public Endpoint {
 public:
  using Read = OllamaRequest (*)(const Json&, const BodyLimits&);
  explicit TextEndpoint(Read read) : read_(read) {}
  const Dialect& dialect() const override { return ollama_dialect(); }
  ParsedCall parse(const ApiInput& input, const BodyLimits& limits) const override {
    OllamaRequest request = read_(parse_body(input.body, limits, BodyHolds::kText), limits);
    if (request.is_load) {
      auto question = std::make_unique<LoadQuestion>(request.asked.generate.model, request.kind);
      question->unknown_fields = std::move(request.asked.unknown_fields);
      return question;
    }
    return std::make_unique<OllamaCall>(std::move(request));
  }

 private:
  const Read read_;
};

class FactEndpoint final : public Endpoint {
 public:
  using Make = std::unique_ptr<Question> (*)(const ApiInput&, const BodyLimits&);
  explicit FactEndpoint(Make make) : make_(make) {}
  const Dialect& dialect() const override { return ollama_dialect(); }
  ParsedCall parse(const ApiInput& input, const BodyLimits& limits) const override {
    return make_(input, limits);
  }

 private:
  const Make make_;
};

std::shared_ptr<const Endpoint> fact(FactEndpoint::Make make) {
  return std::make_shared<FactEndpoint>(make);
}

}  // namespace

std::vector<ApiRoute> routes() {
  using Asked = std::unique_ptr<Question>;
  return {
      {.path = "/api/chat", .endpoint = std::make_shared<TextEndpoint>(read_chat), .generates = true},
      {.path = "/api/generate", .endpoint = std::make_shared<TextEndpoint>(read_generate), .generates = true},
      {.method = HttpMethod::kGet,
       .path = "/api/version",
       .endpoint = fact(
           [](const ApiInput&, const BodyLimits&) -> Asked { return std::make_unique<VersionQuestion>(); })},
      {.method = HttpMethod::kGet,
       .path = "/api/tags",
       .endpoint = fact([](const ApiInput&, const BodyLimits&) -> Asked {
         return std::make_unique<TagsQuestion>(false);
       })},
      {.method = HttpMethod::kGet,
       .path = "/api/ps",
       .endpoint = fact(
           [](const ApiInput&, const BodyLimits&) -> Asked { return std::make_unique<TagsQuestion>(true); })},
      {.path = "/api/show", .endpoint = fact([](const ApiInput& input, const BodyLimits& limits) -> Asked {
                              return std::make_unique<ShowQuestion>(input.body, limits);
                            })},
  };
}

}  // namespace reprise::protocol::ollama
