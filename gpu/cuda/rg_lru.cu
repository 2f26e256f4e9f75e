// Three launches: what a token does to h, for all tokens at once; h itself, a thread for each channel; the gate.
#include "gpu/cuda/rg_lru.h"

#include "base/check.h"
#include "gpu/cuda/activations.cuh"
#include "gpu/cuda/error.h"
#include "gpu/cuda/tensor_core.cuh"

namespace reprise::gpu::cuda {
namespace {

constexpr int kLruThreads = 128;
constexpr int kLruScanThreads = 32;  // few channels: they are to be on many multiprocessors
constexpr int kTokensAhead = 8;      // whose numbers are read at once

/// Grid: channels, rows. The recurrence gate becomes what h is multiplied by, the input gate what is added then.
__global__ void __launch_bounds__(kLruThreads) weigh_tokens(RgLruShape shape, Batch batch, RgLruPass pass) {
  const int channel = static_cast<int>(blockIdx.x * kLruThreads + threadIdx.x);
  const int row = static_cast<int>(blockIdx.y);
  if (channel >= shape.channels || batch.row_slice[row] == kNoSlice) return;
  const BatchSlice& slice = batch.slices[batch.row_slice[row]];
  const bool begins = slice.stored == 0 && row == slice.first_row;
  const auto at = static_cast<std::size_t>(row) * shape.channels + channel;
  const float x = pass.x[at] * sigmoid_of(pass.input_gate[at]);
  const float log_decay = pass.rate[channel] * sigmoid_of(pass.recurrence_gate[at]);
  const float left = 1.0F - expf(log_decay + log_decay);
  const float root = sqrtf(left < 0.0F ? 0.0F : left);  // a NaN stays one
  pass.input_gate[at] = begins ? x : x * root;
  pass.recurrence_gate[at] = begins ? 0.0F : expf(log_decay);
}

/// Grid: channels, slices. What is added becomes h.
__global__ void __launch_bounds__(kLruScanThreads) sum_tokens(RgLruShape shape, Batch batch, RgLruPass pass) {
  const int channel = static_cast<int>(blockIdx.x * kLruScanThreads + threadIdx.x);
  if (channel >= shape.channels) return;
  const BatchSlice slice = batch.slices[blockIdx.y];
  float* state = reinterpret_cast<float*>(slice.slot + shape.state_offset) + channel;
  const auto first = static_cast<std::size_t>(slice.first_row) * shape.channels + channel;
  const float* decays = pass.recurrence_gate + first;
  float* inputs = pass.input_gate + first;
  const auto stride = static_cast<std::size_t>(shape.channels);
  float h = *state;
  for (int begin = 0; begin < slice.rows; begin += kTokensAhead) {
    float decay[kTokensAhead];
    float input[kTokensAhead];
#pragma unroll
    for (int i = 0; i < kTokensAhead; ++i) {
      const bool there = begin + i < slice.rows;
      decay[i] = there ? decays[(begin + i) * stride] : 0.0F;
      input[i] = there ? inputs[(begin + i) * stride] : 0.0F;
    }
#pragma unroll
    for (int i = 0; i < kTokensAhead; ++i) {
      if (begin + i >= slice.rows) break;
      h = fmaf(decay[i], h, input[i]);
      inputs[(begin + i) * stride] = h;
    }
    static_assert(kGrid % kTokensAhead == 0);
    if ((begin + kTokensAhead) % kGrid != 0) continue;
    if (std::byte* const wanted = export_behind_row(pass.exports, static_cast<int>(blockIdx.y), begin)) {
      reinterpret_cast<float*>(wanted + shape.state_offset)[channel] = h;
    }
  }
  *state = h;
}

/// Grid: channels, rows.
__global__ void __launch_bounds__(kLruThreads) gate_tokens(RgLruShape shape, Batch batch, RgLruPass pass) {
  const int channel = static_cast<int>(blockIdx.x * kLruThreads + threadIdx.x);
  const int row = static_cast<int>(blockIdx.y);
  if (channel >= shape.channels || batch.row_slice[row] == kNoSlice) return;
  const auto at = static_cast<std::size_t>(row) * shape.channels + channel;
  const float branch = widen(pass.branch[static_cast<std::size_t>(row) * pass.branch_stride + channel]);
  pass.out[at] = narrow(pass.input_gate[at] * gelu_of(branch));
}

}  // namespace

void rg_lru(const RgLruShape& shape, const Batch& batch, const RgLruPass& pass, StreamHandle stream) {
  REPRISE_CHECK(shape.channels > 0 && shape.channels <= pass.branch_stride,
                "a recurrence of channels that rows do not have");
  const auto blocks = static_cast<unsigned>((shape.channels + kLruThreads - 1) / kLruThreads);
  const auto scans = static_cast<unsigned>((shape.channels + kLruScanThreads - 1) / kLruScanThreads);
  const auto rows = static_cast<unsigned>(batch.rows);
  weigh_tokens<<<dim3(blocks, rows), kLruThreads, 0, stream>>>(shape, batch, pass);
  check_launch("rg_lru: its tokens");
  sum_tokens<<<dim3(scans, static_cast<unsigned>(batch.slice_count)), kLruScanThreads, 0, stream>>>(
      shape, batch, pass);
  check_launch("rg_lru");
  gate_tokens<<<dim3(blocks, rows), kLruThreads, 0, stream>>>(shape, batch, pass);
  check_launch("rg_lru: its gate");
}

}  // namespace reprise::gpu::cuda
