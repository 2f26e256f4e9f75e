#pragma once
// Injects faults for tests: Faults breaks steps and snapshots of device workers, crash() makes actors throw.
//
// Threading: any thread that runs no actor; the faults take effect on the actors' threads.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <future>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "actors/device/device_state.h"
#include "actors/device/step_runner.h"
#include "actors/device/testing.h"
#include "actors/request/text_pool.h"
#include "gpu/devices.h"
#include "runtime/message.h"
#include "runtime/system.h"
#include "tools/reliability/state_faults.h"

namespace reprise::actors {

struct Fault {
  enum class Kind : std::uint8_t {
    kOutOfMemory,
    kFailedStep,
    kNanState,
    kHang,
    kDamage,     // damages all snapshots; their checksums show it
    kWrongBits,  // damages all snapshots unnoticed by checksums
    kDeviceLost,
  };
  Kind kind = Kind::kFailedStep;
  std::uint32_t after_steps = 0;
  std::uint32_t hang_ms = 0;
  std::string device{};  // only in steps of this device; empty: any
};

class Faults : public TestFaults {
 public:
  /// Arms a fault. Snapshot faults happen before the next request is admitted, all others in a later step.
  void inject(const Fault& fault) {
    const std::lock_guard lock(mutex_);
    (is_of_snapshots(fault) ? of_snapshots_ : of_step_) = fault;
  }

  void before_round(DeviceState& state) override {
    const std::optional<Fault> fault = take(of_snapshots_, [](Fault&) { return true; });
    if (!fault) return;
    for (StateTable* table : state.tables()) {
      for (auto& [number, record] : table->snapshots()) {
        if (fault->kind == Fault::Kind::kDamage) gpu::damage(table->store(), record.state);
        if (fault->kind == Fault::Kind::kWrongBits) gpu::damage_unseen(table->store(), record.state);
      }
    }
  }

  void before_step(const std::string& device, const StepWork& work, gpu::StateStore& store) override {
    const std::optional<Fault> fault = take(of_step_, [&](Fault& one) {
      if (!one.device.empty() && one.device != device) return false;
      if (one.after_steps == 0) return true;
      --one.after_steps;
      return false;
    });
    if (!fault) return;
    switch (fault->kind) {
      case Fault::Kind::kOutOfMemory:
        throw std::bad_alloc();
      case Fault::Kind::kFailedStep:
        throw std::runtime_error("a fault was injected");
      case Fault::Kind::kNanState:
        for (const auto* slices : {&work.prefills, &work.decodes.slices}) {
          for (const models::Slice& slice : *slices) gpu::poison(store, *slice.sequence);
        }
        break;
      case Fault::Kind::kHang:
        std::this_thread::sleep_for(std::chrono::milliseconds(fault->hang_ms));
        break;
      case Fault::Kind::kDeviceLost:
        throw gpu::DeviceLost("a loss of the device was injected");
      case Fault::Kind::kDamage:
      case Fault::Kind::kWrongBits:
        break;
    }
  }

 private:
  static bool is_of_snapshots(const Fault& fault) {
    return fault.kind == Fault::Kind::kDamage || fault.kind == Fault::Kind::kWrongBits;
  }
  template <class IsDue>
  std::optional<Fault> take(std::optional<Fault>& from, const IsDue& is_due) {
    const std::lock_guard lock(mutex_);
    if (!from || !is_due(*from)) return std::nullopt;
    return std::exchange(from, std::nullopt);
  }

  std::mutex mutex_;
  std::optional<Fault> of_step_;       // guarded by mutex_
  std::optional<Fault> of_snapshots_;  // guarded by mutex_
};

/// A message whose handling throws.
struct CrashMessage : runtime::Node {
  CrashMessage() : Node(&kOps) {}
  ~CrashMessage() { done.set_value(); }

  static void run_node(runtime::Node* node, runtime::Cell& cell) {
    const std::unique_ptr<CrashMessage> message(static_cast<CrashMessage*>(node));
    cell.fail(std::make_exception_ptr(std::runtime_error("a crash was injected")));
  }
  static void bounce_node(runtime::Node* node, runtime::ErrorCode) {
    delete static_cast<CrashMessage*>(node);
  }
  static constexpr runtime::NodeOps kOps{runtime::NodeKind::kMessage, runtime::kShortTypeName<CrashMessage>,
                                         nullptr, run_node, bounce_node};

  std::promise<void> done;
};

/// Makes a turn of the actor throw; returns when it has, or the actor has stopped.
inline void crash(runtime::Cell& actor) {
  if (actor.mailbox().admit(/*can_wait=*/false) != runtime::Admission::kAdmitted) return;
  auto* message = new CrashMessage();
  const std::future<void> done = message->done.get_future();
  actor.post(message);
  done.wait_for(std::chrono::seconds(60));
}

/// Crashes up to `most` actors of this class, the oldest first.
template <class A>
void crash_all(const runtime::System& system, std::size_t most = SIZE_MAX) {
  std::vector<runtime::CellPtr> cells;
  for (const runtime::ExecutorPtr& executor : system.core()->executors()) {
    executor->for_each_resident([&](runtime::Cell& cell) {
      if (std::strcmp(cell.type().name, A::kName) == 0) cells.emplace_back(&cell);
    });
  }
  std::sort(cells.begin(), cells.end(),
            [](const runtime::CellPtr& a, const runtime::CellPtr& b) { return a->id() < b->id(); });
  cells.resize(std::min(cells.size(), most));
  for (const runtime::CellPtr& cell : cells) crash(*cell);
}

/// Crashes the text actors of an engine. The mask makers, which are created later, are spared.
inline void crash_texts(const runtime::System& system) {
  crash_all<TextActor>(system, TextPool::size_for(system.workers()));
}

}  // namespace reprise::actors
