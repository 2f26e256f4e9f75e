// Gated DeltaNet over prompts: convolution and gates, the matrices of every chunk at once, the state chunk
// after chunk, the gated norm.
#include <cmath>
#include <utility>

#include "base/check.h"
#include "gpu/cuda/delta_net.cuh"
#include "gpu/cuda/delta_net_chunks.cuh"
#include "gpu/cuda/delta_net_scan.cuh"
#include "gpu/cuda/error.h"
#include "gpu/cuda/shared_memory.cuh"

namespace reprise::gpu::cuda {
namespace {

constexpr int kConvThreads = 128;
constexpr int kConvRows = 16;  // of a warp
constexpr int kFinishThreads = 256;
constexpr int kFinishWarps = kFinishThreads / 32;
constexpr int kFinishRows = 4;  // of a warp at once
constexpr int kFewBlocks = 66;  // of the scan: half of a large GPU's multiprocessors

/// Two inputs of the convolution at row t of a slice; t < 0 lies in the slot. Zeros where there is none.
__device__ inline float2 conv_input(const DeltaNetSizes& sizes, const BatchSlice& slice,
                                    const Bf16* projected, int stride, int t, int channel) {
  if (t >= slice.rows || t <= -sizes.taps) return {0.0F, 0.0F};
  if (t < 0) {
    const auto* history = reinterpret_cast<const float*>(slice.slot + sizes.conv_offset);
    return *reinterpret_cast<const float2*>(
        history + static_cast<std::size_t>(sizes.taps - 1 + t) * sizes.channels + channel);
  }
  return widen_pair(*reinterpret_cast<const std::uint32_t*>(
      projected + static_cast<std::size_t>(slice.first_row + t) * stride + channel));
}

/// Grid: heads of q, of k and of v; tiles. A warp has 16 rows; a lane two pairs of channels, 64 apart.
__global__ void __launch_bounds__(kConvThreads)
    convolve(DeltaNetSizes sizes, DeltaNetWeights weights, Batch batch, const Bf16* projected, int stride,
             float q_scale, PrefillSpace space) {
  const int unit = static_cast<int>(blockIdx.x);
  const std::size_t tile_index = blockIdx.y;
  const BatchTile tile = batch.tiles[tile_index];
  const BatchSlice slice = batch.slices[tile.slice];
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const int row = thread / 32 * kConvRows;  // in the tile
  const bool is_value = unit >= 2 * sizes.key_heads;
  const bool is_query = unit < sizes.key_heads;
  const int head = is_value ? unit - 2 * sizes.key_heads : is_query ? unit : unit - sizes.key_heads;
  const int dim = is_value ? sizes.value_dim : sizes.key_dim;
  const int first_channel = is_value ? 2 * sizes.key_heads * sizes.key_dim + head * dim : unit * dim;
  __nv_bfloat16* to = is_value
                          ? space.v + (tile_index * sizes.value_heads + head) * 64 * dim
                          : (is_query ? space.q : space.k) + (tile_index * sizes.key_heads + head) * 64 * dim;

  if (is_value && thread < 64) {
    const int t = tile.first + thread;
    float g = 0.0F;
    float beta = 0.0F;
    if (t < slice.rows) {
      const Bf16* gates = projected + static_cast<std::size_t>(slice.first_row + t) * stride +
                          sizes.channels + sizes.value_size;
      const float b = widen_pair(gates[head]).x;
      const float a = widen_pair(gates[sizes.value_heads + head]).x;
      g = log_decay(a, weights.decay[head], weights.dt_bias[head]);
      beta = sigmoid(b);
    }
    const std::size_t at = (tile_index * sizes.value_heads + head) * 64 + thread;
    space.g[at] = g;
    space.beta[at] = beta;
  }

  // All loads first, so that they are under way together.
  std::uint32_t inputs[kConvRows][2];
  float2 window[kMostTaps - 1][2];
  float2 taps[kMostTaps][2];  // the last is that of the row itself
#pragma unroll
  for (int s = 0; s < 2; ++s) {
    const int element = 2 * lane + 64 * s;
    const bool active = element < dim;
    const int channel = first_channel + element;
#pragma unroll
    for (int i = 0; i < kConvRows; ++i) {
      const int t = tile.first + row + i;
      inputs[i][s] = active && t < slice.rows
                         ? *reinterpret_cast<const std::uint32_t*>(
                               projected + static_cast<std::size_t>(slice.first_row + t) * stride + channel)
                         : 0U;
    }
#pragma unroll
    for (int j = 0; j < kMostTaps - 1; ++j) {
      const int t = tile.first + row - (kMostTaps - 1) + j;
      window[j][s] =
          active ? conv_input(sizes, slice, projected, stride, t, channel) : make_float2(0.0F, 0.0F);
    }
#pragma unroll
    for (int j = 0; j < kMostTaps; ++j) {
      const int tap = j - (kMostTaps - sizes.taps);
      taps[j][s] = active && tap >= 0
                       ? *reinterpret_cast<const float2*>(
                             weights.conv + static_cast<std::size_t>(tap) * sizes.channels + channel)
                       : make_float2(0.0F, 0.0F);
    }
  }

#pragma unroll
  for (int i = 0; i < kConvRows; ++i) {
    float2 y[2];
    float squares = 0.0F;
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      const float2 x = widen_pair(inputs[i][s]);
      float2 sum = {0.0F, 0.0F};
#pragma unroll
      for (int j = 0; j < kMostTaps - 1; ++j) {
        sum.x = fmaf(taps[j][s].x, window[j][s].x, sum.x);
        sum.y = fmaf(taps[j][s].y, window[j][s].y, sum.y);
      }
      sum.x = fmaf(taps[kMostTaps - 1][s].x, x.x, sum.x);
      sum.y = fmaf(taps[kMostTaps - 1][s].y, x.y, sum.y);
#pragma unroll
      for (int j = 0; j + 1 < kMostTaps - 1; ++j) window[j][s] = window[j + 1][s];
      window[kMostTaps - 2][s] = x;
      y[s] = {silu(sum.x), silu(sum.y)};
      squares = fmaf(y[s].x, y[s].x, squares);
      squares = fmaf(y[s].y, y[s].y, squares);
    }
    float factor = 1.0F;
    if (!is_value) {
      factor = 1.0F / sqrtf(warp_sum(squares) + kUnitEps);
      if (is_query) factor *= q_scale;
    }
    const bool exists = tile.first + row + i < slice.rows;
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      const int element = 2 * lane + 64 * s;
      if (element >= dim) continue;
      *reinterpret_cast<std::uint32_t*>(to + (row + i) * dim + element) =
          exists ? narrow(y[s].x * factor, y[s].y * factor) : 0U;
    }
  }
}

/// The inputs that the convolution begins with behind so many rows of the slice, into `slot`. By the blocks of the tile
/// that ends there, launched after all that read the sequence's old ones.
__device__ inline void keep_history(const DeltaNetSizes& sizes, const BatchSlice& slice, int rows,
                                    std::byte* slot, const Bf16* projected, int stride) {
  auto* history = reinterpret_cast<float*>(slot + sizes.conv_offset);
  const int step = static_cast<int>(gridDim.x) * kFinishThreads * 2;
  for (int c = static_cast<int>(blockIdx.x * kFinishThreads + threadIdx.x) * 2; c < sizes.channels;
       c += step) {
    for (int j = 0; j < sizes.taps - 1; ++j) {  // upwards: what is read stands above what is written
      *reinterpret_cast<float2*>(history + static_cast<std::size_t>(j) * sizes.channels + c) =
          conv_input(sizes, slice, projected, stride, rows - (sizes.taps - 1) + j, c);
    }
  }
}

/// out = norm(o) weight silu(z). Grid: value heads, tiles. A warp has four rows at once; a lane two pairs of
/// a row.
__global__ void __launch_bounds__(kFinishThreads)
    finish(DeltaNetSizes sizes, DeltaNetWeights weights, Batch batch, DeltaNetPass<Bf16> pass,
           PrefillSpace space) {
  const int head = static_cast<int>(blockIdx.x);
  const std::size_t tile_index = blockIdx.y;
  const BatchTile tile = batch.tiles[tile_index];
  const BatchSlice slice = batch.slices[tile.slice];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int rows = min(64, slice.rows - tile.first);
  const int dim = sizes.value_dim;
  const float* from = space.out + (tile_index * sizes.value_heads + head) * 64 * dim;
  const std::size_t first_row = slice.first_row + tile.first;
  for (int first = warp; first < rows; first += kFinishRows * kFinishWarps) {
    float2 o[kFinishRows][2];
    float2 z[kFinishRows][2];
#pragma unroll
    for (int i = 0; i < kFinishRows; ++i) {  // all loads first, so that they are under way together
      const int row = first + i * kFinishWarps;
      const Bf16* gate = pass.projected + (first_row + row) * pass.stride + sizes.channels + head * dim;
#pragma unroll
      for (int s = 0; s < 2; ++s) {
        const int element = 2 * lane + 64 * s;
        const bool exists = row < rows && element < dim;
        o[i][s] =
            exists ? *reinterpret_cast<const float2*>(from + row * dim + element) : make_float2(0.0F, 0.0F);
        z[i][s] = widen_pair(exists ? *reinterpret_cast<const std::uint32_t*>(gate + element) : 0U);
      }
    }
#pragma unroll
    for (int i = 0; i < kFinishRows; ++i) {
      const int row = first + i * kFinishWarps;
      float squares = 0.0F;
#pragma unroll
      for (int s = 0; s < 2; ++s) {
        squares = fmaf(o[i][s].x, o[i][s].x, squares);
        squares = fmaf(o[i][s].y, o[i][s].y, squares);
      }
      const float scale = 1.0F / sqrtf(warp_sum(squares) / static_cast<float>(dim) + weights.norm_eps);
#pragma unroll
      for (int s = 0; s < 2; ++s) {
        const int element = 2 * lane + 64 * s;
        if (row >= rows || element >= dim) continue;
        const float2 w = *reinterpret_cast<const float2*>(weights.norm + element);
        *reinterpret_cast<std::uint32_t*>(pass.out + (first_row + row) * sizes.value_size + head * dim +
                                          element) =
            narrow(o[i][s].x * scale * w.x * silu(z[i][s].x), o[i][s].y * scale * w.y * silu(z[i][s].y));
      }
    }
  }
  const auto keep_behind = [&](int slice_rows, std::byte* slot) {
    keep_history(sizes, slice, slice_rows, slot, pass.projected, pass.stride);
  };
  if (std::byte* const wanted = export_behind(pass.exports, tile_index)) keep_behind(tile.first + 64, wanted);
  if (tile.first + 64 >= slice.rows) keep_behind(slice.rows, slice.slot);
}

std::size_t bytes_of_tile(const DeltaNetShape& shape) {
  const auto keys = static_cast<std::size_t>(shape.key_heads) * kGrid * shape.key_dim;
  const auto values = static_cast<std::size_t>(shape.value_size()) * kGrid;
  const auto heads = static_cast<std::size_t>(shape.value_heads);
  return 2 * keys * sizeof(Bf16) + values * (sizeof(Bf16) + sizeof(float)) +
         3 * heads * kGrid * sizeof(float) + heads * kChunkMatrixBytes;
}

PrefillSpace divide(const DeltaNetShape& shape, std::byte* workspace, int tiles) {
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

template <int kKeyDim, int kColumns, int kStages>
void launch_scan_of(const DeltaNetSizes& sizes, const Batch& batch, const SlotExports& exports,
                    const PrefillSpace& space, StreamHandle stream) {
  constexpr int kBytes = ScanMemory<kKeyDim, kColumns, kStages>::kBytes;
  static_assert(kStages > 1 || kBytes <= kLeastShared);
  const auto kernel = scan_chunks<kKeyDim, kColumns, kStages>;
  allow_shared(kernel, kBytes);
  const dim3 grid(sizes.value_dim / kColumns * sizes.value_heads, batch.slice_count);
  kernel<<<grid, kScanThreads, kBytes, stream>>>(sizes, batch, exports, space);
  check_launch("scan_chunks");
}

template <int kKeyDim, int kColumns>
void launch_scan(const DeltaNetSizes& sizes, const Batch& batch, const SlotExports& exports,
                 const PrefillSpace& space, StreamHandle stream) {
  constexpr int kBytes = ScanMemory<kKeyDim, kColumns, 2>::kBytes;
  if constexpr (kBytes > kLeastShared) {
    if (kBytes > most_shared())
      return launch_scan_of<kKeyDim, kColumns, 1>(sizes, batch, exports, space, stream);
  }
  launch_scan_of<kKeyDim, kColumns, 2>(sizes, batch, exports, space, stream);
}

template <int kKeyDim>
void launch_chunks(const DeltaNetSizes& sizes, const Batch& batch, const SlotExports& exports,
                   const PrefillSpace& space, StreamHandle stream) {
  chunk_matrices<kKeyDim>
      <<<dim3(sizes.value_heads, batch.tile_count, 2), kMatrixThreads, 0, stream>>>(sizes, space);
  check_launch("chunk_matrices");
  // Columns do not know of each other: narrow strips have the same bits, and more blocks.
  const int wide_blocks = sizes.value_dim / 32 * sizes.value_heads * batch.slice_count;
  if (sizes.value_dim % 32 == 0 && wide_blocks > kFewBlocks) {
    launch_scan<kKeyDim, 32>(sizes, batch, exports, space, stream);
  } else {
    launch_scan<kKeyDim, 16>(sizes, batch, exports, space, stream);
  }
}

}  // namespace

bool delta_net_supports(const DeltaNetShape& shape) {
  const int key = shape.key_dim;
  return shape.key_heads > 0 && shape.value_heads > 0 && shape.value_heads % shape.key_heads == 0 &&
         shape.value_heads / shape.key_heads <= kLargestGroup &&
         (key == 16 || key == 32 || key == 64 || key == 128) && shape.value_dim > 0 &&
         shape.value_dim % 16 == 0 && shape.value_dim <= 128 && shape.taps >= 2 && shape.taps <= kMostTaps &&
         shape.conv_offset % 16 == 0 && shape.state_offset % 16 == 0;
}

template <>
std::size_t delta_net_workspace<Bf16>(const DeltaNetShape& shape, int /*rows*/, int tiles) {
  return static_cast<std::size_t>(tiles) * bytes_of_tile(shape);  // a decode needs none
}

void delta_net_prefill(const DeltaNetShape& shape, const DeltaNetWeights& weights, const Batch& batch,
                       const DeltaNetPass<Bf16>& pass, StreamHandle stream) {
  REPRISE_CHECK(delta_net_supports(shape), "a delta net of a shape without kernels");
  REPRISE_CHECK(pass.stride % 2 == 0, "rows of a delta net that are not aligned to 4 bytes");
  if (batch.tile_count == 0) return;
  const DeltaNetSizes sizes(shape);
  const PrefillSpace space = divide(shape, pass.workspace, batch.tile_count);
  const float q_scale = 1.0F / std::sqrt(static_cast<float>(shape.key_dim));
  convolve<<<dim3(2 * sizes.key_heads + sizes.value_heads, batch.tile_count), kConvThreads, 0, stream>>>(
      sizes, weights, batch, pass.projected, pass.stride, q_scale, space);
  check_launch("convolve");
  switch (shape.key_dim) {
    case 16:
      launch_chunks<16>(sizes, batch, pass.exports, space, stream);
      break;
    case 32:
      launch_chunks<32>(sizes, batch, pass.exports, space, stream);
      break;
    case 64:
      launch_chunks<64>(sizes, batch, pass.exports, space, stream);
      break;
    default:
      launch_chunks<128>(sizes, batch, pass.exports, space, stream);
      break;
  }
  finish<<<dim3(sizes.value_heads, batch.tile_count), kFinishThreads, 0, stream>>>(sizes, weights, batch,
                                                                                   pass, space);
  check_launch("finish");
}

}  // namespace reprise::gpu::cuda
