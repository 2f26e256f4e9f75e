#include "models/cuda/precision.h"

#include "gpu/cuda/formats.h"
#include "models/files/load_error.h"
#include "models/weight_tensors.h"

namespace reprise::models::cuda {
namespace {

/// The first matrix that a GPU does not keep as bf16; empty: there is none.
std::string matrix_that_is_rounded(const Checkpoint& checkpoint) {
  for (const std::string& name : checkpoint.names()) {
    if (checkpoint.shape(name).size() < 2) continue;
    const gpu::WeightFormat* format = format_of(checkpoint.stored_type(name));
    const gpu::cuda::DeviceUpload* upload = format == nullptr ? nullptr : gpu::cuda::find_upload(*format);
    if (upload == nullptr || !upload->kept->is_rows_of_bf16) return name;
  }
  return "";
}

}  // namespace

bool computes_precisely(const Checkpoint& checkpoint, const ComputeOptions& options, bool has_host_experts) {
  const bool is_auto = options.compute == gpu::Compute::kAuto;
  if (!is_auto && options.compute != gpu::Compute::kPrecise) return false;
  const std::string rounded = matrix_that_is_rounded(checkpoint);
  if (is_auto) {
    return rounded.empty() && !has_host_experts && checkpoint.total_bytes() <= kPreciseByItself;
  }
  if (!rounded.empty()) {
    throw LoadError(
        checkpoint.path(), rounded,
        std::string(info(checkpoint.stored_type(rounded)).name) +
            ": --compute precise does not support this type on a GPU, which rounds activations for it");
  }
  if (has_host_experts) {
    throw LoadError(
        checkpoint.path(), "",
        "--cpu-experts cannot be used with --compute precise: experts on the host get activations in bf16");
  }
  return true;
}

}  // namespace reprise::models::cuda
