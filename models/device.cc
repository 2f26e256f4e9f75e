#include "models/device.h"

#include <algorithm>

#include "gpu/devices.h"
#include "models/compute_options.h"
#if REPRISE_HAS_CUDA
#include "gpu/cuda/memory/stream.h"
#endif

namespace reprise::models {
namespace {

/// Kinds of device of which a machine has one.
struct DeviceKind {
  std::string_view name;
  std::unique_ptr<Device> (*open)(const DeviceOptions& options);
};
constexpr DeviceKind kKinds[] = {{"cpu", open_cpu}, {"cpu-grid", open_cpu_grid}};

const DeviceKind* kind_named(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kKinds), std::end(kKinds), [&](const auto& kind) { return kind.name == name; });
  return found == std::end(kKinds) ? nullptr : found;
}

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
  if (kind_named(name) != nullptr) return name;
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
  if (device.starts_with("cuda:")) return cuda::open_device(std::stoi(device.substr(5)), options);
#endif
  return kind_named(device)->open(options);
}

std::shared_ptr<gpu::TransferBuffers> transfer_buffers([[maybe_unused]] const std::string& device,
                                                       [[maybe_unused]] std::uint64_t max_bytes) {
#if REPRISE_HAS_CUDA
  if (kind_named(device) != nullptr) return nullptr;
  const auto pinned = [device](std::size_t bytes) -> std::shared_ptr<std::byte> {
    try {
      const std::string here = Device::resolve(device);
      if (!here.starts_with("cuda:")) return nullptr;
      gpu::cuda::use_device(std::stoi(here.substr(5)));
      const auto block = std::make_shared<gpu::cuda::PinnedBytes>(bytes);
      return {block, block->data()};
    } catch (const std::exception&) {
      return nullptr;  // heap memory suffices
    }
  };
  return std::make_shared<gpu::TransferBuffers>(pinned, max_bytes);
#else
  return nullptr;
#endif
}

}  // namespace reprise::models
