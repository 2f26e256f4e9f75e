// gpu/devices.h on the CUDA runtime.

#include <cuda_runtime_api.h>

#include <cstddef>

#include "gpu/devices.h"

namespace reprise::gpu {
namespace {

bool succeeded(cudaError_t status) {
  if (status == cudaSuccess) return true;
  cudaGetLastError();  // else the runtime reports the error to the next caller
  return false;
}

// The runtime reports free memory only of the current device, so the caller's device is restored. A GPU can
// be too full to be queried; then its free memory is 0.
bool query_memory(int index, std::size_t& free_bytes) {
  int callers_device = 0;
  if (!succeeded(cudaGetDevice(&callers_device))) return false;
  std::size_t total_bytes = 0;
  cudaError_t status = cudaSetDevice(index);
  if (status == cudaSuccess) status = cudaMemGetInfo(&free_bytes, &total_bytes);
  if (status == cudaErrorMemoryAllocation) free_bytes = 0;
  const bool answered = succeeded(status) || status == cudaErrorMemoryAllocation;
  succeeded(cudaSetDevice(callers_device));
  return answered;
}

}  // namespace

std::vector<DeviceInfo> list_devices() {
  int count = 0;
  if (!succeeded(cudaGetDeviceCount(&count))) return {};

  int driver = 0;
  int runtime = 0;
  if (!succeeded(cudaDriverGetVersion(&driver)) || !succeeded(cudaRuntimeGetVersion(&runtime))) return {};

  std::vector<DeviceInfo> devices;
  for (int index = 0; index < count; ++index) {
    cudaDeviceProp properties{};
    std::size_t free_bytes = 0;
    if (!succeeded(cudaGetDeviceProperties(&properties, index))) continue;
    if (!query_memory(index, free_bytes)) continue;
    devices.push_back({.index = index,
                       .name = properties.name,
                       .total_bytes = properties.totalGlobalMem,
                       .free_bytes = free_bytes,
                       .compute_major = properties.major,
                       .compute_minor = properties.minor,
                       .driver_version = driver,
                       .runtime_version = runtime});
  }
  return devices;
}

}  // namespace reprise::gpu
