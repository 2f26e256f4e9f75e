#pragma once
// A device that models are brought onto: the CPU, or a GPU with an arena of memory that is taken at once.
//
// Threading: open, load and the models' ends belong to one thread, the device's owner; but where loads_aside() says
// so, load() may be called on another, one model at a time. memory() is for the owner's thread. A model may be
// computed on another (Model::bind_thread).

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "gpu/block_memory.h"
#include "gpu/transfer_buffers.h"
#include "models/device_options.h"
#include "models/model.h"

namespace reprise::models {

class Device {
 public:
  /// What open() would open: "cpu", "cuda:N" and "cpu-grid" as they are, "auto" as
  /// the first GPU if there is one, else the CPU. Throws SettingError for a name that means nothing here.
  static std::string resolve(const std::string& name);

  /// Throws SettingError as resolve() does, std::bad_alloc, gpu::cuda::CudaError.
  static std::unique_ptr<Device> open(const std::string& name, const DeviceOptions& options);

  virtual ~Device() = default;
  /// As resolve() says it.
  virtual std::string name() const = 0;
  /// The device must outlive the model. `progress` is told how many of the layers are in order; what it throws ends
  /// the load. Throws LoadError, std::bad_alloc.
  virtual std::unique_ptr<Model> load(const std::filesystem::path& path, const ComputeOptions& options,
                                      const LoadProgress& progress) = 0;
  std::unique_ptr<Model> load(const std::filesystem::path& path, const ComputeOptions& options) {
    return load(path, options, {});
  }
  /// Whether a model may be loaded on another thread than the owner's, while models that are loaded compute.
  virtual bool loads_aside() const { return false; }
  /// Where the state of its models' sequences lives.
  virtual gpu::BlockMemory& memory() = 0;
  /// Bytes for the state of its models' sequences, where `wanted` were asked for; 0: as many as suit it. A
  /// GPU has no more than its arena beside the weights that are loaded now.
  virtual std::uint64_t state_bytes(std::uint64_t wanted) = 0;
  /// The most rows that a prefill step should have.
  virtual std::uint32_t prefill_rows() const = 0;
};

// The kinds of devices that Device::open() opens, each in the folder of its code.
std::unique_ptr<Device> open_cpu(const DeviceOptions& options);
/// "cpu-grid": prefill slices begin on a grid of 64 tokens, and decoding is computed by other code with other
/// bits: the other compute setting. So what holds on a GPU is tested where there is none.
std::unique_ptr<Device> open_cpu_grid(const DeviceOptions& options);
namespace cuda {
/// In builds with CUDA alone. One arena for weights and state. Throws gpu::cuda::CudaError, std::bad_alloc.
std::unique_ptr<Device> open_device(int index, const DeviceOptions& options);
}  // namespace cuda

/// Memory of the host that copies to and from a device are fast with: pinned, where `device` (as Device::resolve() takes it)
/// turns out to be a GPU when the first is taken. Null where it cannot be one: any memory will do. For any thread.
std::shared_ptr<gpu::TransferBuffers> transfer_buffers(const std::string& device, std::uint64_t most_bytes);

}  // namespace reprise::models
