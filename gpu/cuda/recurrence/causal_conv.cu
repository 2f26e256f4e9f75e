// Two launches: the outputs, which read the state in the slots, then the new state.

#include "base/check.h"
#include "gpu/cuda/memory/error.h"
#include "gpu/cuda/recurrence/causal_conv.h"
#include "gpu/cuda/recurrence/scan_lanes.h"
#include "gpu/cuda/rows/activations.cuh"

namespace reprise::gpu::cuda {
namespace {

constexpr int kConvThreads = 128;

/// Grid: channels, rows; one element of y per thread.
template <class Row, class Y>
__global__ void __launch_bounds__(kConvThreads)
    convolve_rows(CausalConvShape shape, Batch batch, CausalConvPass<Row> pass, Y* y) {
  const int channel = static_cast<int>(blockIdx.x * kConvThreads + threadIdx.x);
  if (channel >= shape.channels) return;
  const int row = static_cast<int>(blockIdx.y);
  if (batch.row_slice[row] == kNoSlice) return;
  const BatchSlice slice = batch.slices[batch.row_slice[row]];
  const auto* before = reinterpret_cast<const float*>(slice.slot + shape.state_offset);
  float sum = pass.bias == nullptr ? 0.0F : pass.bias[channel];
  for (int tap = 0; tap < shape.taps; ++tap) {
    const ConvSource from = conv_source(row - slice.first_row, tap, shape.taps);
    const float x =
        from.in_state
            ? before[static_cast<std::size_t>(from.at) * shape.channels + channel]
            : load_row(pass.x[static_cast<std::size_t>(slice.first_row + from.at) * pass.stride + channel]);
    sum = fmaf(pass.weight[static_cast<std::size_t>(tap) * shape.channels + channel], x, sum);
  }
  const float value = shape.silu ? silu_of(sum) : sum;
  store_row(y[static_cast<std::size_t>(row) * shape.channels + channel], value);
}

/// Grid: channels, write points (write_point()). Inputs only move towards the front of the state, in
/// ascending order, so none is read after it was overwritten.
template <class Row>
__global__ void __launch_bounds__(kConvThreads)
    keep_inputs(CausalConvShape shape, Batch batch, CausalConvPass<Row> pass) {
  const int channel = static_cast<int>(blockIdx.x * kConvThreads + threadIdx.x);
  if (channel >= shape.channels) return;
  const auto [slice, slot, rows] = write_point(batch, pass.exports, static_cast<int>(blockIdx.y));
  if (slot == nullptr) return;
  auto* state = reinterpret_cast<float*>(slot + shape.state_offset);
  for (int tap_row = 0; tap_row < shape.taps - 1; ++tap_row) {
    const ConvSource from = conv_source(rows, tap_row, shape.taps);
    state[static_cast<std::size_t>(tap_row) * shape.channels + channel] =
        from.in_state
            ? state[static_cast<std::size_t>(from.at) * shape.channels + channel]
            : load_row(pass.x[static_cast<std::size_t>(slice.first_row + from.at) * pass.stride + channel]);
  }
}

template <class Row, class Y>
void convolve(const CausalConvShape& shape, const Batch& batch, const CausalConvPass<Row>& pass, Y* y,
              StreamHandle stream) {
  REPRISE_CHECK(shape.taps >= 1 && shape.channels >= 1 && shape.channels <= pass.stride,
                "the convolution has no taps or channels, or more channels than the row stride");
  const auto blocks = static_cast<unsigned>((shape.channels + kConvThreads - 1) / kConvThreads);
  convolve_rows<<<dim3(blocks, static_cast<unsigned>(batch.rows)), kConvThreads, 0, stream>>>(shape, batch,
                                                                                              pass, y);
  check_launch("causal_conv");
  if (shape.taps == 1) return;
  // After a whole tile all inputs are the slice's own, so no block reads what another writes.
  REPRISE_CHECK(shape.taps - 1 <= kGrid, "the convolution reaches back further than one tile");
  const auto ends = static_cast<unsigned>(batch.slice_count + batch.tile_count);
  keep_inputs<<<dim3(blocks, ends), kConvThreads, 0, stream>>>(shape, batch, pass);
  check_launch("causal_conv: its state");
}

}  // namespace

void causal_conv(const CausalConvShape& shape, const Batch& batch, const CausalConvPass<Bf16>& pass, Bf16* y,
                 StreamHandle stream) {
  convolve(shape, batch, pass, y, stream);
}

void causal_conv(const CausalConvShape& shape, const Batch& batch, const CausalConvPass<Bf16>& pass, float* y,
                 StreamHandle stream) {
  convolve(shape, batch, pass, y, stream);
}

void causal_conv(const CausalConvShape& shape, const Batch& batch, const CausalConvPass<float>& pass,
                 float* y, StreamHandle stream) {
  convolve(shape, batch, pass, y, stream);
}

}  // namespace reprise::gpu::cuda
