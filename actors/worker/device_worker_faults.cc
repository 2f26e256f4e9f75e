// How work ends before its time: cancelled, out of memory, or with a step that failed.

#include <thread>

#include "actors/worker/device_worker.h"
#include "gpu/device_lost.h"

namespace reprise::actors {

using protocol::DecodeEnd;
using protocol::DecodeEvent;
using protocol::JobError;
using protocol::JobFault;
using Phase = SequenceRun::Phase;

void DeviceWorker::end_work(SequenceRun& run, const JobError& error) {
  const Phase phase = std::exchange(run.phase, Phase::kIdle);
  run.checkpoints.clear();
  if (phase == Phase::kRestore) {
    run.restore.reset();
    auto reply = std::move(run.restored);
    reply.answer(protocol::JobResult<protocol::Restored>(error));
  } else if (phase == Phase::kSnapshot) {
    auto reply = std::move(run.snapshot_taken);
    reply.answer(protocol::JobResult<protocol::SnapshotTaken>(error));
  } else if (phase == Phase::kPrefill) {
    auto reply = std::move(run.prefilled);
    reply.answer(protocol::JobResult<protocol::Prefilled>(error));
  } else if (phase == Phase::kDecode) {
    DecodeEvent event{.token = {}, .end = DecodeEnd::kFault, .error = error};
    // Without credit the reader learns of it by the end of the stream.
    if (!run.awaits_credit) static_cast<void>(run.out.try_write(event));
    run.out.fail({runtime::ErrorCode::kFailed, error.message});
  }
}

void DeviceWorker::fail_arch(LoadedArch& arch, const std::string& why, bool device_lost) {
  WorkerFigures::add(options_.figures->faults);
  arch.failed = true;
  const JobError error{JobFault::kDeviceFailed, "the device failed: " + why};
  for (auto& [number, run] : arch.sequences()) {
    end_work(run, error);
    run.state.reset();
  }
  std::vector<std::uint64_t> snapshots;
  for (const auto& [number, record] : arch.snapshots()) snapshots.push_back(number);
  for (const std::uint64_t number : snapshots) {
    arch.remove(protocol::SnapshotId{.generation = arch.generation(), .number = number});
  }
  memory_changed();
  if (options_.supervisor) {
    options_.supervisor.tell(protocol::ArchFailed{
        .arch = arch.describe().arch, .device = options_.device, .why = why, .device_lost = device_lost});
  }
}

bool DeviceWorker::survives(const std::function<void()>& work) {
  try {
    work();
    return true;
  } catch (const gpu::DeviceLost& error) {
    broken_ = Broken{error.what(), true};
  } catch (const std::exception& error) {
    broken_ = Broken{error.what(), false};
  }
  if (!step_runs_) fail_all();  // else when it has ended: its sequences are the runner's
  return false;
}

void DeviceWorker::fail_all() {
  const Broken broken = *std::exchange(broken_, std::nullopt);
  LoadedArch* const in_step = std::exchange(step_arch_, nullptr);
  options_.figures->step_began_ns.store(0, std::memory_order_relaxed);
  for (const auto& arch : archs_) {
    for (auto& [number, run] : arch->sequences()) run.in_step = false;
    if (!arch->failed) fail_arch(*arch, broken.why, broken.device_lost);
  }
  if (in_step != nullptr) {
    clear_step(*in_step);
  } else {
    kick();
  }
}

void DeviceWorker::give_up_if_stuck() {
  const auto now = std::chrono::steady_clock::now();
  if (short_since_ == std::chrono::steady_clock::time_point{}) {
    short_since_ = now;
    return;
  }
  if (now - short_since_ < options_.patience) return;
  short_since_ = {};
  // Whoever computes would have made progress; so the oldest that is short gets its answer.
  SequenceRun* oldest = nullptr;
  for (const auto& arch : archs_) {
    for (auto& [number, run] : arch->sequences()) {
      if (run.phase == Phase::kIdle || run.awaits_credit) continue;
      if (oldest == nullptr || run.order < oldest->order) oldest = &run;
    }
  }
  const JobError error{JobFault::kNoMemory, "the device's memory is taken and nothing more can be freed"};
  if (oldest != nullptr) return end_work(*oldest, error);
  if (waiting_.empty()) return;
  std::uint64_t running = 0;
  for (const auto& arch : archs_) running += arch->sequences().size();
  if (running > 0) return;  // they may pause or finish; whoever waits has its own patience
  waiting_.front().reply.answer(protocol::JobResult<protocol::Opened>(error));
  waiting_.pop_front();
}

void DeviceWorker::inject_faults(LoadedArch& arch) {
  if (!fault_) return;
  if (fault_->after_steps > 0) {
    --fault_->after_steps;
    return;
  }
  const protocol::InjectFault fault = *fault_;
  fault_.reset();
  using Kind = protocol::InjectFault::Kind;
  switch (fault.kind) {
    case Kind::kOutOfMemory:
      throw std::bad_alloc();
    case Kind::kFailedStep:
      throw std::runtime_error("a fault was injected");
    case Kind::kNanState:
      for (const auto* slices : {&work_.prefills, &work_.decodes.slices}) {
        for (const models::Slice& slice : *slices) arch.store().poison(*slice.sequence);
      }
      break;
    case Kind::kHang:
      std::this_thread::sleep_for(std::chrono::milliseconds(fault.hang_ms));
      break;
    case Kind::kDeviceLost:
      throw gpu::DeviceLost("a loss of the device was injected");
    case Kind::kDamage:
    case Kind::kWrongBits:
      break;
  }
}

}  // namespace reprise::actors
