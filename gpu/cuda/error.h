#pragma once
// What goes wrong on a GPU, as an exception.
//
// A CUDA error is either of one call (no memory, a bad argument), or it has poisoned the context: every later
// call of the process fails with it, and only a new process can use the GPU again. poisoned() tells which.
//
// Threading: any thread.

#include <stdexcept>
#include <string>

namespace reprise::gpu::cuda {

class CudaError : public std::runtime_error {
 public:
  CudaError(const std::string& doing, int code);
  /// cudaError_t, or cublasStatus_t where poisoned() is false.
  int code() const { return code_; }
  bool poisoned() const { return poisoned_; }

 private:
  int code_;
  bool poisoned_;
};

/// Throws CudaError, or std::bad_alloc where memory ran out, unless `status` (a cudaError_t) is success.
/// `doing` names the call: "cudaMemcpyAsync of a batch".
void check(int status, const char* doing);

/// After a launch: its configuration was accepted. What the kernel does wrong shows at a later call.
void check_launch(const char* kernel);

}  // namespace reprise::gpu::cuda
