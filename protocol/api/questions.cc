#include "protocol/api/questions.h"

#include "base/utf8.h"

namespace reprise::protocol {
namespace {

class FunctionEndpoint final : public Endpoint {
 public:
  FunctionEndpoint(const Dialect& dialect, Parse parse) : dialect_(dialect), parse_(std::move(parse)) {}

  const Dialect& dialect() const override { return dialect_; }
  ParsedCall parse(const ApiInput& input, const BodyLimits& limits) const override {
    return parse_(input, limits);
  }

 private:
  const Dialect& dialect_;
  const Parse parse_;
};

class QuestionNow final : public Question {
 public:
  explicit QuestionNow(AnswerNow answer) : answer_(std::move(answer)) {}
  runtime::Task<Answered> answer(Service& service) override { co_return answer_(service); }

 private:
  const AnswerNow answer_;
};

class QuestionLater final : public Question {
 public:
  explicit QuestionLater(AnswerLater answer) : answer_(std::move(answer)) {}
  runtime::Task<Answered> answer(Service& service) override { return answer_(service); }

 private:
  const AnswerLater answer_;
};

}  // namespace

std::shared_ptr<const Endpoint> endpoint_of(const Dialect& dialect, Parse parse) {
  return std::make_shared<FunctionEndpoint>(dialect, std::move(parse));
}

std::unique_ptr<Question> answered_by(AnswerNow answer, std::vector<std::string> unknown_fields) {
  auto question = std::make_unique<QuestionNow>(std::move(answer));
  question->unknown_fields = std::move(unknown_fields);
  return question;
}

std::unique_ptr<Question> asked_by(AnswerLater answer, std::vector<std::string> unknown_fields) {
  auto question = std::make_unique<QuestionLater>(std::move(answer));
  question->unknown_fields = std::move(unknown_fields);
  return question;
}

Json describe_model(const ModelCard& card) {
  Json out{{"id", card.id},
           {"parent", card.parent.empty() ? Json() : Json(card.parent)},
           {"object", "model"},
           {"created", card.created},
           {"owned_by", "reprise"},
           {"architecture", card.architecture},
           {"max_model_len", card.context},
           {"vocab_size", card.vocab},
           {"takes_text", card.takes_text},
           {"takes_chat", card.takes_text && card.chat != nullptr},
           {"chat_template_assumed", card.chat_is_assumed},
           {"state", name_of(card.state)}};
  Json aliases = Json::array();
  for (const std::string& alias : card.aliases) aliases.push_back(alias);
  out["aliases"] = std::move(aliases);
  if (card.state == ModelCard::State::kLoading) out["loaded"] = card.loaded_permille / 1000.0;
  if (!card.problem.empty()) out["problem"] = as_utf8(card.problem);
  return out;
}

}  // namespace reprise::protocol
