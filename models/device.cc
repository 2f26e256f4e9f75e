#include "models/device.h"

#include <algorithm>
#include <fstream>

#include "gpu/devices.h"
#include "gpu/host_memory.h"
#include "models/compute_options.h"
#if REPRISE_HAS_CUDA
#include "models/cuda/device.h"
#endif

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

std::string gpus_here([[maybe_unused]] std::size_t count) {
#if REPRISE_HAS_CUDA
  if (count == 0) return "there is no GPU here";
  return "there " + std::string(count == 1 ? "is 1 GPU" : "are " + std::to_string(count) + " GPUs") + " here";
#else
  return "this build has no CUDA";
#endif
}

}  // namespace

std::string Device::resolve(const std::string& name) {
  if (name == "cpu") return name;
  const std::vector<gpu::DeviceInfo> gpus = gpu::list_devices();
  const auto name_of = [](const gpu::DeviceInfo& gpu) { return "cuda:" + std::to_string(gpu.index); };
  if (name == "auto") return gpus.empty() ? "cpu" : name_of(gpus.front());
  if (std::any_of(gpus.begin(), gpus.end(), [&](const auto& gpu) { return name_of(gpu) == name; }))
    return name;
  if (name.starts_with("cuda:")) {
    throw SettingError("device: '" + name + "' cannot be used: " + gpus_here(gpus.size()));
  }
  throw SettingError("device: '" + name + "' is not one of cpu, cuda:N, auto");
}

std::unique_ptr<Device> Device::open(const std::string& name, const DeviceOptions& options) {
  const std::string device = resolve(name);
#if REPRISE_HAS_CUDA
  if (device != "cpu") return cuda::open_device(std::stoi(device.substr(device.find(':') + 1)), options);
#endif
  return std::make_unique<CpuDevice>(options.threads);
}

}  // namespace reprise::models
