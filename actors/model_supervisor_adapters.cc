// Adapters of the models: with a model that is loaded, and by themselves while it is served.

#include <algorithm>
#include <filesystem>

#include "actors/model_supervisor.h"
#include "actors/served/without_folders.h"

namespace reprise::actors {

using protocol::AdapterCard;
using protocol::ServiceError;
using protocol::ServiceErrorCode;
using runtime::Result;
using runtime::Task;

namespace {

constexpr std::chrono::minutes kAdapterDeadline{10};

AdapterCard card_of(const std::string& model, const ServedAdapter& adapter) {
  return {.model = model,
          .name = adapter.name,
          .matrices = adapter.loaded.matrices,
          .rank = adapter.loaded.rank,
          .bytes = adapter.loaded.bytes,
          .fingerprint = adapter.loaded.fingerprint};
}

ServiceErrorCode code_of(protocol::JobFault fault) {
  switch (fault) {
    case protocol::JobFault::kBadJob:
      return ServiceErrorCode::kInvalid;
    case protocol::JobFault::kNoMemory:
      return ServiceErrorCode::kOverloaded;
    default:
      return ServiceErrorCode::kUnavailable;
  }
}

template <class List>
auto named(List& list, const std::string& name) {
  return std::find_if(list.begin(), list.end(), [&](const auto& one) { return one.name == name; });
}

}  // namespace

bool is_adapter_name(const std::string& name) {
  constexpr std::size_t kLongest = 256;
  return !name.empty() && name.size() <= kLongest && std::none_of(name.begin(), name.end(), [](char c) {
    return c == ':' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
}

// What cannot be loaded is listed with its reason: the model serves all the same.
Task<ServedAdapter> ModelSupervisor::bring_adapter(runtime::RefOf<DeviceWorker> worker, protocol::ArchId arch,
                                                   AdapterSpec spec) {
  ServedAdapter adapter{.name = spec.name};
  auto asked = worker.ask(protocol::LoadAdapter{.arch = arch, .path = spec.path}, kAdapterDeadline);
  const protocol::JobResult<protocol::AdapterLoaded> loaded = protocol::answer_of(co_await asked);
  if (loaded.ok()) {
    adapter.loaded = *loaded;
  } else {
    adapter.error = without_folders(loaded.error().message, spec.path);
    log_error("adapter '" + spec.name + "' cannot be used: " + loaded.error().message);
    adapter.fault = loaded.error().fault;
  }
  co_return adapter;
}

Task<std::vector<ServedAdapter>> ModelSupervisor::bring_adapters(const Managed& managed) {
  std::vector<ServedAdapter> adapters;
  const std::vector<AdapterSpec> specs = managed.spec.adapters;
  for (const AdapterSpec& spec : specs) {
    Task<ServedAdapter> bringing = bring_adapter(managed.device->worker, managed.arch, spec);
    ServedAdapter adapter = co_await bringing;
    if (adapter.ready()) {
      log("adapter '" + spec.name + "' of model '" + managed.spec.name + "' is loaded: rank " +
          std::to_string(adapter.loaded.rank) + ", " + std::to_string(adapter.loaded.bytes >> 10) + " KiB");
    }
    adapters.push_back(std::move(adapter));
  }
  co_return adapters;
}

Task<LoadModelAdapter::Reply> ModelSupervisor::on(LoadModelAdapter load) {
  const auto refuse = [](ServiceErrorCode code, std::string why) {
    return LoadModelAdapter::Reply(ServiceError{code, std::move(why), "name"});
  };
  if (!load.refused.empty()) {
    co_return LoadModelAdapter::Reply(ServiceError{ServiceErrorCode::kInvalid, load.refused, "path"});
  }
  const std::string model = load.model;
  std::optional<ModelDirectory::Entry> entry = directory_->find(model);
  if (!entry) co_return refuse(ServiceErrorCode::kUnknownModel, "there is no model '" + model + "'");
  const auto found = models_.find(entry->card.id);
  if (found == models_.end() || found->second.loading || !entry->model) {
    co_return refuse(ServiceErrorCode::kUnavailable, "model '" + entry->card.id + "' is not ready");
  }
  Managed& managed = found->second;
  AdapterSpec spec = load.spec;
  if (!is_adapter_name(spec.name)) {
    co_return refuse(
        ServiceErrorCode::kInvalid,
        "name: an adapter's name must have 1 to 256 characters, without colons and control characters");
  }
  const auto known = named(managed.configured, spec.name);
  if (spec.path.empty()) {
    if (known == managed.configured.end()) {
      co_return refuse(ServiceErrorCode::kUnknownModel, "the configuration of model '" + managed.spec.name +
                                                            "' has no adapter '" + spec.name + "'");
    }
    spec.path = known->path;
  }
  if (const auto there = named(managed.spec.adapters, spec.name); there != managed.spec.adapters.end()) {
    const auto served = named(entry->adapters, spec.name);
    if (there->path != spec.path) {
      co_return refuse(ServiceErrorCode::kInvalid,
                       "adapter '" + spec.name + "' is already loaded from another path; unload it first");
    }
    if (served != entry->adapters.end() && served->ready()) {
      co_return LoadModelAdapter::Reply(card_of(managed.spec.name, *served));
    }
  }
  if (!managed.adapters_changing.insert(spec.name).second) {
    co_return refuse(ServiceErrorCode::kUnavailable,
                     "adapter '" + spec.name + "' is being loaded or unloaded; try again later");
  }
  const std::string name = managed.spec.name;
  const protocol::ArchId arch = managed.arch;
  Task<ServedAdapter> bringing = bring_adapter(managed.device->worker, arch, spec);
  const ServedAdapter adapter = co_await bringing;
  // The model may have been unloaded meanwhile, or loaded anew without this one.
  const auto now = models_.find(name);
  if (now == models_.end()) co_return refuse(ServiceErrorCode::kUnavailable, "the model was unloaded");
  now->second.adapters_changing.erase(spec.name);
  if (!adapter.ready()) co_return refuse(code_of(adapter.fault), adapter.error);
  if (now->second.arch != arch)
    co_return refuse(ServiceErrorCode::kUnavailable, "the model was reloaded meanwhile; try again");
  std::vector<AdapterSpec>& specs = now->second.spec.adapters;
  std::erase_if(specs, [&](const AdapterSpec& one) { return one.name == spec.name; });
  specs.push_back(spec);
  directory_->change(name, [&](ModelDirectory::Entry& one) {
    std::erase_if(one.adapters, [&](const ServedAdapter& other) { return other.name == spec.name; });
    one.adapters.push_back(adapter);
    one.spec = now->second.spec;
  });
  log("adapter '" + spec.name + "' of model '" + name + "' is loaded");
  co_return LoadModelAdapter::Reply(card_of(name, adapter));
}

// Nobody finds it from here on; then its requests are told, and what it held goes.
Task<UnloadModelAdapter::Reply> ModelSupervisor::on(UnloadModelAdapter unload) {
  const auto refuse = [](ServiceErrorCode code, std::string why) {
    return UnloadModelAdapter::Reply(ServiceError{code, std::move(why), "name"});
  };
  const std::optional<ModelDirectory::Entry> entry = directory_->find(unload.model);
  if (!entry) co_return refuse(ServiceErrorCode::kUnknownModel, "there is no model '" + unload.model + "'");
  const auto found = models_.find(entry->card.id);
  const auto served = named(entry->adapters, unload.name);
  if (found == models_.end() || served == entry->adapters.end()) {
    co_return refuse(ServiceErrorCode::kUnknownModel,
                     "model '" + entry->card.id + "' has no adapter '" + unload.name + "'");
  }
  Managed& managed = found->second;
  if (managed.loading || !managed.adapters_changing.insert(unload.name).second) {
    co_return refuse(ServiceErrorCode::kUnavailable,
                     "adapter '" + unload.name + "' is being loaded or unloaded; try again later");
  }
  const ServedAdapter& adapter = *served;
  const std::string name = managed.spec.name;
  std::erase_if(managed.spec.adapters, [&](const AdapterSpec& one) { return one.name == unload.name; });
  directory_->change(name, [&](ModelDirectory::Entry& one) {
    std::erase_if(one.adapters, [&](const ServedAdapter& other) { return other.name == unload.name; });
    one.spec = managed.spec;
  });
  const runtime::RefOf<PrefixRegistry> registry = managed.registry;
  if (adapter.ready()) {
    requests_->tell_all({.why = "adapter '" + unload.name + "' of model '" + name + "' was unloaded",
                         .worker = managed.device->worker.id(),
                         .adapter = adapter.loaded.adapter});
    auto dropping = managed.device->worker.ask(protocol::DropAdapter{.adapter = adapter.loaded.adapter},
                                               kAdapterDeadline);
    const Result<protocol::AdapterDropped> dropped = co_await dropping;
    static_cast<void>(dropped);  // a device that does not answer has nothing any more
    if (registry) {
      auto forgetting =
          registry.ask(protocol::DropNamespaces{.prefix = adapter.name_space()}, kAdapterDeadline);
      const Result<protocol::Nothing> forgotten = co_await forgetting;
      static_cast<void>(forgotten);  // one that begins anew has forgotten already
    }
  }
  if (const auto now = models_.find(name); now != models_.end())
    now->second.adapters_changing.erase(unload.name);
  log("adapter '" + unload.name + "' of model '" + name + "' is unloaded");
  co_return UnloadModelAdapter::Reply(card_of(name, adapter));
}

}  // namespace reprise::actors
