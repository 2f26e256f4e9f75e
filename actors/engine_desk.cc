// The engine as whoever operates it sees it (protocol/server_desk.h).

#include <algorithm>

#include "actors/engine_parts.h"

namespace reprise::actors {

using protocol::ModelCard;
using protocol::ServiceError;
using protocol::ServiceErrorCode;
using runtime::Result;
using runtime::Task;

namespace {

constexpr std::chrono::seconds kViewTime{10};
constexpr std::chrono::minutes kDeskTime{30};  // for a model to come or go

std::uint64_t now_of(const std::atomic<std::uint64_t>& figure) {
  return figure.load(std::memory_order_relaxed);
}

protocol::CacheCounts counts_of(const RegistryFigures& figures) {
  protocol::CacheCounts out{.bytes = now_of(figures.adopted_bytes),
                            .budget_bytes = now_of(figures.budget_bytes),
                            .entries = now_of(figures.entries),
                            .path_tokens = now_of(figures.path_tokens),
                            .computing = now_of(figures.flights),
                            .lookups = now_of(figures.lookups),
                            .prompt_tokens = now_of(figures.prompt_tokens),
                            .restored_tokens = now_of(figures.restored_tokens),
                            .evicted = now_of(figures.evicted),
                            .expired = now_of(figures.expired),
                            .superseded = now_of(figures.superseded)};
  std::ranges::transform(figures.by_reason, out.by_reason.begin(), now_of);
  std::ranges::transform(figures.lost_tokens, out.lost_tokens.begin(), now_of);
  std::ranges::transform(figures.hits_by_origin, out.hits.begin(), now_of);
  std::ranges::transform(figures.inserts_by_origin, out.inserts.begin(), now_of);
  return out;
}

ServiceError no_such_model(const std::string& name, const EngineOptions& options) {
  std::string known;
  for (const ModelSpec& spec : options.models) known += (known.empty() ? "'" : ", '") + spec.name + "'";
  return {ServiceErrorCode::kUnknownModel,
          "the configuration has no model '" + name + "'" + (known.empty() ? "" : "; configured: " + known),
          "model"};
}

}  // namespace

Task<protocol::ServerCache> Engine::view_cache(protocol::CacheScope scope, std::uint32_t most_nodes) {
  protocol::ServerCache out;
  const std::vector<ModelDirectory::Entry> entries = parts_->directory->all();
  for (const ModelDirectory::Entry& entry : entries) {
    protocol::ModelCache model{.model = entry.card.id, .state = std::string(name_of(entry.card.state))};
    if (entry.model && entry.model->registry) {
      auto asked =
          entry.model->registry.ask(protocol::ViewCache{.scope = scope, .most_nodes = most_nodes}, kViewTime);
      Result<protocol::CacheView> view = co_await asked;
      model.cached = view.ok();
      if (view.ok()) model.view = std::move(*view);
      if (scope.all) model.counts = counts_of(*entry.model->registry_figures);
      for (const protocol::ViewedSpace& space : model.view.spaces) {
        most_nodes -= std::min(most_nodes, static_cast<std::uint32_t>(space.nodes.size()));
      }
    }
    out.models.push_back(std::move(model));
  }
  for (const ModelSpec& spec : parts_->options.models) {
    const auto is_it = [&](const protocol::ModelCache& model) { return model.model == spec.name; };
    if (std::ranges::none_of(out.models, is_it)) {
      out.models.push_back({.model = spec.name, .state = "unloaded"});
    }
  }
  if (scope.all) {
    for (const Parts::LowerTier& lower : parts_->tiers) {
      out.tiers.push_back({.tier = lower.tier,
                           .off = now_of(lower.figures->off) != 0,
                           .bytes = now_of(lower.figures->bytes),
                           .budget_bytes = now_of(lower.figures->budget_bytes),
                           .stored = now_of(lower.figures->stored),
                           .loaded = now_of(lower.figures->loaded),
                           .evicted = now_of(lower.figures->evicted)});
    }
  }
  co_return out;
}

Task<protocol::Answer<std::uint64_t>> Engine::drop_cache(std::string model) {
  const auto entry = parts_->directory->find(model);
  if (!entry || !entry->model) {
    co_return ServiceError{ServiceErrorCode::kUnknownModel, "there is no model '" + model + "'", "model"};
  }
  if (!entry->model->registry) co_return std::uint64_t{0};
  const std::uint64_t before = now_of(entry->model->registry_figures->entries);
  auto asked = entry->model->registry.ask(protocol::DropNamespaces{}, kViewTime);
  const Result<protocol::Nothing> dropped = co_await asked;
  if (!dropped.ok()) {
    co_return ServiceError{ServiceErrorCode::kUnavailable, dropped.error().describe()};
  }
  const std::uint64_t after = now_of(entry->model->registry_figures->entries);
  co_return before - std::min(before, after);
}

Task<protocol::Answer<ModelCard>> Engine::load_model(std::string name) {
  const auto spec = std::ranges::find(parts_->options.models, name, &ModelSpec::name);
  if (spec == parts_->options.models.end()) co_return no_such_model(name, parts_->options);
  auto asked = ask_load(*spec, kDeskTime);
  const Result<Loaded> loaded = co_await asked;
  if (!loaded.ok()) co_return ServiceError{ServiceErrorCode::kUnavailable, loaded.error().describe()};
  if (!loaded->ok()) co_return loaded->error();
  co_return **loaded;
}

Task<protocol::Answer<std::string>> Engine::unload_model(std::string name) {
  const auto entry = parts_->directory->find(name);
  if (name.empty() || !entry) {
    const auto spec = std::ranges::find(parts_->options.models, name, &ModelSpec::name);
    if (spec == parts_->options.models.end()) co_return no_such_model(name, parts_->options);
    co_return name;  // it is not there, which is what was wanted
  }
  auto asked = parts_->supervisor.ask(UnloadModel{name}, kDeskTime);
  const Result<bool> unloaded = co_await asked;
  if (!unloaded.ok()) co_return ServiceError{ServiceErrorCode::kUnavailable, unloaded.error().describe()};
  if (!*unloaded) {
    co_return ServiceError{ServiceErrorCode::kUnavailable, "model '" + name + "' is being loaded", "model"};
  }
  co_return name;
}

}  // namespace reprise::actors
