#include <cuda_runtime.h>

#include "base/check.h"
#include "gpu/cuda/error.h"
#include "gpu/cuda/sampling.h"
#include "gpu/cuda/sampling_row.cuh"

namespace reprise::gpu::cuda {
namespace {

__global__ void __launch_bounds__(kRowThreads)
    sample_kernel(float* logits, int vocab, int stride, const SamplingRow* params,
                  const LogitAdjustment* adjustments, const std::uint32_t* masks, SampledToken* out) {
  __shared__ RowShared shared;
  const std::size_t row = blockIdx.x;
  const SampledToken result = sample_row(logits + row * static_cast<std::size_t>(stride), vocab, params[row],
                                         adjustments, masks, shared);
  if (threadIdx.x == 0) out[row] = result;
}

}  // namespace

void sample(float* logits, int rows, int vocab, int stride, const SamplingRow* params,
            const LogitAdjustment* adjustments, const std::uint32_t* masks, SampledToken* out,
            StreamHandle stream) {
  REPRISE_CHECK(vocab > 0 && vocab <= kMostVocab, "a vocabulary that sums of weights are not made for");
  if (rows == 0) return;
  sample_kernel<<<static_cast<unsigned>(rows), kRowThreads, 0, stream>>>(logits, vocab, stride, params,
                                                                         adjustments, masks, out);
  check_launch("sample");
}

}  // namespace reprise::gpu::cuda
