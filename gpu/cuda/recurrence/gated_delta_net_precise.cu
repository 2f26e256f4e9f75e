// Gated DeltaNet for f32 rows.
//
// Computes: convolution (causal_conv.h), L2 norms and gates, the sequential delta rule (scan.cuh) and the
// gated norm, all in f32. Chosen when: rows are f32. Bits: prefill and decode use the same kernels, so they
// depend neither on where a slice begins nor on the phase.

#include <cmath>

#include "base/check.h"
#include "gpu/cuda/memory/error.h"
#include "gpu/cuda/recurrence/causal_conv.h"
#include "gpu/cuda/recurrence/gated_delta_net.cuh"
#include "gpu/cuda/recurrence/scan.cuh"
#include "gpu/cuda/rows/activations.cuh"

namespace reprise::gpu::cuda {
namespace {

struct PreciseSpace {
  // [rows, channels]: q | k | v after the convolution; then q and k L2-normalized, q times key_dim^-1/2
  float* mixed;
  float* decay;  // [rows, value_heads]
  float* beta;   // [rows, value_heads]
};

/// Grid: key heads of all rows, each with the gates of its value heads.
__global__ void __launch_bounds__(32 * kHeadWarps)
    prepare_precise_heads(GatedDeltaNetSizes sizes, GatedDeltaNetWeights weights, int rows,
                          GatedDeltaNetPass<float> pass, float q_scale, PreciseSpace space) {
  const int item = static_cast<int>(blockIdx.x) * kHeadWarps + static_cast<int>(threadIdx.x) / 32;
  if (item >= rows * sizes.key_heads) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int key_head = item % sizes.key_heads;
  const auto row = static_cast<std::size_t>(item / sizes.key_heads);
  float* q = space.mixed + row * sizes.channels + key_head * sizes.key_dim;
  float* k = q + sizes.key_heads * sizes.key_dim;
  const float of_q = unit_scale(q, sizes.key_dim, kUnitEps, lane) * q_scale;
  const float of_k = unit_scale(k, sizes.key_dim, kUnitEps, lane);
  for (int i = lane; i < sizes.key_dim; i += 32) {
    q[i] *= of_q;
    k[i] *= of_k;
  }
  if (lane >= sizes.group) return;
  const int head = key_head * sizes.group + lane;
  const float* b = pass.projected + row * pass.stride + sizes.channels + sizes.value_size;
  const float* a = b + sizes.value_heads;
  const std::size_t at = row * sizes.value_heads + head;
  space.decay[at] = expf(log_decay(a[head], weights.decay[head], weights.dt_bias[head]));
  space.beta[at] = sigmoid_of(b[head]);
}

/// Rule for scan.cuh. A column is an element of v.
struct PreciseRule {
  int columns;       // value_size
  int size;          // key_dim
  int state_stride;  // value_dim
  GatedDeltaNetSizes sizes;
  PreciseSpace space;
  float* out;

  __device__ float* state(std::byte* slot, int column) const {
    return reinterpret_cast<float*>(slot + sizes.state_offset) +
           static_cast<std::size_t>(column / sizes.value_dim) * size * sizes.value_dim +
           column % sizes.value_dim;
  }

  struct Input {
    float v;
    float decay;
    float beta;
  };
  __device__ Input read(int row, int column) const {
    const auto r = static_cast<std::size_t>(row);
    const std::size_t head = r * sizes.value_heads + column / sizes.value_dim;
    return {.v = __ldg(space.mixed + r * sizes.channels + 2 * sizes.key_heads * size + column),
            .decay = __ldg(space.decay + head),
            .beta = __ldg(space.beta + head)};
  }

  template <int kElements>
  struct Fixed {
    int first;  // first element of the key head in a row
  };
  template <int kElements>
  __device__ void prepare(Fixed<kElements>& fixed, int column, int) const {
    fixed.first = column / sizes.value_dim / sizes.group * size;
  }

  template <int kElements>
  __device__ void step(const Fixed<kElements>& fixed, const Input& in, const ScanLane& lane,
                       float (&s)[kElements]) const {
    const float* q = space.mixed + static_cast<std::size_t>(lane.row) * sizes.channels + fixed.first;
    const float* k = q + sizes.key_heads * size;
    const auto decay_of = [&in](int) { return in.decay; };
    const float o = delta_step(q, k, decay_of, size, in.v, in.beta, lane.part, s);
    if (lane.writes()) out[static_cast<std::size_t>(lane.row) * columns + lane.column] = o;
  }
};

/// out = norm(out) * weight * SiLU(z). Grid: value heads of all rows.
__global__ void __launch_bounds__(32 * kHeadWarps)
    gate_precise_heads(GatedDeltaNetSizes sizes, GatedDeltaNetWeights weights, int rows,
                       GatedDeltaNetPass<float> pass) {
  const int item = static_cast<int>(blockIdx.x) * kHeadWarps + static_cast<int>(threadIdx.x) / 32;
  if (item >= rows * sizes.value_heads) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int dim = sizes.value_dim;
  float* o = pass.out + static_cast<std::size_t>(item) * dim;
  const float* z = pass.projected + static_cast<std::size_t>(item / sizes.value_heads) * pass.stride +
                   sizes.channels + item % sizes.value_heads * dim;
  const float scale = norm_scale(o, dim, weights.norm_eps, lane);
  for (int i = lane; i < dim; i += 32) o[i] = o[i] * scale * weights.norm[i] * silu_of(z[i]);
}

void recur_precisely(const GatedDeltaNetShape& shape, const GatedDeltaNetWeights& weights, const Batch& batch,
                     const GatedDeltaNetPass<float>& pass, StreamHandle stream) {
  REPRISE_CHECK(gated_delta_net_supports(shape), "the delta net has no kernel for this shape");
  if (batch.slice_count == 0) return;
  const GatedDeltaNetSizes sizes(shape);
  const auto rows = static_cast<std::size_t>(batch.rows);
  const std::size_t gates = rows * static_cast<std::size_t>(shape.value_heads);
  auto* mixed = reinterpret_cast<float*>(pass.workspace);
  float* decay = mixed + rows * static_cast<std::size_t>(shape.channels());
  const PreciseSpace space{.mixed = mixed, .decay = decay, .beta = decay + gates};
  causal_conv(
      {.channels = shape.channels(), .taps = shape.taps, .silu = true, .state_offset = shape.conv_offset},
      batch,
      CausalConvPass<float>{.x = pass.projected,
                            .stride = pass.stride,
                            .weight = weights.conv,
                            .bias = nullptr,
                            .exports = pass.exports},
      space.mixed, stream);
  const float q_scale = 1.0F / std::sqrt(static_cast<float>(shape.key_dim));
  prepare_precise_heads<<<blocks_of_heads(shape.key_heads, batch.rows), 32 * kHeadWarps, 0, stream>>>(
      sizes, weights, batch.rows, pass, q_scale, space);
  check_launch("delta_net: its gates");
  const PreciseRule rule{.columns = sizes.value_size,
                         .size = sizes.key_dim,
                         .state_stride = sizes.value_dim,
                         .sizes = sizes,
                         .space = space,
                         .out = pass.out};
  scan(rule, batch, pass.exports, stream, "delta_net");
  gate_precise_heads<<<blocks_of_heads(shape.value_heads, batch.rows), 32 * kHeadWarps, 0, stream>>>(
      sizes, weights, batch.rows, pass);
  check_launch("delta_net: its output");
}

}  // namespace

template <>
std::size_t gated_delta_net_workspace<float>(const GatedDeltaNetShape& shape, int rows, int /*tiles*/) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(shape.channels() + 2 * shape.value_heads) *
         sizeof(float);
}

void gated_delta_net_prefill(const GatedDeltaNetShape& shape, const GatedDeltaNetWeights& weights,
                             const Batch& batch, const GatedDeltaNetPass<float>& pass, StreamHandle stream) {
  recur_precisely(shape, weights, batch, pass, stream);
}

void gated_delta_net_decode(const GatedDeltaNetShape& shape, const GatedDeltaNetWeights& weights,
                            const Batch& batch, const GatedDeltaNetPass<float>& pass, StreamHandle stream) {
  recur_precisely(shape, weights, batch, pass, stream);
}

}  // namespace reprise::gpu::cuda
