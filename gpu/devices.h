#pragma once
// The GPUs of this machine, as far as this build can use them, and the loss of one.

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace reprise::gpu {

struct DeviceInfo {
  int index = 0;  // the N of "cuda:N"
  std::string name;
  std::uint64_t total_bytes = 0;
  std::uint64_t free_bytes = 0;  // at the time of the call; other processes may take it at any moment
  int compute_major = 0;         // compute capability, 9.0 for Hopper
  int compute_minor = 0;
  int driver_version = 0;   // as CUDA counts: 13010 is 13.1
  int runtime_version = 0;  // likewise
};

/// The usable GPUs, by ascending index. Empty in a build without CUDA, and on a machine without a GPU or a
/// working driver: neither is an error. A GPU that cannot be queried is left out, but one that is full is there.
///
/// Any thread may call it, several at once. Each call asks the driver, which can take a second at first use
/// and leaves a CUDA context on every GPU it reports.
std::vector<DeviceInfo> list_devices();

/// A device that this process cannot use again: every later call would fail. What is on it is lost, and only a new process
/// can open it.
class DeviceLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace reprise::gpu
