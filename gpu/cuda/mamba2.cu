#include "gpu/cuda/mamba2.h"

#include "gpu/cuda/mamba2.cuh"
#include "gpu/cuda/mamba2_prefill.h"
#include "gpu/cuda/row_element.cuh"
#include "gpu/cuda/scan.cuh"

namespace reprise::gpu::cuda {
namespace {

/// A column is one of a head's matrix: an element of the head's x.
template <class Row>
struct SsdRule {
  int columns;  // heads * head_dim
  int size;
  int state_stride;  // head_dim
  SsdShape shape;
  int channels;
  int heads_of_group;
  SsdPass<Row> pass;

  __device__ float* state(std::byte* slot, int column) const {
    const int head = column / shape.head_dim;
    return reinterpret_cast<float*>(slot + shape.state_offset) +
           static_cast<std::size_t>(head) * size * shape.head_dim + column % shape.head_dim;
  }

  struct Input {
    float x;
    float step;
  };
  __device__ Input read(int row, int column) const {
    const auto r = static_cast<std::size_t>(row);
    return {.x = __ldg(pass.mixed + r * channels + column),
            .step = load_row(__ldg(pass.step + r * pass.step_stride + column / shape.head_dim))};
  }

  template <int kNumbers>
  struct Fixed {
    float dt_bias;
    float decay;
    float skip;
    int first_b;  // of the head's group, in a row of `mixed`
  };
  template <int kNumbers>
  __device__ void prepare(Fixed<kNumbers>& fixed, int column, int) const {
    const int head = column / shape.head_dim;
    fixed.dt_bias = pass.dt_bias[head];
    fixed.decay = pass.decay[head];
    fixed.skip = pass.skip[head];
    fixed.first_b = columns + head / heads_of_group * size;
  }

  /// S = exp(-decay dt) S + B (dt x)^T;  y = C^T S + skip x
  template <int kNumbers>
  __device__ void step(const Fixed<kNumbers>& fixed, const Input& in, const ScanLane& lane,
                       float (&s)[kNumbers]) const {
    const float* b = pass.mixed + static_cast<std::size_t>(lane.row) * channels + fixed.first_b;
    const float* c = b + shape.groups * size;
    const float dt = ssd_dt(pass, in.step, fixed.dt_bias);
    const float kept = expf(-fixed.decay * dt);
    const float change = dt * in.x;
    float total = 0.0F;
#pragma unroll
    for (int i = 0; i < kNumbers; ++i) {
      const int n = scan_number(lane.part, i);
      const float b_n = n < size ? __ldg(b + n) : 0.0F;
      const float c_n = n < size ? __ldg(c + n) : 0.0F;
      s[i] = fmaf(b_n, change, s[i] * kept);
      total = fmaf(c_n, s[i], total);
    }
    const float y = fmaf(fixed.skip, in.x, column_sum(total));
    if (lane.writes()) pass.out[static_cast<std::size_t>(lane.row) * columns + lane.column] = y;
  }
};

constexpr int kGateThreads = 256;

/// Grid: groups, rows. The order of the sum of squares is fixed by `size`: each thread's elements upwards, then halves
/// of a warp, then the warps in order.
template <class Row>
__global__ void __launch_bounds__(kGateThreads) gate_groups(int groups, int size, SsdGatePass<Row> pass) {
  const auto first = static_cast<std::size_t>(blockIdx.x) * size;
  const auto row = static_cast<std::size_t>(blockIdx.y);
  const float* y = pass.y + row * groups * size + first;
  const Row* z = pass.z + row * pass.z_stride + first;
  Row* out = pass.out + row * groups * size + first;
  const auto gate = [&](int i) { return silu_of(pass.z_scale * load_row(z[i])); };
  const auto before_norm = [&](int i) {
    return pass.gating == SsdGating::kGateThenNorm ? y[i] * gate(i) : y[i];
  };
  float scale = 1.0F;
  if (pass.gating != SsdGating::kGateAlone) {
    __shared__ float of_warp[kGateThreads / 32];
    float squares = 0.0F;
    for (int i = static_cast<int>(threadIdx.x); i < size; i += kGateThreads) {
      const float value = before_norm(i);
      squares = fmaf(value, value, squares);
    }
    for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(0xffffffffU, squares, step);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = squares;
    __syncthreads();
    float total = 0.0F;
    for (int i = 0; i < kGateThreads / 32; ++i) total += of_warp[i];
    scale = 1.0F / sqrtf(total / static_cast<float>(size) + pass.norm_eps);
  }
  for (int i = static_cast<int>(threadIdx.x); i < size; i += kGateThreads) {
    float value = before_norm(i);
    if (pass.gating != SsdGating::kGateAlone)
      value = value * scale * (pass.norm_offset + pass.norm[first + i]);
    if (pass.gating != SsdGating::kGateThenNorm) value *= gate(i);
    store_row(out[i], value);
  }
}

template <class Row>
void scan_tokens(const SsdShape& shape, const Batch& batch, const SsdPass<Row>& pass, StreamHandle stream) {
  REPRISE_CHECK(ssd_supports(shape), "the recurrence has no kernel for this shape");
  const SsdRule<Row> rule{.columns = shape.inner(),
                          .size = shape.state_size,
                          .state_stride = shape.head_dim,
                          .shape = shape,
                          .channels = shape.channels(),
                          .heads_of_group = shape.heads / shape.groups,
                          .pass = pass};
  scan(rule, batch, pass.exports, stream, "ssd");
}

template <class Row>
void gate(int rows, int groups, int size, const SsdGatePass<Row>& pass, StreamHandle stream) {
  const dim3 grid(static_cast<unsigned>(groups), static_cast<unsigned>(rows));
  gate_groups<<<grid, kGateThreads, 0, stream>>>(groups, size, pass);
  check_launch("gate_ssd");
}

}  // namespace

bool ssd_supports(const SsdShape& shape) {
  return shape.heads > 0 && shape.head_dim > 0 && shape.groups > 0 && shape.heads % shape.groups == 0 &&
         scan_supports(shape.state_size);
}

std::size_t ssd_workspace(const SsdShape& shape, int /*rows*/, int tiles) {
  return ssd_suits_chunks(shape) ? ssd_chunks_workspace(shape, tiles) : 0;  // a decode needs none
}

void ssd(const SsdShape& shape, const Batch& batch, const SsdPass<Bf16>& pass, StreamHandle stream) {
  if (batch.tile_count > 0 && ssd_suits_chunks(shape)) {
    REPRISE_CHECK(ssd_supports(shape), "the recurrence has no kernel for this shape");
    ssd_in_chunks(shape, batch, pass, stream);
    return;
  }
  scan_tokens(shape, batch, pass, stream);
}
void ssd(const SsdShape& shape, const Batch& batch, const SsdPass<float>& pass, StreamHandle stream) {
  scan_tokens(shape, batch, pass, stream);
}

void gate_ssd(int rows, int groups, int size, const SsdGatePass<Bf16>& pass, StreamHandle stream) {
  gate(rows, groups, size, pass, stream);
}
void gate_ssd(int rows, int groups, int size, const SsdGatePass<float>& pass, StreamHandle stream) {
  gate(rows, groups, size, pass, stream);
}

}  // namespace reprise::gpu::cuda
