// Kimi Delta Attention.
//
// Computes: prepare_delta_heads() (L2 norms, decays, beta); the delta rule, sequentially in f32 (scan.cuh)
// or, for a prefill, in chunks (kda_prefill.cu); gate_delta_heads() (norm and output gate).

#include "gpu/cuda/recurrence/kda.h"

#include <cmath>

#include "gpu/cuda/recurrence/scan.cuh"
#include "gpu/cuda/rows/activations.cuh"

namespace reprise::gpu::cuda {
namespace {

/// Rule for scan.cuh. A column is an element of v.
struct KdaScanRule {
  int columns;  // heads * head_dim
  int size;     // head_dim
  int state_stride;
  std::size_t state_offset;
  KdaPass pass;

  __device__ float* state(std::byte* slot, int column) const {
    const int head = column / size;
    return reinterpret_cast<float*>(slot + state_offset) + static_cast<std::size_t>(head) * size * size +
           column % size;
  }

  struct Input {
    float v;
    float beta;
  };
  __device__ Input read(int row, int column) const {
    const auto r = static_cast<std::size_t>(row);
    return {.v = __ldg(pass.v + r * columns + column),
            .beta = __ldg(pass.beta + r * pass.beta_stride + column / size)};
  }

  template <int kElements>
  struct Fixed {
    int first;  // first element of the head in a row
  };
  template <int kElements>
  __device__ void prepare(Fixed<kElements>& fixed, int column, int) const {
    fixed.first = column / size * size;
  }

  /// S = diag(decay) S;  S += k (beta (v - k^T S));  o = q^T S
  template <int kElements>
  __device__ void step(const Fixed<kElements>& fixed, const Input& in, const ScanLane& lane,
                       float (&s)[kElements]) const {
    const std::size_t at = static_cast<std::size_t>(lane.row) * columns + fixed.first;
    const auto decay_of = [decay = pass.decay + at](int n) { return __ldg(decay + n); };
    const float y = delta_step(pass.q + at, pass.k + at, decay_of, size, in.v, in.beta, lane.part, s);
    if (lane.writes()) pass.out[static_cast<std::size_t>(lane.row) * columns + lane.column] = y;
  }
};

/// Computes decays, or their logarithms. Grid: heads of all rows.
__global__ void __launch_bounds__(32 * kHeadWarps)
    prepare_delta_heads(KdaShape shape, int rows, KdaPass pass, float q_scale, bool logarithms) {
  const int item = static_cast<int>(blockIdx.x) * kHeadWarps + static_cast<int>(threadIdx.x) / 32;
  if (item >= rows * shape.heads) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int head = item % shape.heads;
  const int size = shape.head_dim;
  const auto first = static_cast<std::size_t>(item) * size;
  float* q = pass.q + first;
  float* k = pass.k + first;
  float* decay = pass.decay + first;
  const float of_q = unit_scale(q, size, pass.unit_eps, lane);
  const float of_k = unit_scale(k, size, pass.unit_eps, lane);
  const float rate = -pass.rate[head];
  for (int i = lane; i < size; i += 32) {
    q[i] = q[i] * of_q * q_scale;
    k[i] = k[i] * of_k;
    const float logarithm = rate * softplus_of(decay[i] + pass.dt_bias[head * size + i]);
    decay[i] = logarithms ? logarithm : expf(logarithm);
  }
  if (lane == 0) {
    float& beta = pass.beta[static_cast<std::size_t>(item / shape.heads) * pass.beta_stride + head];
    beta = sigmoid_of(beta);
  }
}

/// Grid: heads of all rows.
template <class Row>
__global__ void __launch_bounds__(32 * kHeadWarps)
    gate_delta_heads(KdaShape shape, int rows, KdaGate<Row> pass) {
  const int item = static_cast<int>(blockIdx.x) * kHeadWarps + static_cast<int>(threadIdx.x) / 32;
  if (item >= rows * shape.heads) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int size = shape.head_dim;
  const auto first = static_cast<std::size_t>(item) * size;
  const float* y = pass.y + first;
  const Row* gate =
      pass.gate + static_cast<std::size_t>(item / shape.heads) * pass.gate_stride + item % shape.heads * size;
  const float scale = norm_scale(y, size, pass.norm_eps, lane);
  for (int i = lane; i < size; i += 32) {
    const float normed = y[i] * scale * (pass.norm_offset + pass.norm[i]);
    const float gated = normed * sigmoid_of(load_row(gate[i]));
    store_row(pass.out[first + i], gated);
  }
}

template <class Row>
void gate_heads(const KdaShape& shape, int rows, const KdaGate<Row>& pass, StreamHandle stream) {
  gate_delta_heads<<<blocks_of_heads(shape.heads, rows), 32 * kHeadWarps, 0, stream>>>(shape, rows, pass);
  check_launch("gate_channel_delta");
}

}  // namespace

bool kda_supports(const KdaShape& shape) {
  return shape.heads > 0 && scan_supports(shape.head_dim);
}

std::size_t kda_workspace(const KdaShape& shape, int /*rows*/, int tiles) {
  return can_use_kda_chunks(shape) ? kda_chunks_workspace(shape, tiles) : 0;  // decode needs none
}

void kda(const KdaShape& shape, const Batch& batch, const KdaPass& pass, StreamHandle stream) {
  REPRISE_CHECK(kda_supports(shape), "the recurrence has no kernel for this shape");
  const float q_scale = 1.0F / std::sqrt(static_cast<float>(shape.head_dim));
  const bool in_chunks = batch.tile_count > 0 && !pass.token_after_token && can_use_kda_chunks(shape);
  prepare_delta_heads<<<blocks_of_heads(shape.heads, batch.rows), 32 * kHeadWarps, 0, stream>>>(
      shape, batch.rows, pass, q_scale, in_chunks);
  check_launch("channel_delta: its gates");
  if (in_chunks) {
    kda_in_chunks(shape, batch, pass, stream);
    return;
  }
  const KdaScanRule rule{.columns = shape.size(),
                         .size = shape.head_dim,
                         .state_stride = shape.head_dim,
                         .state_offset = shape.state_offset,
                         .pass = pass};
  scan(rule, batch, pass.exports, stream, "channel_delta");
}

void gate_kda(const KdaShape& shape, int rows, const KdaGate<Bf16>& pass, StreamHandle stream) {
  gate_heads(shape, rows, pass, stream);
}
void gate_kda(const KdaShape& shape, int rows, const KdaGate<float>& pass, StreamHandle stream) {
  gate_heads(shape, rows, pass, stream);
}

}  // namespace reprise::gpu::cuda
