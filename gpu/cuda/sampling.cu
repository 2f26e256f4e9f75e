#include <cuda_runtime.h>

#include "base/check.h"
#include "gpu/cuda/dependent_launch.cuh"
#include "gpu/cuda/sampling.h"
#include "gpu/cuda/sampling_row.cuh"

namespace reprise::gpu::cuda {
namespace {

constexpr int kParts = 32;  // of a row: a warp joins them
constexpr int kPartThreads = 512;

/// Blocks are (part, row): the best of each.
__global__ void __launch_bounds__(kPartThreads)
    find_best(const float* logits, int vocab, int stride, BestLogit* best) {
  __shared__ BestLogit of_warp[kPartThreads / 32];
  wait_for_earlier();
  let_next_begin();
  const int share = (vocab + 4 * kParts - 1) / (4 * kParts) * 4;
  const int first = min(vocab, static_cast<int>(blockIdx.x) * share);
  const std::size_t row = blockIdx.y;
  const BestLogit found = best_of_logits<kPartThreads>(
      logits + row * static_cast<std::size_t>(stride) + first, min(share, vocab - first), first, of_warp);
  if (threadIdx.x == 0) best[row * kParts + blockIdx.x] = found;
}

__global__ void __launch_bounds__(kRowThreads)
    sample_kernel(float* logits, int vocab, int stride, const SamplingRow* params,
                  const LogitAdjustment* adjustments, const std::uint32_t* masks, const BestLogit* best,
                  SampledToken* out) {
  __shared__ RowShared shared;
  const std::size_t row = blockIdx.x;
  const SamplingRow own = params[row];  // the host wrote it before the launch
  wait_for_earlier();
  let_next_begin();
  const SampledToken result =
      sample_row(logits + row * static_cast<std::size_t>(stride), vocab,
                 best_of_warp(best[row * kParts + threadIdx.x % 32]), own, adjustments, masks, shared);
  if (threadIdx.x == 0) out[row] = result;
}

}  // namespace

std::size_t sampling_workspace(int rows) {
  return static_cast<std::size_t>(rows) * kParts * sizeof(BestLogit);
}

void sample(float* logits, int rows, int vocab, int stride, const SamplingRow* params,
            const LogitAdjustment* adjustments, const std::uint32_t* masks, std::byte* workspace,
            SampledToken* out, StreamHandle stream) {
  REPRISE_CHECK(vocab > 0 && vocab <= kMostVocab,
                "the vocabulary is empty or larger than the sampling kernel takes");
  if (rows == 0) return;
  auto* best = reinterpret_cast<BestLogit*>(workspace);
  launch_after(find_best, {.blocks = dim3(kParts, rows), .threads = kPartThreads}, stream, logits, vocab,
               stride, best);
  launch_after(sample_kernel, {.blocks = dim3(rows), .threads = kRowThreads}, stream, logits, vocab, stride,
               params, adjustments, masks, best, out);
}

}  // namespace reprise::gpu::cuda
