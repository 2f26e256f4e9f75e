#include "models/device.h"

#include <algorithm>
#include <charconv>
#include <fstream>

#include "gpu/devices.h"
#include "gpu/host_memory.h"
#include "models/compute_options.h"
#if REPRISE_HAS_CUDA
#include "models/cuda/device.h"
#endif

namespace reprise::models {
namespace {

class CpuDevice : public Device {
 public:
  explicit CpuDevice(unsigned threads) : threads_(threads) {}

  std::string name() const override { return "cpu"; }
  std::unique_ptr<Model> load(const std::filesystem::path& path, const ComputeOptions& options) override {
    return Model::load(path, options, threads_);
  }
  gpu::BlockMemory& memory() override { return gpu::host_memory(); }

  /// Half of the memory that the system has left.
  std::uint64_t state_room() const override {
    std::ifstream file("/proc/meminfo");
    std::string word;
    std::uint64_t kib = 0;
    while (file >> word) {
      if (word == "MemAvailable:" && file >> kib) break;
    }
    constexpr std::uint64_t kLeast = 256ULL << 20;
    return std::max(kLeast, kib * 1024 / 2);
  }
  std::uint32_t prefill_rows() const override { return kPrefillRows; }

 private:
  static constexpr std::uint32_t kPrefillRows = 256;  // measured: more is slower

  gpu::Threads threads_;
};

std::string gpus_here() {
#if REPRISE_HAS_CUDA
  const std::size_t count = gpu::list_devices().size();
  if (count == 0) return "there is no GPU here";
  return "there " + std::string(count == 1 ? "is 1 GPU" : "are " + std::to_string(count) + " GPUs") + " here";
#else
  return "this build has no CUDA";
#endif
}

}  // namespace

std::unique_ptr<Device> Device::open(const std::string& name, const DeviceOptions& options) {
  if (name == "cpu") return std::make_unique<CpuDevice>(options.threads);
#if REPRISE_HAS_CUDA
  if (name == "auto" && !gpu::list_devices().empty())
    return cuda::open_device(gpu::list_devices().front().index, options);
#endif
  if (name == "auto") return std::make_unique<CpuDevice>(options.threads);
  constexpr std::string_view kPrefix = "cuda:";
  int index = 0;
  const char* const end = name.data() + name.size();
  const bool numbered = name.starts_with(kPrefix) &&
                        std::from_chars(name.data() + kPrefix.size(), end, index).ptr == end &&
                        end != name.data() + kPrefix.size();
  if (!numbered) throw SettingError("device: '" + name + "' is not one of cpu, cuda:N, auto");
#if REPRISE_HAS_CUDA
  const auto gpus = gpu::list_devices();
  if (std::any_of(gpus.begin(), gpus.end(), [&](const auto& one) { return one.index == index; })) {
    return cuda::open_device(index, options);
  }
#endif
  throw SettingError("device: '" + name + "' cannot be used: " + gpus_here());
}

}  // namespace reprise::models
