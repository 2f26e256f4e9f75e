#include "protocol/admin/admin_api.h"

#include <cstdio>

#include "base/json_text.h"
#include "protocol/api/field_rules.h"
#include "protocol/api/fields.h"
#include "protocol/api/questions.h"

namespace reprise::protocol::admin {
namespace {

using runtime::Result;
using runtime::Task;
using traces::SessionControl;
using Answered = Question::Answered;

std::shared_ptr<const Endpoint> at(Parse parse) {
  return endpoint_of(openai_dialect(), std::move(parse));
}

std::string required(const Fields& fields, const char* name, const BodyLimits& limits) {
  const std::string* given = fields.string(name, limits.label_bytes);
  if (given == nullptr || given->empty()) refuse_field(name, "missing", "is required");
  return *given;
}

// -- adapters

std::string in_hex(std::uint64_t number) {
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(number));
  return text;
}

Answered listed_adapters(Service& service) {
  Json data = Json::array();
  for (const ModelCard& card : service.models()) {
    if (card.parent.empty()) continue;
    data.push_back(Json{{"id", card.id},
                        {"model", card.parent},
                        {"name", card.id.substr(card.parent.size() + 1)},
                        {"state", name_of(card.state)}});
  }
  return Json{{"adapters", std::move(data)}}.dump();
}

Task<Answered> change_adapter(Service& service, bool loads, AdapterRequest request) {
  AdapterAdmin* adapters = service.adapter_admin();
  if (adapters == nullptr) {
    co_return Error{ErrorKind::kNotFound, "this server cannot load or unload adapters"};
  }
  auto asking =
      loads ? adapters->load_adapter(std::move(request)) : adapters->unload_adapter(std::move(request));
  const Result<Answer<AdapterCard>> answer = co_await asking;
  co_return body_of(answer, [loads](const AdapterCard& card) {
    return Json{{"id", card.model + ":" + card.name},
                {"model", card.model},
                {"name", card.name},
                {"matrices", card.matrices},
                {"rank", card.rank},
                {"bytes", card.bytes},
                {"fingerprint", in_hex(card.fingerprint)},
                {"loaded", loads}}
        .dump();
  });
}

ParsedCall parse_adapter_change(bool loads, const ApiInput& input, const BodyLimits& limits) {
  constexpr std::size_t kMaxPathLength = 4096;
  const Json body = parse_body(input.body, limits, BodyHolds::kText);
  const Fields fields(body);
  AdapterRequest request{.name = required(fields, "name", limits)};
  if (const std::string* model = fields.string("model", limits.label_bytes)) request.model = *model;
  if (const std::string* path = fields.string("path", kMaxPathLength)) {
    if (!loads) refuse_field("path", "invalid_value", "applies only to loading");
    request.path = *path;
  }
  return asked_by([loads, request](Service& service) { return change_adapter(service, loads, request); },
                  unknown_fields_of(fields));
}

// -- the cache

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
        "more than " + std::to_string(kMaxViewedNodes) + " nodes: only the most recently used are listed";
  }
  return out;
}

Json described(const TierState& tier) {
  return Json{{"tier", name_of(tier.tier)}, {"off", tier.off},
              {"bytes", tier.bytes},        {"budget_bytes", tier.budget_bytes},
              {"stored", tier.stored},      {"loaded", tier.loaded},
              {"evicted", tier.evicted}};
}

Task<Answered> view_cache(ServerAdmin& server_admin, CacheScope scope) {
  auto viewing = server_admin.view_cache(scope, kMaxViewedNodes);
  const ServerCache cache = co_await viewing;
  Json models = Json::array(), tiers = Json::array();
  for (const ModelCache& model : cache.models) models.push_back(described(model, scope));
  for (const TierState& tier : cache.tiers) tiers.push_back(described(tier));
  Json out{{"scope", scope.all ? "all" : "own"}, {"models", std::move(models)}};
  if (scope.all) out["tiers"] = std::move(tiers);
  co_return out.dump();
}

Task<Answered> drop_cache(ServerAdmin& server_admin, std::string model) {
  auto dropping = server_admin.drop_cache(model);
  const Answer<std::uint64_t> dropped = co_await dropping;
  co_return body_of(dropped, [&](std::uint64_t count) {
    return Json{{"model", model}, {"dropped", count}}.dump();
  });
}

// -- models

Task<Answered> load_model(ServerAdmin& server_admin, std::string name) {
  auto loading = server_admin.load_model(std::move(name));
  const Answer<ModelCard> loaded = co_await loading;
  co_return body_of(loaded, [](const ModelCard& card) { return describe_model(card).dump(); });
}

Task<Answered> unload_model(ServerAdmin& server_admin, std::string name) {
  auto unloading = server_admin.unload_model(name);
  const Answer<std::string> unloaded = co_await unloading;
  co_return body_of(unloaded, [&](const std::string&) {
    return Json{{"id", name}, {"object", "model"}, {"state", "unloaded"}}.dump();
  });
}

using OfModel = Task<Answered> (*)(ServerAdmin& server_admin, std::string name);

/// Reads {"model": NAME} and applies `change` to the model.
std::shared_ptr<const Endpoint> at_model(ServerAdmin& server_admin, OfModel change) {
  return at([&server_admin, change](const ApiInput& input, const BodyLimits& limits) -> ParsedCall {
    const Json body = parse_body(input.body, limits, BodyHolds::kText);
    const Fields fields(body);
    const std::string name = required(fields, "model", limits);
    return asked_by([&server_admin, change, name](Service&) { return change(server_admin, name); },
                    unknown_fields_of(fields));
  });
}

// -- traces

std::string told(const SessionControl::State& state) {
  std::string out = state.records ? "{\"recording\":true,\"file\":" : "{\"recording\":false,\"file\":";
  if (state.file.empty()) {
    out += "null";
  } else {
    append_json_string(out, state.file);
  }
  return out + '}';
}

Answered changed_trace(const SessionControl::Changed& changed) {
  if (!changed.ok()) return Error{ErrorKind::kConflict, changed.error()};
  return told(*changed);
}

}  // namespace

std::vector<ApiRoute> adapter_routes() {
  const auto change = [](const char* path, bool loads) {
    return ApiRoute{.path = path,
                    .endpoint = at([loads](const ApiInput& input, const BodyLimits& limits) {
                      return parse_adapter_change(loads, input, limits);
                    }),
                    .for_operators = true};
  };
  return {{.method = HttpMethod::kGet,
           .path = "/admin/adapters",
           .endpoint = at(
               [](const ApiInput&, const BodyLimits&) -> ParsedCall { return answered_by(listed_adapters); }),
           .for_operators = true},
          change("/admin/adapters/load", true),
          change("/admin/adapters/unload", false)};
}

std::vector<ApiRoute> cache_routes(ServerAdmin& server_admin, ScopeOf scope_of) {
  return {{.method = HttpMethod::kGet,
           .path = "/v1/cache",
           .endpoint = at([&server_admin, scope_of = std::move(scope_of)](const ApiInput& input,
                                                                          const BodyLimits&) -> ParsedCall {
             return asked_by([&server_admin, scope = scope_of(input.tenant)](Service&) {
               return view_cache(server_admin, scope);
             });
           })},
          {.path = "/v1/cache/drop", .endpoint = at_model(server_admin, drop_cache), .for_operators = true}};
}

std::vector<ApiRoute> model_routes(ServerAdmin& server_admin) {
  return {
      {.path = "/v1/models/load", .endpoint = at_model(server_admin, load_model), .for_operators = true},
      {.path = "/v1/models/unload", .endpoint = at_model(server_admin, unload_model), .for_operators = true}};
}

std::vector<ApiRoute> trace_routes(SessionControl& sessions) {
  const auto route = [](HttpMethod method, const char* path, AnswerNow answer) {
    const auto parse = [answer](const ApiInput&, const BodyLimits&) -> ParsedCall {
      return answered_by(answer);
    };
    return ApiRoute{.method = method, .path = path, .endpoint = at(parse), .for_operators = true};
  };
  return {route(HttpMethod::kGet, "/admin/trace",
                [&sessions](Service&) -> Answered { return told(sessions.state()); }),
          route(HttpMethod::kPost, "/admin/trace/start",
                [&sessions](Service&) { return changed_trace(sessions.start()); }),
          route(HttpMethod::kPost, "/admin/trace/stop",
                [&sessions](Service&) { return changed_trace(sessions.stop()); })};
}

}  // namespace reprise::protocol::admin
