#include "models/cpu/cpu_device.h"

#include <algorithm>
#include <fstream>

#include "gpu/host_memory.h"

namespace reprise::models {
namespace {

std::uint64_t half_of_free_memory() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  std::uint64_t kib = 0;
  while (file >> word) {
    if (word == "MemAvailable:" && file >> kib) break;
  }
  constexpr std::uint64_t kLeast = 256ULL << 20;
  return std::max(kLeast, kib * 1024 / 2);
}

class CpuDevice : public Device {
 public:
  explicit CpuDevice(unsigned threads) : threads_(threads) {}

  std::string name() const override { return "cpu"; }
  std::unique_ptr<Model> load(const std::filesystem::path& path, const ComputeOptions& options) override {
    return Model::load(path, options, threads_);
  }
  gpu::BlockMemory& memory() override { return gpu::host_memory(); }

  /// What was asked for; else half of the memory that the system had left when it was asked first.
  std::uint64_t state_bytes(std::uint64_t wanted) override {
    if (wanted != 0) return wanted;
    if (half_of_free_ == 0) half_of_free_ = half_of_free_memory();
    return half_of_free_;
  }
  std::uint32_t prefill_rows() const override { return kPrefillRows; }

 private:
  static constexpr std::uint32_t kPrefillRows = 256;  // measured: more is slower

  gpu::Threads threads_;
  std::uint64_t half_of_free_ = 0;  // 0: not asked yet
};

}  // namespace

std::unique_ptr<Device> open_cpu(const DeviceOptions& options) {
  return std::make_unique<CpuDevice>(options.threads);
}

}  // namespace reprise::models
