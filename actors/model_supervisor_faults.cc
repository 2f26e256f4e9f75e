// What the supervisor does when something breaks: a step, a device, a registry.

#include <algorithm>
#include <stdexcept>

#include "actors/model_supervisor.h"
#include "runtime/wait.h"

namespace reprise::actors {

using protocol::ModelCard;
using protocol::ServiceError;
using protocol::ServiceErrorCode;
using runtime::Result;
using runtime::Task;

namespace {

constexpr std::chrono::minutes kWorkerDeadline{10};
constexpr std::chrono::milliseconds kWatchPeriod{50};
constexpr std::chrono::milliseconds kLastWords{500};  // for answers to reach their clients

// What a worker that is left behind, or has ended, will not publish any more.
void forget_what_is_held(WorkerFigures& figures) {
  figures.step_began_ns.store(0, std::memory_order_relaxed);
  for (auto* held : {&figures.sequences, &figures.snapshots, &figures.waiting, &figures.used_bytes}) {
    WorkerFigures::set(*held, 0);
  }
}

}  // namespace

// -- a model

void ModelSupervisor::on(protocol::ArchFailed failed) {
  if (failed.device_lost) {
    const auto device = devices_.find(failed.device);
    if (device != devices_.end()) launch(lose_device(device->second, failed.why));
    return;
  }
  for (auto& [name, managed] : models_) {
    if (managed.arch != failed.arch) continue;
    if (managed.loading) {
      managed.failed_early = true;
    } else {
      managed.loading = true;
      launch(reload(name, failed.why));
    }
  }
}

Task<void> ModelSupervisor::reload(std::string name, std::string why) {
  Managed& managed = models_.at(name);
  Error error;
  try {
    Task<Error> reloading = reload_within_limits(managed, why);
    error = co_await reloading;
  } catch (const std::exception& failure) {
    error = ServiceError{ServiceErrorCode::kUnavailable, failure.what()};
  }
  if (error) {
    end_load(managed, error);
  } else {
    Task<void> loading = load(name);
    co_await loading;
  }
}

// Clears the way for a load, if there may be one more.
Task<ModelSupervisor::Error> ModelSupervisor::reload_within_limits(Managed& managed, const std::string& why) {
  const runtime::TimePoint now = runtime::Clock::now();
  while (!managed.reloads.empty() && now - managed.reloads.front() > options_.reload_window) {
    managed.reloads.pop_front();
  }
  log_error("model '" + managed.spec.name + "' has failed: " + why);
  const bool too_often = managed.reloads.size() >= options_.most_reloads;
  if (!too_often) {
    managed.reloads.push_back(now);
    publish_state(managed, ModelCard::State::kLoading, "is being reloaded after a fault: " + why);
  }
  Task<void> dropping = drop(managed);
  co_await dropping;
  if (too_often) co_return ServiceError{ServiceErrorCode::kUnavailable, "failed too often: " + why};
  co_return std::nullopt;
}

Task<void> ModelSupervisor::give_up(std::string name, std::string why) {
  Managed& managed = models_.at(name);
  publish_state(managed, ModelCard::State::kFailed, why);
  Task<void> dropping = drop(managed);
  co_await dropping;
  auto asked_meanwhile = std::exchange(managed.waiting, {});
  end_load(managed, ServiceError{ServiceErrorCode::kUnavailable, why});
  if (asked_meanwhile.empty()) co_return;
  managed.waiting = std::move(asked_meanwhile);
  begin_load(managed, managed.spec);
}

// -- a registry

void ModelSupervisor::on(RegistryStarted started) {
  const auto found = models_.find(started.model);
  if (found == models_.end()) return;
  Managed& managed = found->second;
  if (!std::exchange(managed.registry_was_born, true)) return;  // bound when it was made
  restarts_->registries.note_restart();
  log("the prefix cache of model '" + started.model + "' has failed and was restarted empty");
  if (managed.arch) {
    managed.registry.tell(binding_of(managed));
  }
}

void ModelSupervisor::on(runtime::Down down) {
  for (auto& [name, device] : devices_) {
    if (device.worker.id() != down.who) continue;
    if (!device.lost) replace_worker(device, "the device's worker failed: " + down.why);
    return;
  }
  for (auto& [name, managed] : models_) {
    if (!managed.registry || managed.registry.id() != down.who || managed.loading) continue;
    managed.loading = true;
    launch(give_up(name, "its prefix cache failed too often: " + down.why));
  }
}

// -- a device

void ModelSupervisor::replace_worker(Device& device, const std::string& why) {
  log(device.name + ": " + why);
  requests_->tell_all({.why = why, .worker = device.worker.id()});
  restarts_->devices.note_restart();
  device.worker.stop();
  forget_what_is_held(*device.figures);
  device.steps.forget();
  spawn_worker(device);
  for (auto& [name, managed] : models_) {
    if (managed.device != &device || managed.loading || !managed.arch) continue;
    managed.loading = true;
    launch(reload(name, why));
  }
}

// A device that hangs answers nothing, so it is watched from here.
Task<void> ModelSupervisor::watch_workers() {
  for (;;) {
    auto pause = runtime::sleep_for(kWatchPeriod);
    const Result<void> rested = co_await pause;
    if (!rested.ok()) co_return;
    for (auto& [name, device] : devices_) {
      if (!device.lost) look_at(device);
    }
  }
}

void ModelSupervisor::look_at(Device& device) {
  device.steps.look(device.figures->step_began_ns.load(std::memory_order_relaxed),
                    runtime::Clock::now().time_since_epoch());
  StepPatience patience{.floor = options_.longest_step, .on_gpu = device.is_gpu()};
  for (const auto& [name, managed] : models_) {
    if (managed.device == &device) {
      patience.weight_bytes = std::max(patience.weight_bytes, managed.weight_bytes);
    }
  }
  if (!device.steps.hangs(patience)) return;
  const auto seen = std::chrono::duration_cast<std::chrono::milliseconds>(device.steps.seen());
  const std::string why =
      "the device hangs: the running step has taken " + std::to_string(seen.count()) + " ms";
  if (device.is_gpu()) {
    launch(lose_device(device, why));
  } else {
    replace_worker(device, why);
  }
}

Task<void> ModelSupervisor::lose_device(Device& device, std::string why) {
  if (std::exchange(device.lost, true)) co_return;
  log_error(device.name + ": the device is lost: " + why);
  for (auto& [name, managed] : models_) {
    if (managed.device != &device) continue;
    managed.arch = {};
    publish_state(managed, ModelCard::State::kFailed, "the device is lost: " + why);
  }
  requests_->tell_all({.why = why, .worker = device.worker.id()});
  auto pause = runtime::sleep_for(kLastWords);
  const Result<void> rested = co_await pause;
  static_cast<void>(rested);
  if (options_.device_lost) options_.device_lost(why);
}

// -- for tests

// As they are now: a device may come, or be replaced, while somebody waits for an answer.
std::vector<runtime::RefOf<DeviceWorker>> ModelSupervisor::workers(const std::string& wanted) const {
  std::vector<runtime::RefOf<DeviceWorker>> workers;
  for (const auto& [name, device] : devices_) {
    if (wanted.empty() || wanted == name) workers.push_back(device.worker);
  }
  return workers;
}

Task<protocol::Nothing> ModelSupervisor::on(protocol::InjectFault fault) {
  for (const auto& worker : workers(fault.device)) {
    auto asked = worker.ask(fault, kWorkerDeadline);
    const Result<protocol::Nothing> injected = co_await asked;
    static_cast<void>(injected);
  }
  co_return protocol::Nothing{};
}

Task<protocol::Nothing> ModelSupervisor::on(protocol::InjectCrash crash) {
  using Where = protocol::InjectCrash::Where;
  if (!options_.worker.obey_faults) co_return protocol::Nothing{};
  if (crash.where == Where::kSupervisor) throw std::runtime_error("a crash of the supervisor was injected");
  if (crash.where == Where::kDevice) {
    for (const auto& worker : workers("")) worker.stop();  // nobody asked it to: the same as an exception
  }
  std::vector<runtime::RefOf<PrefixRegistry>> registries;
  for (const auto& [name, managed] : models_) {
    if (crash.where == Where::kRegistries && managed.registry) registries.push_back(managed.registry);
  }
  for (const auto& registry : registries) {
    auto asked = registry.ask(crash, kWorkerDeadline);
    const Result<protocol::Nothing> failed = co_await asked;
    static_cast<void>(failed);
  }
  co_return protocol::Nothing{};
}

}  // namespace reprise::actors
