// Warp-specialized wgmma attention for prefill (sm_90).
//
// Computes: the same as attend_tiles() (prefill.cu).
//
// Chosen when: bf16 rows and KV cache, head_dim 128 or 256, no window, an even number of query heads per KV
// head, and two_pass.cu does not apply.
//
// Mapping: grid (pair of query heads with one KV head, tile of up to 64 rows). Two consumer warpgroups have
// one head each, a third one is the producer.
//
// Pipeline: two stages of K and of V with full and empty mbarriers. The softmax of a page overlaps with P V
// of the previous page and with the other head.
//
// Bits: those of attend_tiles(): the same additions in the same order.

#include "gpu/cuda/attention/parts.h"
#include "gpu/cuda/attention/rows.cuh"
#include "gpu/cuda/memory/error.h"
#ifdef REPRISE_WARPGROUPS
#include "gpu/cuda/gemm/wgmma.cuh"
#include "gpu/cuda/memory/launch.cuh"
#endif

namespace reprise::gpu::cuda {

#ifdef REPRISE_WARPGROUPS
namespace {

constexpr int kHeadsAtOnce = 2;
constexpr int kGroupThreads = 128;
constexpr int kWarpgroupThreads = (kHeadsAtOnce + 1) * kGroupThreads;
constexpr int kStages = 2;
// Registers per thread of the producer and of a consumer after setmaxnreg. Together they must fit the block's
// allocation at launch, or setmaxnreg.inc blocks forever.
constexpr int kCopyRegisters = 40;
constexpr int kComputeRegisters = 232;
constexpr int kLaunchRegisters = 65536 / kWarpgroupThreads / 8 * 8;
static_assert(kHeadsAtOnce * kComputeRegisters + kCopyRegisters <= (kHeadsAtOnce + 1) * kLaunchRegisters);

template <int kDim>
struct WarpgroupShared {
  static constexpr int kTileBytes = kDim / kPanelColumns * kPanelBytes;
  static constexpr int kRowsBytes = kGrid * tiles::kRowStride<kDim> * static_cast<int>(sizeof(Bf16));
  static_assert(kRowsBytes >= kTileBytes && kRowsBytes % 1024 == 0);
  unsigned char keys[kStages][kTileBytes];
  unsigned char values[kStages][kTileBytes];
  unsigned char q[kHeadsAtOnce][kRowsBytes];  // panels; at the end the staging buffer of the output
  Barrier keys_full[kStages];
  Barrier values_full[kStages];
  Barrier keys_empty[kStages];
  Barrier values_empty[kStages];
};
template <int kDim>
// with padding for alignment to 1,024
constexpr int kWarpgroupBytes = static_cast<int>(sizeof(WarpgroupShared<kDim>)) + 1024;

struct TileOfPair {
  BatchSlice slice;
  int count;
  int last_page;  // page of the tile itself
  int row;        // first row in the batch

  __device__ explicit TileOfPair(const Batch& batch) {
    const BatchTile tile = batch.tiles[batch.tile_count - 1 - static_cast<int>(blockIdx.y)];
    slice = batch.slices[tile.slice];
    count = min(kGrid, slice.rows - tile.first);
    last_page = (slice.stored + tile.first) / kGrid;
    row = slice.first_row + tile.first;
  }
};

/// Starts the copy of 64 rows of kDim elements, `stride` elements apart, to swizzled panels, by one
/// warpgroup. Rows from `present` on become zero and are not read.
template <int kDim>
__device__ __forceinline__ void copy_panels(std::uint32_t to, const Bf16* from, std::size_t stride,
                                            int present) {
  constexpr int kPieces = kDim / 8;
  const int thread = static_cast<int>(threadIdx.x) % kGroupThreads;
  const int piece = thread % kPieces;
  const std::uint32_t panel = to + piece / 8 * kPanelBytes;
#pragma unroll 4
  for (int i = 0; i < kGrid * kPieces / kGroupThreads; ++i) {
    const int row = i * (kGroupThreads / kPieces) + thread / kPieces;
    copy_chunk(panel + swizzled_offset(row, piece % 8), from + row * stride + piece * 8, row < present);
  }
}

template <int kDim>
__device__ __forceinline__ void load_pages(WarpgroupShared<kDim>& shared, const AttentionShape& shape,
                                           const TileOfPair& tile, int kv_head) {
  constexpr std::size_t kHeadBytes = static_cast<std::size_t>(kGrid) * kDim * sizeof(Bf16);
  const std::size_t k_offset = shape.k_offset + kv_head * kHeadBytes;
  const std::size_t v_offset = shape.v_offset + kv_head * kHeadBytes;
  const std::byte* page = tile.slice.pages[0];
  for (int index = 0; index <= tile.last_page; ++index) {
    const std::byte* next = index < tile.last_page ? tile.slice.pages[index + 1] : nullptr;
    const int stage = index % kStages;
    const int time = index / kStages;
    // Page entries past the end of the sequence may hold anything, even NaN, so they are zeroed.
    const int present = index == tile.last_page ? tile.count : kGrid;
    if (time > 0) shared.keys_empty[stage].wait(time - 1);
    copy_panels<kDim>(shared_address(shared.keys[stage]), reinterpret_cast<const Bf16*>(page + k_offset),
                      kDim, present);
    shared.keys_full[stage].arrive_after_copies();
    if (time > 0) shared.values_empty[stage].wait(time - 1);
    copy_panels<kDim>(shared_address(shared.values[stage]), reinterpret_cast<const Bf16*>(page + v_offset),
                      kDim, present);
    shared.values_full[stage].arrive_after_copies();
    page = next;
  }
}

/// Waits for the keys of page `index` and starts s = q K^T.
template <int kDim>
__device__ __forceinline__ void begin_scores(WarpgroupShared<kDim>& shared, float (&s)[kKeyBlocks][4],
                                             std::uint64_t q, int index) {
  const int stage = index % kStages;
  const std::uint64_t keys = panels_at(shared_address(shared.keys[0]) + stage * shared.kTileBytes);
  shared.keys_full[stage].wait(index / kStages);
  make_visible_to_wgmma();
  begin_products();
#pragma unroll
  for (int i = 0; i < kDim / 16; ++i) {
    const int at = i / 4 * kPanelBytes + i % 4 * 32;
    PanelProduct<64>::multiply(s, advance_descriptor(q, at), advance_descriptor(keys, at), i > 0);
  }
  end_products();
}

/// Waits for the values of page `index` and starts out += P V.
template <int kDim>
__device__ __forceinline__ void begin_values(WarpgroupShared<kDim>& shared, RowsInProgress<kDim>& rows,
                                             const std::uint32_t (&p)[kGrid / 16][4], int index) {
  const int stage = index % kStages;
  const std::uint64_t values = panels_at(shared_address(shared.values[0]) + stage * shared.kTileBytes);
  shared.values_full[stage].wait(index / kStages);
  make_visible_to_wgmma();
  begin_products();
#pragma unroll
  for (int i = 0; i < kGrid / 16; ++i) {
    ValueProduct<kDim>::multiply_add(rows.out, p[i], advance_descriptor(values, i * 16 * 128));
  }
  end_products();
}

/// Releases a stage; called by all lanes of a warp.
__device__ __forceinline__ void release(Barrier& barrier) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) barrier.arrive();
}

__device__ __forceinline__ void sync_warpgroup(int which) {
  if (which == 0) {
    asm volatile("bar.sync 1, %0;" ::"n"(kGroupThreads) : "memory");
  } else {
    asm volatile("bar.sync 2, %0;" ::"n"(kGroupThreads) : "memory");
  }
}

template <int kDim>
__device__ __forceinline__ void attend_head(WarpgroupShared<kDim>& shared, const AttentionShape& shape,
                                            const TileOfPair& tile, const AttentionPass<Bf16>& pass,
                                            const Bf16* q, int which, float scale) {
  const int warp = static_cast<int>(threadIdx.x) % kGroupThreads / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int ahead = warp * 16 + lane / 4 - 2 * (lane % 4);
  const int head = static_cast<int>(blockIdx.x) * kHeadsAtOnce + which;
  const std::size_t out_stride = static_cast<std::size_t>(shape.heads) * kDim;
  copy_panels<kDim>(shared_address(shared.q[which]), q + tile.row * out_stride + head * kDim, out_stride,
                    tile.count);
  end_copy_group();
  wait_for_copies<0>();
  make_visible_to_wgmma();
  sync_warpgroup(which);

  const std::uint64_t q_panels = panels_at(shared_address(shared.q[which]));
  RowsInProgress<kDim> rows;
  begin_rows(rows);
  float s[kKeyBlocks][4];
  std::uint32_t p[kGrid / 16][4];  // probabilities of a page, rounded
  float rescale[2];
  begin_scores(shared, s, q_panels, 0);
  wait_for_products<0>();
  settle(s);
  release(shared.keys_empty[0]);
  if (tile.last_page == 0) mask_later_keys(s, ahead);
  softmax_step(rows, s, scale, rescale);
#pragma unroll
  for (int i = 0; i < kGrid / 16; ++i) narrow_probabilities(p[i], s, i);
  for (int index = 0; index < tile.last_page; ++index) {
    begin_scores(shared, s, q_panels, index + 1);
    begin_values(shared, rows, p, index);
    wait_for_products<1>();
    settle(s);
    release(shared.keys_empty[(index + 1) % kStages]);
    if (index + 1 == tile.last_page) mask_later_keys(s, ahead);
    softmax_step(rows, s, scale, rescale);
    wait_for_products<0>();
    settle(rows.out);
    release(shared.values_empty[index % kStages]);
    rescale_rows(rows, rescale);
#pragma unroll
    for (int i = 0; i < kGrid / 16; ++i) narrow_probabilities(p[i], s, i);
  }
  begin_values(shared, rows, p, tile.last_page);
  wait_for_products<0>();
  settle(rows.out);

  sync_warpgroup(which);  // q has been read
  const int warp_row = tile.row + warp * 16;
  const Bf16* gate = nullptr;
  if (shape.output_gate) {
    gate = pass.projected + static_cast<std::size_t>(warp_row) * pass.stride + (2 * head + 1) * kDim;
  }
  auto* staging = reinterpret_cast<Bf16*>(shared.q[which]) + warp * 16 * tiles::kRowStride<kDim>;
  finish_rows<kDim>(rows, staging, tile.count - warp * 16, gate, pass.stride,
                    pass.out + warp_row * out_stride + head * kDim, out_stride);
}

/// Grid: pair of heads, tile; last tiles first, because a slice's last tile has the most pages.
template <int kDim>
__global__ void __launch_bounds__(kWarpgroupThreads, 1)
    attend_pairs(AttentionShape shape, Batch batch, AttentionPass<Bf16> pass, const Bf16* q, float scale) {
  extern __shared__ __align__(16) unsigned char warpgroup_memory[];
  auto& shared = *reinterpret_cast<WarpgroupShared<kDim>*>(
      warpgroup_memory + (1024 - shared_address(warpgroup_memory) % 1024) % 1024);
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      shared.keys_full[i].init(kGroupThreads);
      shared.values_full[i].init(kGroupThreads);
      shared.keys_empty[i].init(kHeadsAtOnce * kGroupThreads / 32);
      shared.values_empty[i].init(kHeadsAtOnce * kGroupThreads / 32);
    }
  }
  __syncthreads();
  const TileOfPair tile(batch);
  const int which = static_cast<int>(threadIdx.x) / kGroupThreads;
  if (which == kHeadsAtOnce) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCopyRegisters));
    const int kv_head = static_cast<int>(blockIdx.x) * kHeadsAtOnce / (shape.heads / shape.kv_heads);
    load_pages<kDim>(shared, shape, tile, kv_head);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kComputeRegisters));
    attend_head<kDim>(shared, shape, tile, pass, q, which, scale);
  }
}

template <int kDim>
void launch_pairs(const AttentionShape& shape, const Batch& batch, const AttentionPass<Bf16>& pass,
                  StreamHandle stream) {
  constexpr auto kAttend = attend_pairs<kDim>;
  allow_shared(kAttend, kWarpgroupBytes<kDim>);
  kAttend<<<dim3(shape.heads / kHeadsAtOnce, batch.tile_count), kWarpgroupThreads, kWarpgroupBytes<kDim>,
            stream>>>(shape, batch, pass, reinterpret_cast<const Bf16*>(pass.workspace), score_scale(shape));
}

}  // namespace

bool can_use_wgmma(const AttentionShape& shape) {
  if (shape.kv != KvType::kBF16 || shape.window != 0 || shape.group() % kHeadsAtOnce != 0) return false;
  if (shape.head_dim != 128 && shape.head_dim != 256) return false;
  return has_warpgroups() && max_shared() >= kWarpgroupBytes<256>;
}

void attend_by_warpgroups(const AttentionShape& shape, const Batch& batch, const AttentionPass<Bf16>& pass,
                          StreamHandle stream) {
  if (shape.head_dim == 128) {
    launch_pairs<128>(shape, batch, pass, stream);
  } else {
    launch_pairs<256>(shape, batch, pass, stream);
  }
  check_launch("attention of a prefill by warpgroups");
}

#else

bool can_use_wgmma(const AttentionShape&) {
  return false;
}

void attend_by_warpgroups(const AttentionShape&, const Batch&, const AttentionPass<Bf16>&, StreamHandle) {
  REPRISE_CHECK(false, "wgmma attention was not compiled into this build");
}

#endif

}  // namespace reprise::gpu::cuda
