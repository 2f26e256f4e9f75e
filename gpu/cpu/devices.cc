// Implements gpu/devices.h for builds without CUDA.
#include "gpu/devices.h"

namespace reprise::gpu {

std::vector<DeviceInfo> list_devices() {
  return {};
}

}  // namespace reprise::gpu
