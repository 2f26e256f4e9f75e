// FlashAttention-style prefill attention.
//
// Computes: causal attention of tiles of up to 64 rows over the paged KV cache, optionally with a window and
// a gate; bf16 MMA, f32 online softmax.
//
// Chosen when: bf16 rows, and neither two_pass.cu nor prefill_wgmma.cu applies.
//
// Mapping: grid (query head, tile), 4 warps with 16 rows each; pages in ascending order.
//
// Pipeline: one K and one V buffer; K of the next page is loaded during P V, V during q K^T (cp.async).
// Quantized pages are loaded into one buffer, alternating K and V, and dequantized into one tile.
//
// Bits: the order of additions depends only on the row's position.

#include "gpu/cuda/attention/pages.cuh"
#include "gpu/cuda/attention/parts.h"
#include "gpu/cuda/attention/rows.cuh"
#include "gpu/cuda/attention/tiles.cuh"
#include "gpu/cuda/memory/error.h"
#include "gpu/cuda/memory/launch.cuh"

namespace reprise::gpu::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = 32 * kWarps;

template <KvType kKv, int kDim>
struct PrefillShared {
  using Load = PageTile<kKv, kDim, kThreads>;
  alignas(16) Bf16 q[Load::kTileElements];
  alignas(16) unsigned char keys[Load::kLandingBytes];
  alignas(16) unsigned char values[Load::kTileBytes];  // the dequantized tile, if rows are quantized
};
// Min resident blocks; registers limit large heads: a lane has kDim / 2 output elements.
template <int kDim>
constexpr int kBlocksAtOnce = kDim == 256   ? 2
                              : kDim == 128 ? 3
                                            : 4;

/// Grid: head, tile; last tiles first, because a slice's last tile has the most pages.
template <KvType kKv, int kDim, bool kWindow>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce<kDim>)
    attend_tiles(AttentionShape shape, Batch batch, AttentionPass<Bf16> pass, const Bf16* q,
                 std::byte* prefill_pages, float scale) {
  using Load = PageTile<kKv, kDim, kThreads>;
  constexpr int kStride = tiles::kRowStride<kDim>;
  constexpr int kPending = Load::kIsWidened ? 0 : 1;  // copy groups that may be in flight
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  auto& shared = *reinterpret_cast<PrefillShared<kKv, kDim>*>(shared_bytes);
  unsigned char* const keys = Load::kIsWidened ? shared.values : shared.keys;  // tile that the MMA reads
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int head = static_cast<int>(blockIdx.x);
  const BatchTile tile = batch.tiles[batch.tile_count - 1 - static_cast<int>(blockIdx.y)];
  const BatchSlice slice = batch.slices[tile.slice];
  const int count = min(kGrid, slice.rows - tile.first);
  const int last_page = (slice.stored + tile.first) / kGrid;  // page of the tile itself
  const int row = slice.first_row + tile.first;
  const std::size_t out_stride = static_cast<std::size_t>(shape.heads) * kDim;

  const std::uint32_t q_tile = shared_address(shared.q);
  const std::uint32_t k_tile = shared_address(keys);
  const std::uint32_t v_tile = shared_address(shared.values);
  // ldmatrix addresses. A of q: rows 0-7, rows 8-15, then both for the next 8 elements.
  const std::uint32_t q_lane = q_tile + ((warp * 16 + lane % 16) * kStride + lane / 16 * 8) * sizeof(Bf16);
  // B of K: 8 keys, their next 8 elements, then both for the next 8 keys.
  const std::uint32_t k_lane =
      k_tile + ((lane / 16 * 8 + lane % 8) * kStride + lane / 8 % 2 * 8) * sizeof(Bf16);
  // B of V, transposed: keys 0-7, keys 8-15, then both for the next 8 elements.
  const std::uint32_t v_lane = v_tile + (lane % 16 * kStride + lane / 16 * 8) * sizeof(Bf16);

  const int kv_head = head / (shape.heads / shape.kv_heads);
  const auto k_offset = static_cast<std::uint32_t>(shape.k_offset) + kv_head * Load::kHeadBytes;
  const auto v_offset = static_cast<std::uint32_t>(shape.v_offset) + kv_head * Load::kHeadBytes;
  // Page entries past the end of the sequence may hold anything, even NaN, so they are zeroed.
  const auto present = [&](int index) { return index == last_page ? count : kGrid; };
  const auto copy_page = [&](unsigned char* to, const std::byte* page, std::uint32_t offset, int index) {
    Load::begin_copy(to, page + offset, present(index));
  };

  const auto page_at = [&](int index) -> const std::byte* {
    if constexpr (kWindow) {
      return key_page(shape, slice, tile.slice, prefill_pages, index);
    } else {
      return slice.pages[index];
    }
  };
  const int first_position = slice.stored + tile.first;
  const int first_page = kWindow ? first_key(shape, first_position) / kGrid : 0;
  const std::byte* page = page_at(first_page);
  tiles::copy_rows<kDim, kGrid, kThreads>(q_tile, q + row * out_stride + head * kDim, out_stride, count);
  copy_page(shared.keys, page, k_offset, first_page);
  end_copy_group();
  if (!Load::kIsWidened) {
    copy_page(shared.values, page, v_offset, first_page);
    end_copy_group();
  }

  RowsInProgress<kDim> rows;
  begin_rows(rows);

  for (int index = first_page; index <= last_page; ++index) {
    // In flight: K of the page (at first with q), then V, one group each; with quantized rows only K.
    const std::byte* const current = page;
    if (index < last_page) page = page_at(index + 1);
    wait_for_copies<kPending>();
    __syncthreads();
    if constexpr (Load::kIsWidened) {
      Load::end_copy(shared.keys, keys, present(index));
      copy_page(shared.keys, current, v_offset, index);
      end_copy_group();
    }
    float s[kKeyBlocks][4];
    score_page<kDim>(s, q_lane, k_lane);
    if constexpr (!Load::kIsWidened) {
      __syncthreads();  // all have read the keys
      if (index < last_page) copy_page(shared.keys, page, k_offset, index + 1);
      end_copy_group();
    }
    if (index == last_page) mask_later_keys(s, warp * 16 + lane / 4 - 2 * (lane % 4));
    if constexpr (kWindow) {
      // `behind` of mask_earlier_keys() for the tile's first row
      const int behind = first_position + 1 - shape.window - index * kGrid;
      if (behind + kGrid > 1) mask_earlier_keys(s, behind + warp * 16 + lane / 4 - 2 * (lane % 4));
    }
    softmax_page<kDim, kWindow>(rows, s, scale);
    wait_for_copies<kPending>();
    __syncthreads();  // the values are ready; with quantized rows all have read the keys
    if constexpr (Load::kIsWidened) {
      Load::end_copy(shared.keys, shared.values, present(index));
      if (index < last_page) copy_page(shared.keys, page, k_offset, index + 1);
      end_copy_group();
    }
    add_values<kDim>(rows, s, v_lane);
    if constexpr (!Load::kIsWidened) {
      __syncthreads();  // all have read the values
      if (index < last_page) copy_page(shared.values, page, v_offset, index + 1);
      end_copy_group();
    }
  }

  const int warp_row = row + warp * 16;
  const Bf16* gate = nullptr;
  if (shape.output_gate)
    gate = pass.projected + static_cast<std::size_t>(warp_row) * pass.stride + (2 * head + 1) * kDim;
  finish_rows<kDim>(rows, shared.q + warp * 16 * kStride, count - warp * 16, gate, pass.stride,
                    pass.out + warp_row * out_stride + head * kDim, out_stride);
}

template <KvType kKv, int kDim, bool kWindow>
void launch_tiles(const AttentionShape& shape, const Batch& batch, const AttentionPass<Bf16>& pass,
                  StreamHandle stream) {
  constexpr int kBytes = sizeof(PrefillShared<kKv, kDim>);
  static_assert(kBytes <= kMinShared);
  constexpr auto kAttend = attend_tiles<kKv, kDim, kWindow>;
  allow_shared(kAttend, kBytes);
  check(cudaFuncSetAttribute(kAttend, cudaFuncAttributePreferredSharedMemoryCarveout,
                             cudaSharedmemCarveoutMaxShared),
        "shared memory of attention");
  kAttend<<<dim3(shape.heads, batch.tile_count), kThreads, kBytes, stream>>>(
      shape, batch, pass, reinterpret_cast<const Bf16*>(pass.workspace), own_pages(shape, batch, pass),
      score_scale(shape));
}

}  // namespace

void attention_prefill(const AttentionShape& shape, const Batch& batch, const AttentionPass<Bf16>& pass,
                       StreamHandle stream) {
  if (batch.rows == 0) return;
  attention_prepare(shape, batch, pass, stream);
  if (batch.tile_count == 0) return;
  if (shape.window != 0) {
    with_head_dim(shape.head_dim, [&](auto dim) {
      launch_tiles<KvType::kBF16, decltype(dim)::value, true>(shape, batch, pass, stream);
    });
    check_launch("attention of a prefill with a window");
    return keep_window(shape, batch, pass.exports, own_pages(shape, batch, pass), stream);
  }
  if (can_use_two_pass(shape, batch.tile_count, batch.longest)) {
    return attend_two_pass(shape, batch, pass, stream);
  }
  if (can_use_wgmma(shape)) return attend_by_warpgroups(shape, batch, pass, stream);
  with_rows(shape, [&](auto kv, auto dim) {
    launch_tiles<decltype(kv)::value, decltype(dim)::value, false>(shape, batch, pass, stream);
  });
  check_launch("attention of a prefill");
}

}  // namespace reprise::gpu::cuda
