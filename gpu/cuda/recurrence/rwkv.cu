// RWKV-7 kernels (rwkv.h).
//
// Computes: token shift, activations of the low-rank pairs, and WKV: gates (prepare_wkv_heads), the
// recurrence by scan.cuh, and norm, bonus and gate (finish_wkv_heads). Mapping: a thread per element, or a
// warp per head and row. Bits: prefill and decode use the same kernels.

#include "gpu/cuda/recurrence/rwkv.h"

#include "gpu/cuda/recurrence/scan.cuh"
#include "gpu/cuda/rows/activations.cuh"

namespace reprise::gpu::cuda {
namespace {

constexpr int kShiftThreads = 128;
constexpr int kWkvWarps = 4;                    // per block: a warp has a head of a row
constexpr float kSlowestDecay = -0.606530660F;  // -e^-0.5

/// Grid: elements, rows.
template <class Row>
__global__ void __launch_bounds__(kShiftThreads) shift_rows(Batch batch, TokenShiftPass<Row> pass) {
  const int i = static_cast<int>(blockIdx.x * kShiftThreads + threadIdx.x);
  const int row = static_cast<int>(blockIdx.y);
  if (i >= pass.size || batch.row_slice[row] == kNoSlice) return;
  const BatchSlice& slice = batch.slices[batch.row_slice[row]];
  const std::size_t at = static_cast<std::size_t>(row) * pass.size + i;
  const float x = load_row(pass.x[at]);
  const float before = row == slice.first_row
                           ? reinterpret_cast<const float*>(slice.slot + pass.state_offset)[i]
                           : load_row(pass.x[at - pass.size]);
  const float difference = before - x;
  for (int m = 0; m < pass.mixes; ++m) {
    store_row(pass.y[m * pass.table + at], fmaf(difference, pass.mix[m * pass.size + i], x));
  }
}

/// Grid: elements, write points (write_point()).
template <class Row>
__global__ void __launch_bounds__(kShiftThreads) keep_last_row(Batch batch, TokenShiftPass<Row> pass) {
  const int i = static_cast<int>(blockIdx.x * kShiftThreads + threadIdx.x);
  if (i >= pass.size) return;
  const auto [slice, slot, rows] = write_point(batch, pass.exports, static_cast<int>(blockIdx.y));
  if (slot == nullptr) return;
  const auto last = static_cast<std::size_t>(slice.first_row + rows - 1);
  reinterpret_cast<float*>(slot + pass.state_offset)[i] = load_row(pass.x[last * pass.size + i]);
}

/// Grid: elements of y, rows.
template <class Row>
__global__ void __launch_bounds__(kShiftThreads)
    activate_elements(const float* x, int size, PairFunction act, Row* y, int stride) {
  const int i = static_cast<int>(blockIdx.x * kShiftThreads + threadIdx.x);
  if (i >= stride) return;
  const auto row = static_cast<std::size_t>(blockIdx.y);
  float value = 0.0F;
  if (i < size) {
    value = x[row * size + i];
    if (act == PairFunction::kTanh) value = tanhf(value);
    if (act == PairFunction::kSigmoid) value = sigmoid_of(value);
  }
  store_row(y[row * stride + i], value);
}

/// Sum over a warp; all lanes get the same bits.
__device__ __forceinline__ float head_total(float x) {
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffU, x, step);
  return x;
}

/// Grid: heads of all rows. Overwrites rate with -key rate, the factor of the recalled value.
template <class Row>
__global__ void __launch_bounds__(32 * kWkvWarps)
    prepare_wkv_heads(WkvShape shape, int rows, WkvPass<Row> pass) {
  const int item = static_cast<int>(blockIdx.x) * kWkvWarps + static_cast<int>(threadIdx.x) / 32;
  if (item >= rows * shape.heads) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int of_head = item % shape.heads * shape.head_dim;
  const auto first = static_cast<std::size_t>(item) * shape.head_dim;
  float squares = 0.0F;
  for (int i = lane; i < shape.head_dim; i += 32) {
    const float key = pass.k[first + i] * pass.key_scale[of_head + i];
    squares = fmaf(key, key, squares);
  }
  const float unit = 1.0F / sqrtf(head_total(squares) + 1e-24F);  // a zero key stays zero
  for (int i = lane; i < shape.head_dim; i += 32) {
    const std::size_t at = first + i;
    const float k = pass.k[at];
    const float rate = sigmoid_of(pass.rate[at]);
    const float key = k * pass.key_scale[of_head + i] * unit;
    pass.decay[at] = expf(kSlowestDecay * sigmoid_of(pass.decay[at]));
    pass.key[at] = key;
    pass.rate[at] = -(key * rate);
    pass.k[at] = k * fmaf(rate - 1.0F, pass.rate_scale[of_head + i], 1.0F);
    if (pass.mix == nullptr) {
      pass.first[at] = pass.v[at];
    } else {
      const float v = pass.v[at];
      pass.v[at] = fmaf(pass.first[at] - v, sigmoid_of(pass.mix[at]), v);
    }
  }
}

/// Rule for scan.cuh. A column is an element of v.
template <class Row>
struct WkvColumns {
  int columns;  // heads * head_dim
  int size;     // head_dim
  int state_stride;
  std::size_t state_offset;
  WkvPass<Row> pass;

  __device__ float* state(std::byte* slot, int column) const {
    return reinterpret_cast<float*>(slot + state_offset) +
           static_cast<std::size_t>(column / size) * size * size + column % size;
  }

  struct Input {
    float v;
  };
  __device__ Input read(int row, int column) const {
    return {.v = __ldg(pass.v + static_cast<std::size_t>(row) * columns + column)};
  }

  template <int kElements>
  struct Fixed {
    int first;  // first element of the head in a row
  };
  template <int kElements>
  __device__ void prepare(Fixed<kElements>& fixed, int column, int) const {
    fixed.first = column / size * size;
  }

  /// S = diag(decay) S + (rate key) (-key^T S) + k v^T;  out = r^T S
  template <int kElements>
  __device__ void step(const Fixed<kElements>& fixed, const Input& in, const ScanLane& lane,
                       float (&s)[kElements]) const {
    const std::size_t at = static_cast<std::size_t>(lane.row) * columns + fixed.first;
    float own = 0.0F;
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      const int n = scan_row(lane.part, i);
      own = fmaf(n < size ? __ldg(pass.key + at + n) : 0.0F, s[i], own);
    }
    const float recalled = column_sum(own);
    float total = 0.0F;
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      const int n = scan_row(lane.part, i);
      if (n < size) {
        const float kept = fmaf(__ldg(pass.rate + at + n), recalled, s[i] * __ldg(pass.decay + at + n));
        s[i] = fmaf(__ldg(pass.k + at + n), in.v, kept);
        total = fmaf(__ldg(pass.r + at + n), s[i], total);
      }
    }
    const float y = column_sum(total);
    if (lane.writes()) pass.made[static_cast<std::size_t>(lane.row) * columns + lane.column] = y;
  }
};

/// Grid: heads of all rows.
template <class Row>
__global__ void __launch_bounds__(32 * kWkvWarps)
    finish_wkv_heads(WkvShape shape, int rows, WkvPass<Row> pass) {
  const int item = static_cast<int>(blockIdx.x) * kWkvWarps + static_cast<int>(threadIdx.x) / 32;
  if (item >= rows * shape.heads) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int size = shape.head_dim;
  const int of_head = item % shape.heads * size;
  const auto first = static_cast<std::size_t>(item) * size;
  float sum = 0.0F;
  float bonus = 0.0F;
  for (int i = lane; i < size; i += 32) {
    sum += pass.made[first + i];
    bonus = fmaf(pass.r[first + i] * pass.k[first + i], pass.bonus[of_head + i], bonus);
  }
  const float mean = head_total(sum) / static_cast<float>(size);
  const float share = head_total(bonus);
  float squares = 0.0F;
  for (int i = lane; i < size; i += 32) {
    const float value = pass.made[first + i] - mean;
    squares = fmaf(value, value, squares);
  }
  const float scale = 1.0F / sqrtf(head_total(squares) / static_cast<float>(size) + pass.norm_eps);
  for (int i = lane; i < size; i += 32) {
    const std::size_t at = first + i;
    const float normed =
        fmaf((pass.made[at] - mean) * scale, pass.norm[of_head + i], pass.norm_bias[of_head + i]);
    store_row(pass.out[at], fmaf(share, pass.v[at], normed) * pass.gate[at]);
  }
}

unsigned blocks_of_wkv(const WkvShape& shape, int rows) {
  return static_cast<unsigned>((rows * shape.heads + kWkvWarps - 1) / kWkvWarps);
}

template <class Row>
void shift(const Batch& batch, const TokenShiftPass<Row>& pass, StreamHandle stream) {
  const auto blocks = static_cast<unsigned>((pass.size + kShiftThreads - 1) / kShiftThreads);
  shift_rows<<<dim3(blocks, static_cast<unsigned>(batch.rows)), kShiftThreads, 0, stream>>>(batch, pass);
  check_launch("token_shift");
  const auto ends = static_cast<unsigned>(batch.slice_count + batch.tile_count);
  keep_last_row<<<dim3(blocks, ends), kShiftThreads, 0, stream>>>(batch, pass);
  check_launch("token_shift: its state");
}

template <class Row>
void activate(const float* x, int rows, int size, PairFunction act, Row* y, int stride, StreamHandle stream) {
  REPRISE_CHECK(size <= stride, "the outputs of a row are wider than its stride");
  const dim3 grid(static_cast<unsigned>((stride + kShiftThreads - 1) / kShiftThreads),
                  static_cast<unsigned>(rows));
  activate_elements<<<grid, kShiftThreads, 0, stream>>>(x, size, act, y, stride);
  check_launch("activate_rows");
}

template <class Row>
void recur(const WkvShape& shape, const Batch& batch, const WkvPass<Row>& pass, StreamHandle stream) {
  REPRISE_CHECK(wkv_supports(shape), "the recurrence has no kernel for this shape");
  prepare_wkv_heads<<<blocks_of_wkv(shape, batch.rows), 32 * kWkvWarps, 0, stream>>>(shape, batch.rows, pass);
  check_launch("wkv: its gates");
  const WkvColumns<Row> rule{.columns = shape.size(),
                             .size = shape.head_dim,
                             .state_stride = shape.head_dim,
                             .state_offset = shape.state_offset,
                             .pass = pass};
  scan(rule, batch, pass.exports, stream, "wkv");
  finish_wkv_heads<<<blocks_of_wkv(shape, batch.rows), 32 * kWkvWarps, 0, stream>>>(shape, batch.rows, pass);
  check_launch("wkv: its output");
}

}  // namespace

void token_shift(const Batch& batch, const TokenShiftPass<Bf16>& pass, StreamHandle stream) {
  shift(batch, pass, stream);
}
void token_shift(const Batch& batch, const TokenShiftPass<float>& pass, StreamHandle stream) {
  shift(batch, pass, stream);
}

void activate_rows(const float* x, int rows, int size, PairFunction act, Bf16* y, int stride,
                   StreamHandle stream) {
  activate(x, rows, size, act, y, stride, stream);
}
void activate_rows(const float* x, int rows, int size, PairFunction act, float* y, int stride,
                   StreamHandle stream) {
  activate(x, rows, size, act, y, stride, stream);
}

bool wkv_supports(const WkvShape& shape) {
  return shape.heads > 0 && scan_supports(shape.head_dim);
}

void wkv(const WkvShape& shape, const Batch& batch, const WkvPass<Bf16>& pass, StreamHandle stream) {
  recur(shape, batch, pass, stream);
}
void wkv(const WkvShape& shape, const Batch& batch, const WkvPass<float>& pass, StreamHandle stream) {
  recur(shape, batch, pass, stream);
}

}  // namespace reprise::gpu::cuda
