#pragma once
// A model on a device: its weights and step runner, and the table of its sequences and snapshots. All ids of it
// carry its generation.
//
// Threading: the device worker's thread.

#include <cstdint>
#include <functional>
#include <memory>

#include "actors/worker/state_table.h"
#include "actors/worker/step_runner.h"
#include "models/fingerprint.h"
#include "protocol/job.h"

namespace reprise::actors {

class LoadedArch : public StateTable {
 public:
  /// `memory`: where its state lives; none: on the host.
  LoadedArch(std::uint32_t generation, std::unique_ptr<StepRunner> runner,
             const models::Fingerprint& fingerprint, gpu::ByteBudget& budget, gpu::BlockMemory* memory);

  /// But for the device.
  protocol::ArchLoaded describe() const;
  const models::Fingerprint& fingerprint() const { return fingerprint_; }

  StepRunner& runner() { return *runner_; }
  const models::Model& model() const { return runner_->model(); }

  // Whom to ask for bytes, and to tell of checkpoints.
  runtime::Ref<protocol::Reclaim, protocol::CheckpointTaken> registry;
  std::function<std::int64_t()> oldest_use;

 private:
  gpu::ByteBudget& budget_;
  const models::Fingerprint fingerprint_;
  std::unique_ptr<StepRunner> runner_;  // goes before the table: it may be computing
};

}  // namespace reprise::actors
