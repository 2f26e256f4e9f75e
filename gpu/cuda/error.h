#pragma once
// What goes wrong on a GPU, as an exception.
//
// A CUDA error is either of one call (no memory, a bad argument): NoMemoryLeft or CudaError; or it has
// poisoned the context, so that every later call of the process fails with it: gpu::DeviceLost.
//
// Threading: any thread.

#include <new>
#include <stdexcept>
#include <string>

namespace reprise::gpu::cuda {

class CudaError : public std::runtime_error {
 public:
  CudaError(const std::string& doing, int code);
  /// A cudaError_t.
  int code() const { return code_; }

 private:
  int code_;
};

/// On the GPU, or on the host of memory that it reaches.
class NoMemoryLeft : public std::bad_alloc {
 public:
  explicit NoMemoryLeft(const std::string& doing);
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  std::string what_;
};

/// Throws one of the three unless `status`, a cudaError_t, is success.
/// `doing` names the call: "cudaMemcpyAsync of a batch".
void check(int status, const char* doing);

/// After a launch: its configuration was accepted. What the kernel does wrong shows at a later call.
void check_launch(const char* kernel);

}  // namespace reprise::gpu::cuda
