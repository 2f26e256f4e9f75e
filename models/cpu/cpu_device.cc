#include "models/cpu/cpu_device.h"

#include <algorithm>
#include <atomic>

#include "base/machine_memory.h"
#include "gpu/block_memory.h"
#include "models/memory_plan.h"

namespace reprise::models {
namespace {

/// The system counts pages of weights that are used in place as memory that may be had.
std::uint64_t half_of_free_memory(std::uint64_t in_place) {
  constexpr std::uint64_t kLeast = 256ULL << 20;
  const std::uint64_t available = available_memory();
  return std::max(kLeast, (available - std::min(available, in_place)) / 2);
}

class CpuDevice : public Device {
 public:
  explicit CpuDevice(unsigned threads) : threads_(threads) {}

  std::string name() const override { return "cpu"; }
  std::unique_ptr<Model> load(const std::filesystem::path& path, const ComputeOptions& options,
                              const LoadProgress& progress) override {
    gpu::Threads packers(threads_.count());  // not its own: a model's step may be using them
    std::unique_ptr<Model> model = load_on_cpu(path, options, threads_, &packers, progress);
    in_place_.fetch_add(plan_memory(model->checkpoint(), options).in_place, std::memory_order_relaxed);
    return model;
  }
  bool loads_aside() const override { return true; }
  gpu::BlockMemory& memory() override { return gpu::host_memory(); }

  /// What was asked for; else half of the memory that the system had left when it was asked first.
  std::uint64_t state_bytes(std::uint64_t wanted) override {
    if (wanted != 0) return wanted;
    if (half_of_free_ == 0) half_of_free_ = half_of_free_memory(in_place_.load(std::memory_order_relaxed));
    return half_of_free_;
  }
  std::uint32_t prefill_rows() const override { return kPrefillRows; }

 private:
  static constexpr std::uint32_t kPrefillRows = 256;  // measured: more is slower

  gpu::Threads threads_;
  std::uint64_t half_of_free_ = 0;  // 0: not asked yet
  /// Bytes of files that loaded models compute with. relaxed: a figure, complete for models whose loading the asker
  /// knows to be over.
  std::atomic<std::uint64_t> in_place_{0};
};

}  // namespace

std::unique_ptr<Device> open_cpu(const DeviceOptions& options) {
  return std::make_unique<CpuDevice>(options.threads);
}

}  // namespace reprise::models
