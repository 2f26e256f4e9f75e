#pragma once
// A GPU as a models::Device: one arena for weights and state.
//
// Threading: as models::Device.

#include <memory>

#include "models/device.h"

namespace reprise::models::cuda {

/// Throws gpu::cuda::CudaError, std::bad_alloc.
std::unique_ptr<Device> open_device(int index, const DeviceOptions& options);

}  // namespace reprise::models::cuda
