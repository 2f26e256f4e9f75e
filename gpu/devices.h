#pragma once
// Lists the GPUs that this build can use, and defines the exception for a lost one.

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace reprise::gpu {

struct DeviceInfo {
  int index = 0;  // the N of "cuda:N"
  std::string name;
  std::uint64_t total_bytes = 0;
  std::uint64_t free_bytes = 0;  // at the time of the call
  int compute_major = 0;         // compute capability, 9.0 for Hopper
  int compute_minor = 0;
  int driver_version = 0;   // CUDA's encoding: 13010 is 13.1
  int runtime_version = 0;  // CUDA's encoding
};

/// Returns the usable GPUs by ascending index. Empty, which is no error, in a build without CUDA and on a
/// machine without a GPU or a working driver. Leaves out a GPU that cannot be queried, but not one without
/// free memory.
///
/// Thread-safe. Each call asks the driver, which can take a second at first use and leaves a CUDA context on
/// every GPU that it reports.
std::vector<DeviceInfo> list_devices();

/// Thrown when a device becomes unusable for the rest of the process: every later call on it would fail, and
/// its memory contents are lost.
class DeviceLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace reprise::gpu
