#include "gpu/cuda/memory/error.h"

#include <cuda_runtime_api.h>

#include "gpu/devices.h"

namespace reprise::gpu::cuda {
namespace {

// Errors that poison the context, according to the runtime's documentation.
bool poisons(cudaError_t status) {
  switch (status) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

std::string describe(const std::string& doing, cudaError_t status) {
  return doing + ": " + cudaGetErrorName(status) + " (" + cudaGetErrorString(status) + ")";
}

}  // namespace

CudaError::CudaError(const std::string& doing, int code)
    : std::runtime_error(describe(doing, static_cast<cudaError_t>(code))), code_(code) {}

NoMemoryLeft::NoMemoryLeft(const std::string& doing)
    : what_(describe(doing, cudaErrorMemoryAllocation) + "; other programs may use the GPU, too") {}

void check(int status, const char* doing) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // else the runtime reports the error to the next caller
  if (status == cudaErrorMemoryAllocation) throw NoMemoryLeft(doing);
  if (poisons(static_cast<cudaError_t>(status))) {
    throw DeviceLost(describe(doing, static_cast<cudaError_t>(status)));
  }
  throw CudaError(doing, status);
}

void check_launch(const char* kernel) {
  check(cudaGetLastError(), kernel);
}

}  // namespace reprise::gpu::cuda
