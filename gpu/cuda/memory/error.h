#pragma once
// Errors of a GPU as exceptions.
//
// A CUDA error concerns one call (out of memory, bad argument): NoMemoryLeft or CudaError. Or it has poisoned
// the context, so that every later call of the process fails: gpu::DeviceLost.

#include <new>
#include <stdexcept>
#include <string>

namespace reprise::gpu::cuda {

class CudaError : public std::runtime_error {
 public:
  CudaError(const std::string& doing, int code);
  /// Returns the cudaError_t.
  int code() const { return code_; }

 private:
  int code_;
};

/// Out of GPU memory, or out of pinned host memory.
class NoMemoryLeft : public std::bad_alloc {
 public:
  explicit NoMemoryLeft(const std::string& doing);
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  std::string what_;
};

/// Throws NoMemoryLeft, CudaError or gpu::DeviceLost unless `status`, a cudaError_t, is success. `doing`
/// names the call: "cudaMemcpyAsync of a batch".
void check(int status, const char* doing);

/// Checks that the last launch was accepted. Faults inside the kernel are reported by a later call.
void check_launch(const char* kernel);

}  // namespace reprise::gpu::cuda
