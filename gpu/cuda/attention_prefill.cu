// Attention of prefilled rows. One block takes one tile of up to 64 rows and one query head, a warp 16 of the
// rows, and goes through the pages of the sequence in ascending order with an online softmax.
//
// A page's keys land in shared memory while the page before it is multiplied with its values, and its values
// while its keys are multiplied with q: one buffer for each.
#include "gpu/cuda/attention_parts.h"
#include "gpu/cuda/attention_tiles.cuh"
#include "gpu/cuda/error.h"

namespace reprise::gpu::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = 32 * kWarps;
constexpr int kKeyBlocks = kGrid / 8;  // blocks of 8 keys: columns of a C

template <int kDim>
constexpr int kTileElements = kGrid* tiles::kRowStride<kDim>;
template <int kDim>
constexpr int kSharedBytes = 3 * kTileElements<kDim>* static_cast<int>(sizeof(Bf16));  // q, K, V
// Registers bound it for the larger heads: a lane has kDim / 2 elements of the output.
template <int kDim>
constexpr int kBlocksAtOnce = kDim == 256   ? 2
                              : kDim == 128 ? 3
                                            : 4;

/// The rows of a warp: a lane has part of rows g and g + 8, with lane = 4 * g + t.
template <int kDim>
struct RowsInProgress {
  float out[kDim / 8][4];  // C fragments, one for every 8 elements of the head
  float highest[2];        // score
  float weight[2];         // sum of the lane's own columns
};

/// s = q K^T: [16, 64] as 8 C fragments. `q` and `k` are the lane's addresses for ldmatrix.
template <int kDim>
__device__ __forceinline__ void score_page(float (&s)[kKeyBlocks][4], std::uint32_t q, std::uint32_t k) {
#pragma unroll
  for (auto& block : s) {
#pragma unroll
    for (float& value : block) value = 0;
  }
#pragma unroll
  for (int i = 0; i < kDim / 16; ++i) {  // 16 elements of the head at a time
    std::uint32_t a[4];
    load_matrices(a, q + i * 16 * sizeof(Bf16));
#pragma unroll
    for (int pair = 0; pair < kKeyBlocks / 2; ++pair) {
      std::uint32_t b[4];  // b0, b1 of one block of 8 keys, then of the next
      load_matrices(b, k + (pair * 16 * tiles::kRowStride<kDim> + i * 16) * sizeof(Bf16));
      multiply_add(s[2 * pair], a, b[0], b[1]);
      multiply_add(s[2 * pair + 1], a, b[2], b[3]);
    }
  }
}

/// Keys after the row's own weigh nothing. `ahead` is how far the lane's row g stands, in the page of both,
/// ahead of its first key.
__device__ __forceinline__ void mask_later_keys(float (&s)[kKeyBlocks][4], int ahead) {
#pragma unroll
  for (int block = 0; block < kKeyBlocks; ++block) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {  // key 8 block + i % 2 from the first, row g + 8 (i / 2)
      if (block * 8 + i % 2 - i / 2 * 8 > ahead) s[block][i] = tiles::kMinusInfinity;
    }
  }
}

/// Scores become weights, and what was summed before fades accordingly.
template <int kDim>
__device__ __forceinline__ void weigh_page(RowsInProgress<kDim>& rows, float (&s)[kKeyBlocks][4],
                                           float scale) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {  // rows g, g + 8
    float highest = rows.highest[half];
#pragma unroll
    for (const auto& block : s) highest = fmaxf(highest, fmaxf(block[2 * half], block[2 * half + 1]));
    highest = tiles::highest_of_four(highest);
    const float fade = tiles::power_of_two((rows.highest[half] - highest) * scale);
    rows.highest[half] = highest;
    float weight = rows.weight[half] * fade;
#pragma unroll
    for (auto& block : s) {
#pragma unroll
      for (int i = 2 * half; i < 2 * half + 2; ++i) {
        block[i] = tiles::power_of_two((block[i] - highest) * scale);
        weight += block[i];
      }
    }
    rows.weight[half] = weight;
#pragma unroll
    for (auto& block : rows.out) {
      block[2 * half] *= fade;
      block[2 * half + 1] *= fade;
    }
  }
}

/// out += p V. `v` is the lane's address for ldmatrix.
template <int kDim>
__device__ __forceinline__ void add_values(RowsInProgress<kDim>& rows, const float (&p)[kKeyBlocks][4],
                                           std::uint32_t v) {
#pragma unroll
  for (int i = 0; i < kGrid / 16; ++i) {  // 16 keys at a time
    const std::uint32_t a[4] = {narrow(p[2 * i][0], p[2 * i][1]), narrow(p[2 * i][2], p[2 * i][3]),
                                narrow(p[2 * i + 1][0], p[2 * i + 1][1]),
                                narrow(p[2 * i + 1][2], p[2 * i + 1][3])};
#pragma unroll
    for (int pair = 0; pair < kDim / 16; ++pair) {
      std::uint32_t b[4];  // b0, b1 of 8 elements of the head, then of the next 8
      load_transposed(b, v + (i * 16 * tiles::kRowStride<kDim> + pair * 16) * sizeof(Bf16));
      multiply_add(rows.out[2 * pair], a, b[0], b[1]);
      multiply_add(rows.out[2 * pair + 1], a, b[2], b[3]);
    }
  }
}

/// Divides by the sum of weights, applies the gate and writes the warp's rows, `count` of which exist. They
/// go through `tile`, the warp's own 16 rows of shared memory, so that memory is read and written in rows.
template <int kDim>
__device__ void finish_rows(const RowsInProgress<kDim>& rows, Bf16* tile, int count, const Bf16* gate,
                            std::size_t gate_stride, Bf16* out, std::size_t out_stride) {
  constexpr int kChunks = kDim / 8;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  __syncwarp();  // the warp has read its q from here
  if (gate != nullptr) {
    for (int chunk = lane; chunk < 16 * kChunks; chunk += 32) {
      const int row = chunk / kChunks;
      const int column = chunk % kChunks * 8;
      if (row >= count) break;
      *reinterpret_cast<uint4*>(tile + row * tiles::kRowStride<kDim> + column) =
          *reinterpret_cast<const uint4*>(gate + row * gate_stride + column);
    }
    __syncwarp();
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float share = tiles::inverse(tiles::sum_of_four(rows.weight[half]));
    Bf16* row = tile + (lane / 4 + half * 8) * tiles::kRowStride<kDim> + lane % 4 * 2;
#pragma unroll
    for (int block = 0; block < kDim / 8; ++block) {
      auto* place = reinterpret_cast<std::uint32_t*>(row + block * 8);
      float first = rows.out[block][2 * half] * share;
      float second = rows.out[block][2 * half + 1] * share;
      if (gate != nullptr) {
        first *= tiles::sigmoid(tiles::first_of(*place));
        second *= tiles::sigmoid(tiles::second_of(*place));
      }
      *place = narrow(first, second);
    }
  }
  __syncwarp();
  for (int chunk = lane; chunk < 16 * kChunks; chunk += 32) {
    const int row = chunk / kChunks;
    const int column = chunk % kChunks * 8;
    if (row >= count) break;
    *reinterpret_cast<uint4*>(out + row * out_stride + column) =
        *reinterpret_cast<const uint4*>(tile + row * tiles::kRowStride<kDim> + column);
  }
}

/// Blocks are (head, tile), the last tiles first: a slice's last has the most pages.
template <int kDim>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce<kDim>)
    attend_tiles(AttentionShape shape, Batch batch, AttentionPass pass, const Bf16* q, float scale) {
  constexpr int kStride = tiles::kRowStride<kDim>;
  extern __shared__ __align__(16) Bf16 shared[];  // q, K, V: tiles of 64 rows
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int head = static_cast<int>(blockIdx.x);
  const BatchTile tile = batch.tiles[batch.tile_count - 1 - static_cast<int>(blockIdx.y)];
  const BatchSlice slice = batch.slices[tile.slice];
  const int count = min(kGrid, slice.rows - tile.first);
  const int last_page = (slice.stored + tile.first) / kGrid;  // that of the tile itself
  const int row = slice.first_row + tile.first;
  const std::size_t out_stride = static_cast<std::size_t>(shape.heads) * kDim;

  const std::uint32_t q_tile = shared_address(shared);
  const std::uint32_t k_tile = q_tile + kTileElements<kDim> * sizeof(Bf16);
  const std::uint32_t v_tile = k_tile + kTileElements<kDim> * sizeof(Bf16);
  // Addresses for ldmatrix. A of q: rows 0-7, rows 8-15, then both of the next 8 elements.
  const std::uint32_t q_lane = q_tile + ((warp * 16 + lane % 16) * kStride + lane / 16 * 8) * sizeof(Bf16);
  // B of K: 8 keys, their next 8 elements, then both of the next 8 keys.
  const std::uint32_t k_lane =
      k_tile + ((lane / 16 * 8 + lane % 8) * kStride + lane / 8 % 2 * 8) * sizeof(Bf16);
  // B of V, transposed: keys 0-7, keys 8-15, then both of the next 8 elements.
  const std::uint32_t v_lane = v_tile + (lane % 16 * kStride + lane / 16 * 8) * sizeof(Bf16);

  // Of the head's K and V in a page, in bytes.
  const int kv_head = head / (shape.heads / shape.kv_heads);
  const auto k_offset = static_cast<std::uint32_t>(shape.k_offset) + kv_head * kGrid * kDim * sizeof(Bf16);
  const auto v_offset = static_cast<std::uint32_t>(shape.v_offset) + kv_head * kGrid * kDim * sizeof(Bf16);
  // What lies in a page behind the sequence's end may be anything, and zero times that too.
  const auto copy_page = [&](std::uint32_t to, const std::byte* page, std::uint32_t offset, int index) {
    tiles::copy_rows<kDim, kGrid, kThreads>(to, reinterpret_cast<const Bf16*>(page + offset), kDim,
                                            index == last_page ? count : kGrid);
  };

  const std::byte* page = slice.pages[0];
  tiles::copy_rows<kDim, kGrid, kThreads>(q_tile, q + row * out_stride + head * kDim, out_stride, count);
  copy_page(k_tile, page, k_offset, 0);
  end_copy_group();
  copy_page(v_tile, page, v_offset, 0);
  end_copy_group();

  RowsInProgress<kDim> rows;
#pragma unroll
  for (auto& block : rows.out) {
#pragma unroll
    for (float& value : block) value = 0;
  }
  rows.highest[0] = rows.highest[1] = tiles::kMinusInfinity;
  rows.weight[0] = rows.weight[1] = 0;

  for (int index = 0; index <= last_page; ++index) {
    // Two groups are under way here: the page's keys (with q at first), then its values.
    if (index < last_page) page = slice.pages[index + 1];
    wait_for_copies<1>();
    __syncthreads();
    float s[kKeyBlocks][4];
    score_page<kDim>(s, q_lane, k_lane);
    __syncthreads();  // all have read the keys
    if (index < last_page) copy_page(k_tile, page, k_offset, index + 1);
    end_copy_group();
    if (index == last_page) mask_later_keys(s, warp * 16 + lane / 4 - 2 * (lane % 4));
    weigh_page<kDim>(rows, s, scale);
    wait_for_copies<1>();
    __syncthreads();
    add_values<kDim>(rows, s, v_lane);
    __syncthreads();  // all have read the values
    if (index < last_page) copy_page(v_tile, page, v_offset, index + 1);
    end_copy_group();
  }

  const int warp_row = row + warp * 16;
  const Bf16* gate = nullptr;
  if (shape.output_gate)
    gate = pass.projected + static_cast<std::size_t>(warp_row) * pass.stride + (2 * head + 1) * kDim;
  finish_rows<kDim>(rows, shared + warp * 16 * kStride, count - warp * 16, gate, pass.stride,
                    pass.out + warp_row * out_stride + head * kDim, out_stride);
}

template <int kDim>
void launch_tiles(const AttentionShape& shape, const Batch& batch, const AttentionPass& pass,
                  StreamHandle stream) {
  constexpr int kBytes = kSharedBytes<kDim>;
  check(cudaFuncSetAttribute(attend_tiles<kDim>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
        "shared memory of attention");
  check(cudaFuncSetAttribute(attend_tiles<kDim>, cudaFuncAttributePreferredSharedMemoryCarveout,
                             cudaSharedmemCarveoutMaxShared),
        "shared memory of attention");
  attend_tiles<kDim><<<dim3(shape.heads, batch.tile_count), kThreads, kBytes, stream>>>(
      shape, batch, pass, reinterpret_cast<const Bf16*>(pass.workspace), score_scale(shape));
}

}  // namespace

void attention_prefill(const AttentionShape& shape, const Batch& batch, const AttentionPass& pass,
                       StreamHandle stream) {
  if (batch.rows == 0) return;
  attention_prepare(shape, batch, pass, stream);
  if (batch.tile_count == 0) return;
  with_head_dim(shape.head_dim,
                [&](auto dim) { launch_tiles<decltype(dim)::value>(shape, batch, pass, stream); });
  check_launch("attention of a prefill");
}

}  // namespace reprise::gpu::cuda
