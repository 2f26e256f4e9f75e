#pragma once
// What is served, as OpenAI lists models: answered at once, from what the engine has published.
//
// Threading: one actor's.

#include <string>

#include "base/json.h"
#include "protocol/api/endpoint.h"

namespace reprise::protocol::openai {

/// {"id":…,"object":"model",…}
Json describe(const ModelCard& card);

/// {"object":"list","data":[…],"models":[…]}: the same twice, the second time as Codex reads it.
class ModelListQuestion final : public Question {
 public:
  runtime::Task<Answered> answer(Service& service) override;
};

/// {"id":…,"object":"model",…} of one.
class ModelQuestion final : public Question {
 public:
  explicit ModelQuestion(std::string id) : id_(std::move(id)) {}
  runtime::Task<Answered> answer(Service& service) override;

 private:
  const std::string id_;
};

}  // namespace reprise::protocol::openai
