// The Mamba-1 selective scan, and the split of its inputs (separate_rows).
//
// Computes: h = exp(dt A) h + (dt x) B; y = (h C + skip x) silu(gate). Chosen when: a batch with tiles and at
// most 32 elements per channel use the tiled scan (SelectiveTiles, scan_tiles.cuh), everything else the
// sequential one (SelectiveRule, scan.cuh); their bits differ.

#include "gpu/cuda/recurrence/selective_scan.h"

#include "gpu/cuda/recurrence/scan.cuh"
#include "gpu/cuda/recurrence/scan_tiles.cuh"
#include "gpu/cuda/rows/activations.cuh"

namespace reprise::gpu::cuda {
namespace {

/// Index of element n of a channel in states and in A, which interleave eight channels.
__device__ __forceinline__ std::size_t state_index(int channel, int size, int n) {
  return (static_cast<std::size_t>(channel / kScanColumns) * size + n) * kScanColumns +
         channel % kScanColumns;
}

/// Rule for scan.cuh. A column is a channel.
template <class Row>
struct SelectiveRule {
  int columns;
  int size;
  int state_stride;
  std::size_t state_offset;
  SelectiveScanPass<Row> pass;

  __device__ float* state(std::byte* slot, int column) const {
    return reinterpret_cast<float*>(slot + state_offset) + state_index(column, size, 0);
  }

  struct Input {
    float x;
    float step;
    float gate;
  };
  __device__ Input read(int row, int column) const {
    const auto r = static_cast<std::size_t>(row);
    return {.x = load_row(__ldg(pass.x + r * columns + column)),
            .step = __ldg(pass.step + r * pass.step_stride + column),
            .gate = load_row(__ldg(pass.gate + r * pass.gate_stride + column))};
  }

  template <int kElements>
  struct Fixed {
    float a[kElements];
    float skip;
  };
  template <int kElements>
  __device__ void prepare(Fixed<kElements>& fixed, int column, int part) const {
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      const int n = scan_row(part, i);
      fixed.a[i] = n < size ? pass.a[state_index(column, size, n)] : 0.0F;
    }
    fixed.skip = pass.skip[column];
  }

  template <int kElements>
  __device__ void step(const Fixed<kElements>& fixed, const Input& in, const ScanLane& lane,
                       float (&h)[kElements]) const {
    const float* b = pass.b + static_cast<std::size_t>(lane.row) * pass.bc_stride;
    const float dt = softplus_of(in.step);
    const float change = dt * in.x;
    float total = 0.0F;
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      const int n = scan_row(lane.part, i);
      const float b_n = n < size ? __ldg(b + n) : 0.0F;
      const float c_n = n < size ? __ldg(b + size + n) : 0.0F;
      h[i] = fmaf(change, b_n, exp2f(dt * fixed.a[i]) * h[i]);
      total = fmaf(h[i], c_n, total);
    }
    const float y = fmaf(fixed.skip, in.x, column_sum(total)) * silu_of(in.gate);
    if (lane.writes()) store_row(pass.out[static_cast<std::size_t>(lane.row) * columns + lane.column], y);
  }
};

/// Rule for scan_tiles(), for at most kMax elements per channel. The total is the sum of dt; sum() overwrites
/// the projected dt with dt.
template <int kMax, class Row>
struct SelectiveTiles {
  static constexpr int kElements = kMax;
  static constexpr float kNoRows = 0.0F;
  int columns;
  int size;
  std::size_t elements;
  std::size_t state_offset;
  SelectiveScanPass<Row> pass;

  __device__ float* state(std::byte* slot) const { return reinterpret_cast<float*>(slot + state_offset); }
  __device__ std::size_t index_of(int column, int n) const { return state_index(column, size, n); }
  __device__ int column_of(std::size_t element) const {
    const auto group = static_cast<std::size_t>(size) * kScanColumns;
    return static_cast<int>(element / group * kScanColumns + element % kScanColumns);
  }
  __device__ float rate(std::size_t element) const { return pass.a[element]; }
  __device__ float decay(float rate, float total) const { return power_of_two(rate * total); }

  struct Shared {
    alignas(16) float b[kGrid][kMax];
    alignas(16) float c[kGrid][kMax];
  };
  __device__ void share(Shared& to, int first_row, int rows) const {
    for (int i = static_cast<int>(threadIdx.x); i < rows * kMax; i += kTileThreads) {
      const int n = i % kMax;
      const float* b = pass.b + static_cast<std::size_t>(first_row + i / kMax) * pass.bc_stride;
      to.b[i / kMax][n] = n < size ? b[n] : 0.0F;
      to.c[i / kMax][n] = n < size ? b[size + n] : 0.0F;
    }
  }

  struct Column {
    float a[kMax];
    float skip;
  };
  __device__ Column column(int column) const {
    Column own;
#pragma unroll
    for (int n = 0; n < kMax; ++n) own.a[n] = n < size ? pass.a[index_of(column, n)] : 0.0F;
    own.skip = pass.skip[column];
    return own;
  }

  __device__ void advance(const Column& own, const Shared& shared, float x, float dt, const TileToken& token,
                          float (&h)[kMax]) const {
    const float change = dt * x;
    float b[kMax];  // separate, for vector loads
#pragma unroll
    for (int n = 0; n < kMax; ++n) b[n] = shared.b[token.row][n];
#pragma unroll
    for (int n = 0; n < kMax; ++n) h[n] = fmaf(change, b[n], power_of_two(dt * own.a[n]) * h[n]);
  }

  struct Input {
    float x;
    float step;
  };
  __device__ Input read(const TileToken& token) const {
    return {.x = load_row(__ldg(token.in(pass.x, columns))), .step = *token.in(pass.step, pass.step_stride)};
  }
  __device__ void sum(const Column& own, const Shared& shared, const Input& in, const TileToken& token,
                      float (&h)[kMax], float& total) const {
    const float dt = softplus_of(in.step);
    *token.in(pass.step, pass.step_stride) = dt;
    advance(own, shared, in.x, dt, token, h);
    total += dt;
  }

  struct Again {
    float x;
    float dt;
    float gate;
  };
  __device__ Again read_again(const TileToken& token) const {
    const Input input = read(token);  // sum() has replaced the step by dt
    return {.x = input.x, .dt = input.step, .gate = load_row(__ldg(token.in(pass.gate, pass.gate_stride)))};
  }
  __device__ void emit(const Column& own, const Shared& shared, const Again& in, const TileToken& token,
                       float (&h)[kMax]) const {
    advance(own, shared, in.x, in.dt, token, h);
    float y = own.skip * in.x;
#pragma unroll
    for (int n = 0; n < kMax; ++n) y = fmaf(h[n], shared.c[token.row][n], y);
    y *= silu_of(in.gate);
    store_row(*token.in(pass.out, columns), y);
  }
};

constexpr int kMaxTileNumbers = 32;  // per channel, in the registers of one thread

std::size_t state_elements(const SelectiveScanShape& shape) {
  const int groups = (shape.channels + kScanColumns - 1) / kScanColumns;
  return static_cast<std::size_t>(groups) * kScanColumns * static_cast<std::size_t>(shape.state_size);
}

template <int kMax, class Row>
void selective_tiles(const SelectiveScanShape& shape, const Batch& batch, const SelectiveScanPass<Row>& pass,
                     StreamHandle stream) {
  const SelectiveTiles<kMax, Row> rule{.columns = shape.channels,
                                       .size = shape.state_size,
                                       .elements = state_elements(shape),
                                       .state_offset = shape.state_offset,
                                       .pass = pass};
  scan_tiles(rule, batch, pass.exports, pass.workspace, stream, "selective_scan of tiles");
}

constexpr int kSeparateThreads = 96;  // one warp each for dt, B and C

/// 1 / sqrt(mean(x^2) + eps) by one warp: each lane's elements ascending, then a butterfly.
__device__ float warp_rms_scale(const float* x, int size, float eps, int lane) {
  float squares = 0.0F;
  for (int i = lane; i < size; i += 32) squares = fmaf(x[i], x[i], squares);
  for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(0xffffffffU, squares, step);
  return 1.0F / sqrtf(squares / static_cast<float>(size) + eps);
}

/// Grid: rows.
template <class Row>
__global__ void __launch_bounds__(kSeparateThreads)
    separate_rows(SelectiveScanShape shape, ScanNormWeights norms, float* x, int stride, Row* low,
                  int low_stride) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int part = static_cast<int>(threadIdx.x) / 32;  // 0: dt, 1: B, 2: C
  const bool normed = norms.dt != nullptr;
  float* row = x + static_cast<std::size_t>(blockIdx.x) * stride;
  if (part == 0) {
    Row* to = low + static_cast<std::size_t>(blockIdx.x) * low_stride;
    const float scale = normed ? warp_rms_scale(row, shape.step_rank, norms.eps, lane) : 1.0F;
    for (int i = lane; i < low_stride; i += 32) {
      float value = i < shape.step_rank ? row[i] : 0.0F;
      const bool weighted = normed && i < shape.step_rank;
      if (weighted) value = value * scale * (norms.offset + norms.dt[i]);
      store_row(to[i], value);
    }
    return;
  }
  if (!normed) return;
  float* elements = row + shape.step_rank + (part - 1) * shape.state_size;
  const float* weight = part == 1 ? norms.b : norms.c;
  const float scale = warp_rms_scale(elements, shape.state_size, norms.eps, lane);
  for (int i = lane; i < shape.state_size; i += 32) {
    elements[i] = elements[i] * scale * (norms.offset + weight[i]);
  }
}

template <class Row>
void separate(const SelectiveScanShape& shape, const ScanNormWeights& norms, int rows, float* x, int stride,
              Row* low, int low_stride, StreamHandle stream) {
  REPRISE_CHECK(shape.step_rank + 2 * shape.state_size <= stride && shape.step_rank <= low_stride,
                "the inputs of the scan are wider than the row stride");
  separate_rows<<<static_cast<unsigned>(rows), kSeparateThreads, 0, stream>>>(shape, norms, x, stride, low,
                                                                              low_stride);
  check_launch("separate_scan_inputs");
}

template <class Row>
void scan_selectively(const SelectiveScanShape& shape, const Batch& batch, const SelectiveScanPass<Row>& pass,
                      StreamHandle stream) {
  if (batch.tile_count > 0 && shape.state_size <= kMaxTileNumbers) {
    const auto tiles =
        shape.state_size <= 16 ? selective_tiles<16, Row> : selective_tiles<kMaxTileNumbers, Row>;
    return tiles(shape, batch, pass, stream);
  }
  const SelectiveRule<Row> rule{.columns = shape.channels,
                                .size = shape.state_size,
                                .state_stride = kScanColumns,
                                .state_offset = shape.state_offset,
                                .pass = pass};
  scan(rule, batch, pass.exports, stream, "selective_scan");
}

}  // namespace

bool selective_scan_supports(const SelectiveScanShape& shape) {
  return shape.channels > 0 && scan_supports(shape.state_size);
}

void separate_scan_inputs(const SelectiveScanShape& shape, const ScanNormWeights& norms, int rows, float* x,
                          int stride, Bf16* low, int low_stride, StreamHandle stream) {
  separate(shape, norms, rows, x, stride, low, low_stride, stream);
}
void separate_scan_inputs(const SelectiveScanShape& shape, const ScanNormWeights& norms, int rows, float* x,
                          int stride, float* low, int low_stride, StreamHandle stream) {
  separate(shape, norms, rows, x, stride, low, low_stride, stream);
}

std::size_t selective_scan_workspace(const SelectiveScanShape& shape, int tiles) {
  if (shape.state_size > kMaxTileNumbers) return 0;
  return tile_states_bytes(state_elements(shape), shape.channels, tiles);
}

void selective_scan(const SelectiveScanShape& shape, const Batch& batch, const SelectiveScanPass<Bf16>& pass,
                    StreamHandle stream) {
  scan_selectively(shape, batch, pass, stream);
}
void selective_scan(const SelectiveScanShape& shape, const Batch& batch, const SelectiveScanPass<float>& pass,
                    StreamHandle stream) {
  scan_selectively(shape, batch, pass, stream);
}

}  // namespace reprise::gpu::cuda
