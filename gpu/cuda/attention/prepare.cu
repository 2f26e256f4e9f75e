// Steps before and after attention.
//
// Computes: RoPE tables; norm and RoPE of q and k; the append of K and V to the pages (prepare_heads, one
// warp per head and row). After a windowed prefill: the copy of its last rows into the ring (keep_last_rows),
// and of rings as of positions inside its slices (export_ring). Also checks AttentionShape.

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "gpu/cuda/attention/attention.h"
#include "gpu/cuda/attention/heads.cuh"
#include "gpu/cuda/attention/kv_rows.cuh"
#include "gpu/cuda/attention/pages.cuh"
#include "gpu/cuda/attention/parts.h"
#include "gpu/cuda/attention/tiles.cuh"
#include "gpu/cuda/memory/error.h"
#include "gpu/cuda/memory/launch.cuh"

namespace reprise::gpu::cuda {
namespace {

constexpr int kWarps = 8;  // per block of prepare_heads
constexpr int kMaxHeadsOfGroup = 16;

/// Returns the destination of a row's key or value. `offset`: that of K or V in a page.
template <int kElement>
__device__ std::byte* row_in_page(const AttentionShape& shape, const Batch& batch, int row, int kv_head,
                                  std::size_t offset, std::byte* prefill_pages, int row_bytes) {
  const BatchSlice& slice = batch.slices[batch.row_slice[row]];
  const int position = slice.stored + row - slice.first_row;
  return key_page<kElement>(shape, slice, batch.row_slice[row], prefill_pages, position / kGrid) + offset +
         static_cast<std::size_t>(kv_head * kGrid + position % kGrid) * row_bytes;
}

/// Storage type of q between prepare_heads and attention.
template <class Row>
inline constexpr KvType kKeptQ = std::is_same_v<Row, float> ? KvType::kF32 : KvType::kBF16;

/// One warp per head of q, k and v of each row.
template <class Row, KvType kKv, int kDim>
__global__ void __launch_bounds__(32 * kWarps)
    prepare_heads(AttentionShape shape, Batch batch, AttentionPass<Row> pass, Row* q,
                  std::byte* prefill_pages) {
  pdl_wait();
  pdl_launch_dependents();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int per_row = shape.heads + 2 * shape.kv_heads;
  const int item = static_cast<int>(blockIdx.x) * kWarps + warp;
  if (item >= batch.rows * per_row) return;
  const int row = item / per_row;
  if (batch.row_slice[row] == kNoSlice) return;
  const int head = item % per_row;  // heads of q, then of k, then of v
  const int kv_head = head - shape.heads;
  const bool is_q = kv_head < 0;
  const bool is_value = kv_head >= shape.kv_heads;

  const int pitch = shape.output_gate ? 2 * kDim : kDim;  // elements between heads of q
  const int source = is_q ? head * pitch : shape.heads * pitch + kv_head * kDim;
  const EightOfHead read =
      read_head<kDim>(pass.projected + static_cast<std::size_t>(row) * pass.stride + source, lane);
  using Kept = KvRow<kKv, kDim>;
  constexpr int kElement = kElementInRing<kKv>;
  std::byte* to = nullptr;
  if (is_q) {
    to = reinterpret_cast<std::byte*>(q + (static_cast<std::size_t>(row) * shape.heads + head) * kDim);
  } else if (is_value) {
    to = row_in_page<kElement>(shape, batch, row, kv_head - shape.kv_heads, shape.v_offset, prefill_pages,
                               Kept::kBytes);
  } else {
    to = row_in_page<kElement>(shape, batch, row, kv_head, shape.k_offset, prefill_pages, Kept::kBytes);
  }
  if (is_value) return Kept::store(to, lane, read.x);
  const std::size_t first_angle = static_cast<std::size_t>(row) * shape.rope_pairs;
  const EightOfHead ready =
      prepare_head<kDim>(read, shape, is_q ? pass.q_norm : pass.k_norm, pass.rope_cos + first_angle,
                         pass.rope_sin + first_angle, lane);
  if (is_q) {
    KvRow<kKeptQ<Row>, kDim>::store(to, lane, ready.x);
  } else {
    Kept::store(to, lane, ready.x);
  }
}

__global__ void make_rope_table(RopeRows rope, int rows) {
  pdl_wait();
  pdl_launch_dependents();
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < rows * rope.pairs) put_rope_entry(rope, i / rope.pairs, i % rope.pairs);
}

}  // namespace

template <class Row>
bool attention_supports(const AttentionShape& shape) {
  switch (shape.head_dim) {
    case 16:
    case 32:
    case 64:
    case 128:
    case 256:
      break;
    default:
      return false;
  }
  constexpr bool kIsPrecise = std::is_same_v<Row, float>;
  return shape.kv_heads > 0 && shape.heads > 0 && shape.heads % shape.kv_heads == 0 &&
         shape.group() <= kMaxHeadsOfGroup && shape.score_multiplier > 0 && shape.rope_pairs >= 0 &&
         2 * shape.rope_pairs <= shape.head_dim && (shape.kv != KvType::kF32 || kIsPrecise) &&
         shape.k_offset % 16 == 0 && shape.v_offset % 16 == 0 &&
         (shape.window == 0 ||
          (shape.window > 0 && !is_quantized(shape.kv) &&
           shape.ring_pages * kGrid >= shape.window + kGrid - 1 && shape.ring_offset % 16 == 0 &&
           shape.k_offset == 0 && 2 * shape.v_offset == kGrid * shape.token_bytes()));
}
template bool attention_supports<Bf16>(const AttentionShape&);
template bool attention_supports<float>(const AttentionShape&);

template <class Row>
std::size_t attention_workspace(const AttentionShape& shape, int rows, int tiles, int longest) {
  if (tiles > 0 && shape.window != 0) {
    return q_bytes<Row>(shape, rows) + own_pages_bytes(shape, rows, tiles);
  }
  if constexpr (std::is_same_v<Row, float>) return q_bytes<Row>(shape, rows);
  return q_bytes(shape, rows) +
         (tiles > 0 ? two_pass_bytes(shape, tiles, longest) : partial_bytes(shape, rows, longest));
}
template std::size_t attention_workspace<Bf16>(const AttentionShape&, int, int, int);
template std::size_t attention_workspace<float>(const AttentionShape&, int, int, int);

float score_scale(const AttentionShape& shape) {
  return shape.score_multiplier * (tiles::kLog2OfE / std::sqrt(static_cast<float>(shape.head_dim)));
}

template <class Row>
void check_pass(const AttentionShape& shape, const AttentionPass<Row>& pass) {
  REPRISE_CHECK(attention_supports<Row>(shape), "attention has no kernel for this shape");
  const auto is_aligned = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; };
  REPRISE_CHECK(pass.stride * sizeof(Row) % 16 == 0 && is_aligned(pass.projected) && is_aligned(pass.out),
                "the rows of attention are not aligned to 16 bytes");
  REPRISE_CHECK(reinterpret_cast<std::uintptr_t>(pass.workspace) % 256 == 0,
                "the workspace of attention is not aligned to 256 bytes");
}
template void check_pass(const AttentionShape&, const AttentionPass<Bf16>&);
template void check_pass(const AttentionShape&, const AttentionPass<float>&);

template <class Row>
void attention_prepare(const AttentionShape& shape, const Batch& batch, const AttentionPass<Row>& pass,
                       StreamHandle stream) {
  check_pass(shape, pass);
  const int items = batch.rows * (shape.heads + 2 * shape.kv_heads);
  with_rows<Row>(shape, [&](auto kv, auto dim) {
    launch_after(prepare_heads<Row, decltype(kv)::value, decltype(dim)::value>,
                 {.blocks = dim3((items + kWarps - 1) / kWarps), .threads = 32 * kWarps}, stream, shape,
                 batch, pass, reinterpret_cast<Row*>(pass.workspace), own_pages(shape, batch, pass));
  });
}
template void attention_prepare(const AttentionShape&, const Batch&, const AttentionPass<Bf16>&,
                                StreamHandle);
template void attention_prepare(const AttentionShape&, const Batch&, const AttentionPass<float>&,
                                StreamHandle);

void rope_table(const RopeRows& rope, int rows, StreamHandle stream) {
  const int count = rows * rope.pairs;
  if (count == 0) return;
  constexpr int kThreads = 256;
  launch_after(make_rope_table, {.blocks = dim3((count + kThreads - 1) / kThreads), .threads = kThreads},
               stream, rope, rows);
}

namespace {

constexpr int kKeepThreads = 256;

/// Grid: tiles. Copies the rows that remain in the ring; rows that later rows of the slice overwrite are
/// skipped, so no two blocks write the same entry.
template <int kElement>
__global__ void __launch_bounds__(kKeepThreads)
    keep_last_rows(AttentionShape shape, Batch batch, std::byte* prefill_pages) {
  const BatchTile tile = batch.tiles[blockIdx.x];
  const BatchSlice slice = batch.slices[tile.slice];
  const int page = (slice.stored + tile.first) / kGrid;
  const int first = slice.stored + slice.rows - shape.ring_pages * kGrid;  // first position that stays
  const int count = min(kGrid, slice.rows - tile.first);
  const auto* from =
      reinterpret_cast<const uint4*>(key_page<kElement>(shape, slice, tile.slice, prefill_pages, page));
  auto* to = reinterpret_cast<uint4*>(key_page<kElement>(shape, slice, tile.slice, nullptr, page));
  // 16-byte units of a row of one head
  const int chunks = shape.head_dim * kElement / static_cast<int>(sizeof(uint4));
  const int all = 2 * shape.kv_heads * kGrid * chunks;
  for (int i = static_cast<int>(threadIdx.x); i < all; i += kKeepThreads) {
    const int row = i / chunks % kGrid;
    if (row < count && page * kGrid + row >= first) to[i] = from[i];
  }
}

/// Grid: tiles, pages of the ring. Copies the ring as of the end of a tile to the exported slot: pages of the
/// slice itself and, before them, the sequence's ring, which keep_last_rows has not changed yet.
template <int kElement>
__global__ void __launch_bounds__(kKeepThreads)
    export_ring(AttentionShape shape, Batch batch, SlotExports exports, std::byte* prefill_pages) {
  std::byte* const destination = export_after_tile(exports, blockIdx.x);
  if (destination == nullptr) return;
  const BatchTile tile = batch.tiles[blockIdx.x];
  const BatchSlice slice = batch.slices[tile.slice];
  const int page = (slice.stored + tile.first) / kGrid - static_cast<int>(blockIdx.y);
  if (page < 0) return;  // before the sequence: stays zero
  BatchSlice exported = slice;
  exported.slot = destination;
  const auto* from =
      reinterpret_cast<const uint4*>(key_page<kElement>(shape, slice, tile.slice, prefill_pages, page));
  auto* to = reinterpret_cast<uint4*>(key_page<kElement>(shape, exported, tile.slice, nullptr, page));
  const int chunks = shape.head_dim * kElement / static_cast<int>(sizeof(uint4));
  const int all = 2 * shape.kv_heads * kGrid * chunks;
  for (int i = static_cast<int>(threadIdx.x); i < all; i += kKeepThreads) to[i] = from[i];
}

template <int kElement>
void keep_rows(const AttentionShape& shape, const Batch& batch, const SlotExports& exports,
               std::byte* prefill_pages, StreamHandle stream) {
  if (exports.tiles != nullptr) {
    const dim3 rings(static_cast<unsigned>(batch.tile_count), static_cast<unsigned>(shape.ring_pages));
    export_ring<kElement><<<rings, kKeepThreads, 0, stream>>>(shape, batch, exports, prefill_pages);
    check_launch("the rings inside a prefill");
  }
  const auto tiles = static_cast<unsigned>(batch.tile_count);
  keep_last_rows<kElement><<<tiles, kKeepThreads, 0, stream>>>(shape, batch, prefill_pages);
  check_launch("the window of a prefill");
}

}  // namespace

std::size_t own_pages_bytes(const AttentionShape& shape, int rows, int tile_count) {
  return static_cast<std::size_t>(rows + tile_count * kGrid) * shape.token_bytes();
}

void keep_window(const AttentionShape& shape, const Batch& batch, const SlotExports& exports,
                 std::byte* prefill_pages, StreamHandle stream) {
  const auto keep = shape.kv == KvType::kF32 ? keep_rows<kElementInRing<KvType::kF32>>
                                             : keep_rows<kElementInRing<KvType::kBF16>>;
  keep(shape, batch, exports, prefill_pages, stream);
}

}  // namespace reprise::gpu::cuda
