#include "protocol/admin/model_api.h"

#include "protocol/api/body.h"
#include "protocol/api/field_rules.h"
#include "protocol/api/fields.h"
#include "protocol/openai/model_list.h"
#include "protocol/openai/openai_api.h"

namespace reprise::protocol::admin {
namespace {

using runtime::Task;

enum class ModelChange { kLoad, kUnload };

class ModelChangeQuestion final : public Question {
 public:
  ModelChangeQuestion(ServerDesk& desk, ModelChange change, std::string name)
      : desk_(desk), change_(change), name_(std::move(name)) {}

  Task<Answered> answer(Service&) override {
    if (change_ == ModelChange::kLoad) {
      auto loading = desk_.load_model(name_);
      const Answer<ModelCard> loaded = co_await loading;
      if (const auto* error = std::get_if<ServiceError>(&loaded)) co_return to_api_error(*error);
      co_return openai::describe(std::get<ModelCard>(loaded)).dump();
    }
    auto unloading = desk_.unload_model(name_);
    const Answer<std::string> unloaded = co_await unloading;
    if (const auto* error = std::get_if<ServiceError>(&unloaded)) co_return to_api_error(*error);
    co_return Json{{"id", name_}, {"object", "model"}, {"state", "unloaded"}}.dump();
  }

 private:
  ServerDesk& desk_;
  const ModelChange change_;
  const std::string name_;
};

class ModelChangeEndpoint final : public Endpoint {
 public:
  ModelChangeEndpoint(ServerDesk& desk, ModelChange change) : desk_(desk), change_(change) {}
  const Dialect& dialect() const override { return *dialect_; }

  ParsedCall parse(const ApiInput& input, const BodyLimits& limits) const override {
    const Json body = parse_body(input.body, limits, BodyHolds::kText);
    const Fields fields(body);
    const std::string* name = fields.string("model", limits.label_bytes);
    if (name == nullptr || name->empty()) refuse_field("model", "missing", "is required");
    auto question = std::make_unique<ModelChangeQuestion>(desk_, change_, *name);
    question->unknown_fields = unknown_fields_of(fields);
    return question;
  }

 private:
  ServerDesk& desk_;
  const ModelChange change_;
  const std::shared_ptr<const Dialect> dialect_ = openai::dialect();
};

}  // namespace

std::vector<ApiRoute> model_routes(ServerDesk& desk) {
  const auto route = [&](const char* path, ModelChange change) {
    return ApiRoute{
        .path = path, .endpoint = std::make_shared<ModelChangeEndpoint>(desk, change), .for_operators = true};
  };
  return {route("/v1/models/load", ModelChange::kLoad), route("/v1/models/unload", ModelChange::kUnload)};
}

}  // namespace reprise::protocol::admin
