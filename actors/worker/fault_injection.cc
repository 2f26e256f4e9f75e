#include "actors/worker/fault_injection.h"

#include <new>
#include <stdexcept>
#include <thread>

#include "gpu/devices.h"

namespace reprise::actors {

void FaultInjection::inject(const protocol::InjectFault& fault, DeviceState& state) {
  using Kind = protocol::InjectFault::Kind;
  if (fault.kind != Kind::kDamage && fault.kind != Kind::kWrongBits) {
    fault_ = fault;
    return;
  }
  for (StateTable* table : state.tables()) {
    for (auto& [number, record] : table->snapshots()) {
      if (fault.kind == Kind::kDamage) table->store().damage(record.state);
      if (fault.kind == Kind::kWrongBits) table->store().damage_unseen(record.state);
    }
  }
}

void FaultInjection::before_step(const StepWork& work, gpu::StateStore& store) {
  using Kind = protocol::InjectFault::Kind;
  if (!fault_) return;
  if (fault_->after_steps > 0) {
    --fault_->after_steps;
    return;
  }
  const protocol::InjectFault fault = *fault_;
  fault_.reset();
  switch (fault.kind) {
    case Kind::kOutOfMemory:
      throw std::bad_alloc();
    case Kind::kFailedStep:
      throw std::runtime_error("a fault was injected");
    case Kind::kNanState:
      for (const auto* slices : {&work.prefills, &work.decodes.slices}) {
        for (const models::Slice& slice : *slices) store.poison(*slice.sequence);
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
