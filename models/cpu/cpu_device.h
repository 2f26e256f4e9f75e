#pragma once
// The CPU as a device, and the test device that is a CPU under a GPU's rules.
//
// Threading: as models/device.h.

#include <memory>

#include "models/device.h"

namespace reprise::models {

std::unique_ptr<Device> open_cpu(const DeviceOptions& options);

/// "cpu-grid": prefill slices begin on a grid of 64 tokens, and decoding is computed by other code with other
/// bits: the other compute setting. So what holds on a GPU is tested where there is none.
std::unique_ptr<Device> open_cpu_grid(const DeviceOptions& options);

}  // namespace reprise::models
