#pragma once
// A device that models are loaded on: the CPU, or a GPU with an arena of memory allocated at once.
//
// Threading: open(), load(), memory() and the destruction of models belong to one thread, the device's owner.
// If loads_aside() is true, load() may be called on another thread, one model at a time. A model may compute
// on another thread (Model::bind_thread).

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "gpu/state/block_memory.h"
#include "gpu/state/transfer_buffers.h"
#include "models/device_options.h"
#include "models/model.h"

namespace reprise::models {

class Device {
 public:
  /// Returns the name of the device open() would open: "auto" becomes the first GPU, or "cpu" without one;
  /// "cpu", "cuda:N" and "cpu-grid" stay. Throws SettingError for an unknown name.
  static std::string resolve(const std::string& name);

  /// Throws SettingError, std::bad_alloc or gpu::cuda::CudaError.
  static std::unique_ptr<Device> open(const std::string& name, const DeviceOptions& options);

  virtual ~Device() = default;
  virtual std::string name() const = 0;
  /// Loads a model; the device must outlive it. `progress` gets the number of layers loaded; an exception
  /// from it ends the load. Throws LoadError, std::bad_alloc.
  virtual std::unique_ptr<Model> load(const std::filesystem::path& path, const ComputeOptions& options,
                                      const LoadProgress& progress) = 0;
  std::unique_ptr<Model> load(const std::filesystem::path& path, const ComputeOptions& options) {
    return load(path, options, {});
  }
  /// True if a model may be loaded on a thread other than the owner's while loaded models compute.
  virtual bool loads_aside() const { return false; }
  /// Memory that holds the state of sequences.
  virtual gpu::BlockMemory& memory() = 0;
  /// Bytes to use for the state of sequences when the user asks for `wanted`; 0: the device's default. A GPU
  /// is limited to what the weights loaded so far leave of its arena.
  virtual std::uint64_t state_bytes(std::uint64_t wanted) = 0;
  /// The maximum number of rows of a prefill step.
  virtual std::uint32_t prefill_rows() const = 0;
};

// Each kind of device is defined in the folder of its code.
std::unique_ptr<Device> open_cpu(const DeviceOptions& options);
/// "cpu-grid", for testing a GPU's rules without one: prefill slices begin on a grid of 64 tokens, and
/// decoding uses the other compute setting, whose bits differ.
std::unique_ptr<Device> open_cpu_grid(const DeviceOptions& options);
namespace cuda {
/// Only in builds with CUDA. One arena holds weights and state. Throws gpu::cuda::CudaError, std::bad_alloc.
std::unique_ptr<Device> open_device(int index, const DeviceOptions& options);
}  // namespace cuda

/// Buffers for fast copies to and from `device` (a name for Device::resolve()): pinned memory if it turns out
/// to be a GPU when the first buffer is taken. Null for devices that need none. For any thread.
std::shared_ptr<gpu::TransferBuffers> transfer_buffers(const std::string& device, std::uint64_t max_bytes);

}  // namespace reprise::models
