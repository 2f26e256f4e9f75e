#include "protocol/admin/cache_api.h"

#include "protocol/api/body.h"
#include "protocol/api/field_rules.h"
#include "protocol/api/fields.h"
#include "protocol/openai/openai_api.h"

namespace reprise::protocol::admin {
namespace {

using runtime::Task;

template <class Name, std::size_t kCount>
Json by_name(const std::array<std::uint64_t, kCount>& counts) {
  Json out = Json::object();
  for (std::size_t i = 0; i < kCount; ++i) {
    if (counts[i] > 0) out[std::string(name_of(static_cast<Name>(i)))] = counts[i];
  }
  return out;
}

Json described(const CacheCounts& counts) {
  return Json{{"bytes", counts.bytes},
              {"budget_bytes", counts.budget_bytes},
              {"entries", counts.entries},
              {"path_tokens", counts.path_tokens},
              {"computing", counts.computing},
              {"lookups", counts.lookups},
              {"prompt_tokens", counts.prompt_tokens},
              {"restored_tokens", counts.restored_tokens},
              {"evicted", counts.evicted},
              {"expired", counts.expired},
              {"superseded", counts.superseded},
              {"reasons", by_name<MissReason>(counts.by_reason)},
              {"lost_tokens", by_name<MissReason>(counts.lost_tokens)},
              {"hits", by_name<Origin>(counts.hits)},
              {"inserts", by_name<Origin>(counts.inserts)}};
}

Json described(const ViewedNode& node) {
  Json out{{"parent", node.parent == ViewedNode::kNoParent ? Json() : Json(node.parent)},
           {"depth", node.depth},
           {"tokens", node.tokens}};
  if (node.entry) {
    out["snapshot"] = Json{{"origin", name_of(node.entry->origin)},
                           {"tier", name_of(Tier::kDevice)},
                           {"bytes", node.entry->bytes},
                           {"hits", node.entry->hits},
                           {"idle_s", node.entry->idle_s},
                           {"in_use", node.entry->in_use},
                           {"pinned", node.entry->pinned}};
  }
  if (node.gone != MissReason::kNone) out["gone"] = name_of(node.gone);
  if (node.flights > 0) out["computing"] = node.flights;
  return out;
}

Json described(const ViewedSpace& space, const CacheScope& scope) {
  Json nodes = Json::array();
  for (const ViewedNode& node : space.nodes) nodes.push_back(described(node));
  Json out{{"salted", space.salted}, {"adapter", space.of_adapter}, {"entries", space.entries}};
  if (scope.all) out["tenant"] = space.owner;
  out["nodes"] = std::move(nodes);
  return out;
}

Json described(const ModelCache& model, const CacheScope& scope) {
  Json out{{"model", model.model}, {"state", model.state}, {"cached", model.cached}};
  if (!model.cached) return out;
  if (model.counts) out["counts"] = described(*model.counts);
  Json spaces = Json::array();
  for (const ViewedSpace& space : model.view.spaces) spaces.push_back(described(space, scope));
  out["spaces"] = std::move(spaces);
  out["spaces_in_all"] = model.view.spaces_in_all;
  out["cut"] = model.view.cut;
  if (model.view.cut) {
    out["note"] =
        "more than " + std::to_string(kMostViewedNodes) + " nodes: only the most recently used are listed";
  }
  return out;
}

Json described(const TierState& tier) {
  return Json{{"tier", name_of(tier.tier)}, {"off", tier.off},
              {"bytes", tier.bytes},        {"budget_bytes", tier.budget_bytes},
              {"stored", tier.stored},      {"loaded", tier.loaded},
              {"evicted", tier.evicted}};
}

class ViewQuestion final : public Question {
 public:
  ViewQuestion(ServerDesk& desk, CacheScope scope) : desk_(desk), scope_(std::move(scope)) {}

  Task<Answered> answer(Service&) override {
    auto viewing = desk_.view_cache(scope_, kMostViewedNodes);
    const ServerCache cache = co_await viewing;
    Json models = Json::array(), tiers = Json::array();
    for (const ModelCache& model : cache.models) models.push_back(described(model, scope_));
    for (const TierState& tier : cache.tiers) tiers.push_back(described(tier));
    Json out{{"scope", scope_.all ? "all" : "own"}, {"models", std::move(models)}};
    if (scope_.all) out["tiers"] = std::move(tiers);
    co_return out.dump();
  }

 private:
  ServerDesk& desk_;
  const CacheScope scope_;
};

class DropQuestion final : public Question {
 public:
  DropQuestion(ServerDesk& desk, std::string model) : desk_(desk), model_(std::move(model)) {}

  Task<Answered> answer(Service&) override {
    auto dropping = desk_.drop_cache(model_);
    const Answer<std::uint64_t> dropped = co_await dropping;
    if (const auto* error = std::get_if<ServiceError>(&dropped)) co_return to_api_error(*error);
    co_return Json{{"model", model_}, {"dropped", std::get<std::uint64_t>(dropped)}}.dump();
  }

 private:
  ServerDesk& desk_;
  const std::string model_;
};

class ViewEndpoint final : public Endpoint {
 public:
  ViewEndpoint(ServerDesk& desk, ScopeOf scope_of) : desk_(desk), scope_of_(std::move(scope_of)) {}
  const Dialect& dialect() const override { return *dialect_; }
  ParsedCall parse(const ApiInput& input, const BodyLimits&) const override {
    return std::make_unique<ViewQuestion>(desk_, scope_of_(input.tenant));
  }

 private:
  ServerDesk& desk_;
  const ScopeOf scope_of_;
  const std::shared_ptr<const Dialect> dialect_ = openai::dialect();
};

class DropEndpoint final : public Endpoint {
 public:
  explicit DropEndpoint(ServerDesk& desk) : desk_(desk) {}
  const Dialect& dialect() const override { return *dialect_; }
  ParsedCall parse(const ApiInput& input, const BodyLimits& limits) const override {
    const Json body = parse_body(input.body, limits, BodyHolds::kText);
    const Fields fields(body);
    const std::string* model = fields.string("model", limits.label_bytes);
    if (model == nullptr || model->empty()) refuse_field("model", "missing", "is required");
    auto question = std::make_unique<DropQuestion>(desk_, *model);
    question->unknown_fields = unknown_fields_of(fields);
    return question;
  }

 private:
  ServerDesk& desk_;
  const std::shared_ptr<const Dialect> dialect_ = openai::dialect();
};

}  // namespace

std::vector<ApiRoute> cache_routes(ServerDesk& desk, ScopeOf scope_of) {
  return {
      {.method = HttpMethod::kGet,
       .path = "/v1/cache",
       .endpoint = std::make_shared<ViewEndpoint>(desk, std::move(scope_of))},
      {.path = "/v1/cache/drop", .endpoint = std::make_shared<DropEndpoint>(desk), .for_operators = true}};
}

}  // namespace reprise::protocol::admin
