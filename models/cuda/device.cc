// A GPU as a device: one arena for weights and state.

#include <algorithm>

#include "gpu/cuda/memory/device_memory.h"
#include "gpu/cuda/memory/stream.h"
#include "gpu/devices.h"
#include "models/cuda/model.h"
#include "models/device.h"
#include "models/gpu_plan.h"

namespace reprise::models::cuda {
namespace {

std::uint64_t arena_bytes(int index, const DeviceOptions& options) {
  if (options.arena_bytes != 0) return options.arena_bytes;
  for (const gpu::DeviceInfo& info : gpu::list_devices()) {
    if (info.index != index) continue;
    const bool limited = options.memory_bytes != 0 && options.memory_bytes < info.free_bytes;
    return gpu_arena_bytes(limited ? options.memory_bytes : info.free_bytes);
  }
  return 0;
}

class CudaDevice : public Device {
 public:
  CudaDevice(int index, const DeviceOptions& options)
      : index_(index),
        options_(options),
        bound_(index),
        arena_(arena_bytes(index, options)),
        memory_(arena_) {}

  std::string name() const override { return "cuda:" + std::to_string(index_); }
  std::unique_ptr<Model> load(const std::filesystem::path& path, const ComputeOptions& options,
                              const LoadProgress& /*progress*/) override {
    return CudaModel::load(path, options, arena_,
                           {.device = index_,
                            .max_rows = static_cast<int>(options_.max_rows),
                            .memory = &memory_,
                            .cpu_experts = options_.cpu_experts,
                            .threads = options_.threads});
  }
  gpu::BlockMemory& memory() override { return memory_; }
  std::uint64_t state_bytes(std::uint64_t wanted) override {
    const std::uint64_t weights = arena_.used() - memory_.used();
    const std::uint64_t usable = gpu_state_bytes(arena_.size(), weights);
    return wanted == 0 ? usable : std::min(wanted, usable);
  }
  std::uint32_t prefill_rows() const override { return options_.max_rows; }

 private:
  // Binds the thread to the device before other members allocate on it.
  struct Bound {
    explicit Bound(int index) { gc::use_device(index); }
  };

  const int index_;
  const DeviceOptions options_;
  Bound bound_;
  gc::Arena arena_;
  gc::DeviceMemory memory_;
};

}  // namespace

std::unique_ptr<Device> open_device(int index, const DeviceOptions& options) {
  return std::make_unique<CudaDevice>(index, options);
}

}  // namespace reprise::models::cuda
