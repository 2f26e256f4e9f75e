#pragma once
// A device that this process cannot use again: every later call would fail. What is on it is lost, and only a
// new process can open it.
//
// Threading: an exception.

#include <stdexcept>

namespace reprise::gpu {

class DeviceLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace reprise::gpu
