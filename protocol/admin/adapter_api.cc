#include "protocol/admin/adapter_api.h"

#include <cstdio>

#include "protocol/adapters.h"
#include "protocol/api/api_error.h"
#include "protocol/api/body.h"
#include "protocol/api/field_rules.h"
#include "protocol/api/fields.h"
#include "protocol/openai/openai_api.h"

namespace reprise::protocol::admin {
namespace {

using runtime::Result;
using runtime::Task;

enum class Change { kLoad, kUnload };

std::string in_hex(std::uint64_t number) {
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(number));
  return text;
}

class ListQuestion final : public Question {
 public:
  Task<Answered> answer(Service& service) override {
    Json data = Json::array();
    for (const ModelCard& card : service.models()) {
      if (card.parent.empty()) continue;
      data.push_back(Json{{"id", card.id},
                          {"model", card.parent},
                          {"name", card.id.substr(card.parent.size() + 1)},
                          {"state", name_of(card.state)}});
    }
    co_return Json{{"adapters", std::move(data)}}.dump();
  }
};

class ChangeQuestion final : public Question {
 public:
  ChangeQuestion(Change change, AdapterWish wish) : change_(change), wish_(std::move(wish)) {}

  Task<Answered> answer(Service& service) override {
    AdapterDesk* desk = service.adapter_desk();
    if (desk == nullptr) {
      co_return ApiError{
          .status = 404, .message = "this server cannot load or unload adapters", .code = "not_found"};
    }
    auto asking = change_ == Change::kLoad ? desk->load_adapter(std::move(wish_))
                                           : desk->unload_adapter(std::move(wish_));
    const Result<Answer<AdapterCard>> answer = co_await asking;
    if (!answer.ok()) co_return to_api_error(answer.error());
    if (const auto* error = std::get_if<ServiceError>(&*answer)) co_return to_api_error(*error);
    const auto& card = std::get<AdapterCard>(*answer);
    co_return Json{{"id", card.model + ":" + card.name},
                   {"model", card.model},
                   {"name", card.name},
                   {"matrices", card.matrices},
                   {"rank", card.rank},
                   {"bytes", card.bytes},
                   {"fingerprint", in_hex(card.fingerprint)},
                   {"loaded", change_ == Change::kLoad}}
        .dump();
  }

 private:
  const Change change_;
  AdapterWish wish_;
};

class ListEndpoint final : public Endpoint {
 public:
  const Dialect& dialect() const override { return *dialect_; }
  ParsedCall parse(const ApiInput&, const BodyLimits&) const override {
    return std::make_unique<ListQuestion>();
  }

 private:
  const std::shared_ptr<const Dialect> dialect_ = openai::dialect();
};

class ChangeEndpoint final : public Endpoint {
 public:
  explicit ChangeEndpoint(Change change) : change_(change) {}
  const Dialect& dialect() const override { return *dialect_; }

  ParsedCall parse(const ApiInput& input, const BodyLimits& limits) const override {
    constexpr std::size_t kLongestPath = 4096;
    const Json body = parse_body(input.body, limits, BodyHolds::kText);
    const Fields fields(body);
    AdapterWish wish;
    if (const std::string* name = fields.string("name", limits.label_bytes)) wish.name = *name;
    if (wish.name.empty()) refuse_field("name", "missing", "is required");
    if (const std::string* model = fields.string("model", limits.label_bytes)) wish.model = *model;
    if (const std::string* path = fields.string("path", kLongestPath)) {
      if (change_ == Change::kUnload) refuse_field("path", "invalid_value", "applies only to loading");
      wish.path = *path;
    }
    auto question = std::make_unique<ChangeQuestion>(change_, std::move(wish));
    question->unknown_fields = unknown_fields_of(fields);
    return question;
  }

 private:
  const Change change_;
  const std::shared_ptr<const Dialect> dialect_ = openai::dialect();
};

}  // namespace

std::vector<ApiRoute> adapter_routes() {
  return {{.method = HttpMethod::kGet,
           .path = "/admin/adapters",
           .endpoint = std::make_shared<ListEndpoint>(),
           .for_operators = true},
          {.path = "/admin/adapters/load",
           .endpoint = std::make_shared<ChangeEndpoint>(Change::kLoad),
           .for_operators = true},
          {.path = "/admin/adapters/unload",
           .endpoint = std::make_shared<ChangeEndpoint>(Change::kUnload),
           .for_operators = true}};
}

}  // namespace reprise::protocol::admin
