// Gated DeltaNet prefill: convolve() (convolution, L2 norms, gates), the chunked delta rule
// (gated_delta_net_chunks.cu), and finish() (gated norm, convolution state). Bits: a row's results depend on
// its own inputs and, in the convolution, on the rows before it, in a fixed order.

#include <cmath>
#include <utility>

#include "base/check.h"
#include "gpu/cuda/memory/error.h"
#include "gpu/cuda/memory/launch.cuh"
#include "gpu/cuda/recurrence/gated_delta_net.cuh"

namespace reprise::gpu::cuda {
namespace {

constexpr int kConvThreads = 256;
constexpr int kConvRows = 8;  // per warp
constexpr int kFinishThreads = 256;
constexpr int kFinishWarps = kFinishThreads / 32;
constexpr int kFinishRows = 4;                                   // per warp
constexpr int kFinishParts = 64 / (kFinishRows * kFinishWarps);  // blocks per tile
constexpr int kWindow = kMaxTaps - 1;
static_assert(kConvThreads / 32 * kConvRows == 64);

/// Inputs of the convolution of two channels in the kWindow rows before row `first` of a slice; rows before
/// the slice come from the slot, missing ones are zero.
struct ConvWindow {
  std::uint32_t pairs[kWindow] = {};  // inputs from rows
  float2 kept[kWindow] = {};          // inputs from the slot
  int first = 0;

  __device__ void load(const GatedDeltaNetSizes& sizes, const BatchSlice& slice, const Bf16* projected,
                       int stride, int first_row, int channel) {
    first = first_row;
#pragma unroll
    for (int j = 0; j < kWindow; ++j) {
      const int t = first - kWindow + j;
      if (t >= 0 && t < slice.rows) {
        pairs[j] = *reinterpret_cast<const std::uint32_t*>(
            projected + static_cast<std::size_t>(slice.first_row + t) * stride + channel);
      }
      if (t < 0 && t > -sizes.taps) {
        const auto* history = reinterpret_cast<const float*>(slice.slot + sizes.conv_offset);
        kept[j] = *reinterpret_cast<const float2*>(
            history + static_cast<std::size_t>(sizes.taps - 1 + t) * sizes.channels + channel);
      }
    }
  }
  __device__ float2 at(int j) const {
    return first - kWindow + j < 0 ? kept[j] : widen_pair(pairs[j]);
  }
};

/// A head of q, k or v and what is applied to it.
struct ConvHead {
  int first_channel;
  int dim;
  bool unit;    // L2 norm
  float scale;  // factor after the norm
};

/// Convolves kConvRows rows from `first` of a slice; called by a warp. A lane has two pairs of channels, 64
/// apart. store(row, element, pair): zeros for missing rows.
template <class Store>
__device__ inline void convolve_rows(const GatedDeltaNetSizes& sizes, const GatedDeltaNetWeights& weights,
                                     const BatchSlice& slice, const Bf16* projected, int stride,
                                     const ConvHead& head, int first, const Store& store) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  // All loads come first, so that they are in flight together.
  float2 taps[kMaxTaps][2] = {};  // the last is for the row itself
  std::uint32_t inputs[kConvRows][2] = {};
  ConvWindow before[2];
#pragma unroll
  for (int s = 0; s < 2; ++s) {
    const int element = 2 * lane + 64 * s;
    if (element >= head.dim) continue;
    const int channel = head.first_channel + element;
#pragma unroll
    for (int j = 0; j < kMaxTaps; ++j) {
      const int tap = j - (kMaxTaps - sizes.taps);
      if (tap < 0) continue;
      taps[j][s] = *reinterpret_cast<const float2*>(weights.conv +
                                                    static_cast<std::size_t>(tap) * sizes.channels + channel);
    }
    before[s].load(sizes, slice, projected, stride, first, channel);
    const Bf16* from = projected + static_cast<std::size_t>(slice.first_row + first) * stride + channel;
#pragma unroll
    for (int i = 0; i < kConvRows; ++i) {
      if (first + i >= slice.rows) continue;
      inputs[i][s] = *reinterpret_cast<const std::uint32_t*>(from + static_cast<std::size_t>(i) * stride);
    }
  }

  float2 y[kConvRows][2];
  float squares[kConvRows] = {};
#pragma unroll
  for (int s = 0; s < 2; ++s) {
    float2 window[kMaxTaps];  // the last is the row itself
#pragma unroll
    for (int j = 0; j < kWindow; ++j) window[j + 1] = before[s].at(j);
#pragma unroll
    for (int i = 0; i < kConvRows; ++i) {
#pragma unroll
      for (int j = 0; j < kWindow; ++j) window[j] = window[j + 1];
      window[kWindow] = widen_pair(inputs[i][s]);
      float2 sum = {0.0F, 0.0F};
#pragma unroll
      for (int j = 0; j < kMaxTaps; ++j) {
        sum.x = fmaf(taps[j][s].x, window[j].x, sum.x);
        sum.y = fmaf(taps[j][s].y, window[j].y, sum.y);
      }
      y[i][s] = {quick_silu_of(sum.x), quick_silu_of(sum.y)};
      squares[i] = fmaf(y[i][s].x, y[i][s].x, squares[i]);
      squares[i] = fmaf(y[i][s].y, y[i][s].y, squares[i]);
    }
  }
  float of_lane = 1.0F;
  if (head.unit) of_lane = 1.0F / sqrtf(warp_sums(squares, lane) + kUnitEps) * head.scale;
#pragma unroll
  for (int i = 0; i < kConvRows; ++i) {
    const float factor = broadcast_sum<kConvRows>(of_lane, i);
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      const int element = 2 * lane + 64 * s;
      if (element >= head.dim) continue;
      store(i, element,
            first + i < slice.rows ? narrow(y[i][s].x * factor, y[i][s].y * factor) : std::uint32_t{0});
    }
  }
}

/// Gates of a token; load() is separate, to be called early.
struct TokenGates {
  Bf16 a = 0;
  Bf16 b = 0;
  float decay = 0.0F;
  float dt_bias = 0.0F;

  __device__ void load(const GatedDeltaNetSizes& sizes, const GatedDeltaNetWeights& weights, const Bf16* row,
                       int head) {
    const Bf16* gates = row + sizes.channels + sizes.value_size;
    b = gates[head];
    a = gates[sizes.value_heads + head];
    decay = weights.decay[head];
    dt_bias = weights.dt_bias[head];
  }
  __device__ float g() const { return log_decay(widen(a), decay, dt_bias); }
  __device__ float beta() const { return sigmoid_of(widen(b)); }
};

/// Grid: heads of q, k and v; tiles. A warp has 8 rows; blocks of v also compute the gates.
__global__ void __launch_bounds__(kConvThreads)
    convolve(GatedDeltaNetSizes sizes, GatedDeltaNetWeights weights, Batch batch, const Bf16* projected,
             int stride, float q_scale, PrefillSpace space) {
  pdl_wait();
  pdl_launch_dependents();
  const int unit = static_cast<int>(blockIdx.x);
  const std::size_t tile_index = blockIdx.y;
  const BatchTile tile = batch.tiles[tile_index];
  const BatchSlice slice = slice_of_tile(batch, tile);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int row = static_cast<int>(threadIdx.x) / 32 * kConvRows;  // row in the tile
  const bool is_value = unit >= 2 * sizes.key_heads;
  const bool is_query = unit < sizes.key_heads;
  const int index = is_value ? unit - 2 * sizes.key_heads : is_query ? unit : unit - sizes.key_heads;
  const int dim = is_value ? sizes.value_dim : sizes.key_dim;
  const ConvHead head{
      .first_channel = is_value ? 2 * sizes.key_heads * sizes.key_dim + index * dim : unit * dim,
      .dim = dim,
      .unit = !is_value,
      .scale = is_query ? q_scale : 1.0F};
  __nv_bfloat16* to =
      is_value ? space.v + (tile_index * sizes.value_heads + index) * 64 * dim
               : (is_query ? space.q : space.k) + (tile_index * sizes.key_heads + index) * 64 * dim;

  const int own = tile.first + row + lane;  // row whose gates this lane computes
  const bool has_gates = is_value && lane < kConvRows;
  TokenGates gates;
  if (has_gates && own < slice.rows) {
    gates.load(sizes, weights, projected + static_cast<std::size_t>(slice.first_row + own) * stride, index);
  }
  convolve_rows(sizes, weights, slice, projected, stride, head, tile.first + row,
                [&](int i, int element, std::uint32_t pair) {
                  *reinterpret_cast<std::uint32_t*>(to + (row + i) * dim + element) = pair;
                });
  if (has_gates) {
    const std::size_t at = (tile_index * sizes.value_heads + index) * 64 + row + lane;
    space.g[at] = own < slice.rows ? gates.g() : 0.0F;
    space.beta[at] = own < slice.rows ? gates.beta() : 0.0F;
  }
}

/// out = norm(out) * weight * SiLU(z). Grid: value heads, tiles, parts of a tile. A warp has four rows, a
/// lane two pairs of a row. At the end of a slice or an exported tile the blocks also write the convolution
/// state; all readers of the old one have ended.
__global__ void __launch_bounds__(kFinishThreads)
    finish(GatedDeltaNetSizes sizes, GatedDeltaNetWeights weights, Batch batch, GatedDeltaNetPass<Bf16> pass,
           PrefillSpace space) {
  const int head = static_cast<int>(blockIdx.x);
  const std::size_t tile_index = blockIdx.y;
  const BatchTile tile = batch.tiles[tile_index];
  const BatchSlice slice = slice_of_tile(batch, tile);
  std::byte* const exported = export_after_tile(pass.exports, tile_index);
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const int first = static_cast<int>(blockIdx.z) * kFinishRows * kFinishWarps + thread / 32;
  const int rows = min(64, slice.rows - tile.first);
  const int dim = sizes.value_dim;
  const float* from = space.out + (tile_index * sizes.value_heads + head) * 64 * dim;
  const std::size_t first_row = slice.first_row + tile.first;
  float2 o[kFinishRows][2] = {};
  std::uint32_t z[kFinishRows][2] = {};
  float2 w[2] = {};
#pragma unroll
  for (int s = 0; s < 2; ++s) {  // all loads first
    const int element = 2 * lane + 64 * s;
    if (element >= dim) continue;
    w[s] = *reinterpret_cast<const float2*>(weights.norm + element);
#pragma unroll
    for (int i = 0; i < kFinishRows; ++i) {
      const int row = first + i * kFinishWarps;
      if (row >= rows) continue;
      z[i][s] = *reinterpret_cast<const std::uint32_t*>(pass.projected + (first_row + row) * pass.stride +
                                                        sizes.channels + head * dim + element);
    }
  }
  // A head accounts for at most 3 * 128 channels, so there is a thread for each pair.
  const int channel = 2 * ((static_cast<int>(blockIdx.z * gridDim.x) + head) * kFinishThreads + thread);
  const bool ends = tile.first + 64 >= slice.rows;
  const bool keeps = (exported != nullptr || ends) && channel < sizes.channels;
  ConvWindow last;
  if (keeps) last.load(sizes, slice, pass.projected, pass.stride, tile.first + rows, channel);
  pdl_wait();  // the previous kernel writes `from`
  pdl_launch_dependents();
#pragma unroll
  for (int s = 0; s < 2; ++s) {
    const int element = 2 * lane + 64 * s;
#pragma unroll
    for (int i = 0; i < kFinishRows; ++i) {
      const int row = first + i * kFinishWarps;
      if (element < dim && row < rows) o[i][s] = *reinterpret_cast<const float2*>(from + row * dim + element);
    }
  }

  float squares[kFinishRows] = {};
#pragma unroll
  for (int i = 0; i < kFinishRows; ++i) {
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      squares[i] = fmaf(o[i][s].x, o[i][s].x, squares[i]);
      squares[i] = fmaf(o[i][s].y, o[i][s].y, squares[i]);
    }
  }
  const float of_lane = 1.0F / sqrtf(warp_sums(squares, lane) / static_cast<float>(dim) + weights.norm_eps);
#pragma unroll
  for (int i = 0; i < kFinishRows; ++i) {
    const int row = first + i * kFinishWarps;
    const float scale = broadcast_sum<kFinishRows>(of_lane, i);
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      const int element = 2 * lane + 64 * s;
      if (row >= rows || element >= dim) continue;
      const float2 gate = widen_pair(z[i][s]);
      *reinterpret_cast<std::uint32_t*>(pass.out + (first_row + row) * sizes.value_size + head * dim +
                                        element) = narrow(o[i][s].x * scale * w[s].x * quick_silu_of(gate.x),
                                                          o[i][s].y * scale * w[s].y * quick_silu_of(gate.y));
    }
  }
  if (!keeps) return;
#pragma unroll
  for (int j = 0; j < kWindow; ++j) {
    const int kept_row = j - (kMaxTaps - sizes.taps);
    if (kept_row < 0) continue;
    const std::size_t at =
        sizes.conv_offset / sizeof(float) + static_cast<std::size_t>(kept_row) * sizes.channels + channel;
    const float2 input = last.at(j);
    if (exported != nullptr) *reinterpret_cast<float2*>(reinterpret_cast<float*>(exported) + at) = input;
    if (ends) *reinterpret_cast<float2*>(reinterpret_cast<float*>(slice.slot) + at) = input;
  }
}

std::size_t bytes_of_tile(const GatedDeltaNetShape& shape) {
  const auto keys = static_cast<std::size_t>(shape.key_heads) * kGrid * shape.key_dim;
  const auto values = static_cast<std::size_t>(shape.value_size()) * kGrid;
  const auto heads = static_cast<std::size_t>(shape.value_heads);
  return 2 * keys * sizeof(Bf16) + values * (sizeof(Bf16) + sizeof(float)) +
         3 * heads * kGrid * sizeof(float) + heads * kChunkMatrixBytes;
}

PrefillSpace divide(const GatedDeltaNetShape& shape, std::byte* workspace, int tiles) {
  const auto count = static_cast<std::size_t>(tiles);
  const std::size_t keys = count * shape.key_heads * kGrid * shape.key_dim * sizeof(Bf16);
  const std::size_t values = count * shape.value_size() * kGrid;
  const std::size_t gates = count * shape.value_heads * kGrid * sizeof(float);
  const auto take = [&](std::size_t bytes) { return std::exchange(workspace, workspace + bytes); };
  PrefillSpace space{};
  space.q = reinterpret_cast<__nv_bfloat16*>(take(keys));
  space.k = reinterpret_cast<__nv_bfloat16*>(take(keys));
  space.v = reinterpret_cast<__nv_bfloat16*>(take(values * sizeof(Bf16)));
  space.g = reinterpret_cast<float*>(take(gates));
  space.sums = reinterpret_cast<float*>(take(gates));
  space.beta = reinterpret_cast<float*>(take(gates));
  space.matrices = take(count * shape.value_heads * kChunkMatrixBytes);
  space.out = reinterpret_cast<float*>(take(values * sizeof(float)));
  return space;
}

}  // namespace

bool gated_delta_net_supports(const GatedDeltaNetShape& shape) {
  const int key = shape.key_dim;
  return shape.key_heads > 0 && shape.value_heads > 0 && shape.value_heads % shape.key_heads == 0 &&
         shape.value_heads / shape.key_heads <= kMaxGroup &&
         (key == 16 || key == 32 || key == 64 || key == 128) && shape.value_dim > 0 &&
         shape.value_dim % 16 == 0 && shape.value_dim <= 128 && shape.taps >= 2 && shape.taps <= kMaxTaps &&
         shape.conv_offset % 16 == 0 && shape.state_offset % 16 == 0;
}

template <>
std::size_t gated_delta_net_workspace<Bf16>(const GatedDeltaNetShape& shape, int /*rows*/, int tiles) {
  return static_cast<std::size_t>(tiles) * bytes_of_tile(shape);  // decode needs none
}

void gated_delta_net_prefill(const GatedDeltaNetShape& shape, const GatedDeltaNetWeights& weights,
                             const Batch& batch, const GatedDeltaNetPass<Bf16>& pass, StreamHandle stream) {
  REPRISE_CHECK(gated_delta_net_supports(shape), "the delta net has no kernel for this shape");
  REPRISE_CHECK(pass.stride % 2 == 0, "the rows of the delta net are not aligned to 4 bytes");
  if (batch.tile_count == 0) return;
  const GatedDeltaNetSizes sizes(shape);
  const PrefillSpace space = divide(shape, pass.workspace, batch.tile_count);
  const float q_scale = 1.0F / std::sqrt(static_cast<float>(shape.key_dim));
  const dim3 conv_blocks(2 * sizes.key_heads + sizes.value_heads, batch.tile_count);
  launch_after(convolve, {.blocks = conv_blocks, .threads = kConvThreads}, stream, sizes, weights, batch,
               pass.projected, pass.stride, q_scale, space);
  gated_delta_net_chunks(sizes, batch, pass.exports, space, stream);
  launch_after(finish,
               {.blocks = dim3(sizes.value_heads, batch.tile_count, kFinishParts), .threads = kFinishThreads},
               stream, sizes, weights, batch, pass, space);
}

}  // namespace reprise::gpu::cuda
