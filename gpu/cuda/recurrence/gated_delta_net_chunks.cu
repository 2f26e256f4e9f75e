// Chunked delta rule of Gated DeltaNet, for prefill.
//
// Computes: the gated delta rule over chunks of 64 tokens in two kernels; bf16 MMA with f32 accumulators, f32
// operands split into two bf16.
//
// Mapping: chunk_matrices() computes T and P of all chunks in parallel, grid (value head, tile, T or P).
// scan_chunks() walks the chunks of a slice and carries the state, grid (strip of 16 or 32 value columns of a
// head, slice), 8 warps.
//
// Pipeline: scan_chunks() double-buffers a chunk's operands with cp.async (one buffer on GPUs with little
// shared memory); q, k and v are loaded before the PDL wait.
//
// Bits: chunks are anchored to the grid, and columns are independent, so the strip width does not matter.

#include "gpu/cuda/memory/launch.cuh"
#include "gpu/cuda/recurrence/chunk_triangles.cuh"
#include "gpu/cuda/recurrence/gated_delta_net.cuh"

namespace reprise::gpu::cuda {
namespace {

// chunk_matrices(). With G the prefix sum of g in the chunk and D_ij = exp(G_i - G_j):
//   L = strictly lower part of beta_i (k_i . k_j) D_ij
//   T = (I + L)^-1                               in f32 (chunk_triangles.cuh)
//   P = lower part, with the diagonal, of (q_i . k_j) D_ij
// T, P (as A fragments, gated_delta_net.cuh) and G go to the workspace. Masked elements are never passed to
// exp, which may overflow above the diagonal.

constexpr int kMatrixThreads = 256;
constexpr int kFewBlocks = 66;  // blocks of the scan: half of an H200's SMs

/// G of a chunk by a warp, two adjacent tokens per lane. Summed sequentially, so that the difference of
/// adjacent sums has a single rounding, which matters for strong decays.
__device__ inline float2 sum_decays_of(float2 g, int lane) {
  float2 own = {0.0F, 0.0F};
  float sum = 0.0F;
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    sum += __shfl_sync(kWholeWarp, g.x, i);
    if (i == lane) own.x = sum;
    sum += __shfl_sync(kWholeWarp, g.y, i);
    if (i == lane) own.y = sum;
  }
  return own;
}

/// Products of two operands in 16 x 16 blocks at and below the diagonal, up to two adjacent ones per warp:
/// use(column_block, values) with values as for store_block(). Two of the eight warps have none.
template <int kKeyDim, class Use>
__device__ inline void multiply_two_blocks(std::uint32_t rows, std::uint32_t keys, int row_block,
                                           int column_block, int lane, const Use& use) {
  constexpr int kRow = kPaddedKeyRow<kKeyDim>;
  // ldmatrix addresses as in multiply_lower().
  const std::uint32_t a_at = rows + (16 * row_block + (lane & 15)) * kRow + (lane >> 4) * 16;
  const std::uint32_t b_at =
      keys + (16 * column_block + (lane & 7) + (lane >> 4) * 8) * kRow + ((lane >> 3) & 1) * 16;
  float dot[2][2][4] = {};
#pragma unroll
  for (int step = 0; step < kKeyDim / 16; ++step) {
    std::uint32_t a[4];
    load_matrices(a, a_at + step * 32);
#pragma unroll
    for (int c = 0; c < 2; ++c) {  // the second may be above the diagonal and is then dropped
      std::uint32_t b[4];
      load_matrices(b, b_at + c * 16 * kRow + step * 32);
      multiply_add(dot[c][0], a, b[0], b[1]);
      multiply_add(dot[c][1], a, b[2], b[3]);
    }
  }
#pragma unroll
  for (int c = 0; c < 2; ++c) {
    if (column_block + c > row_block) continue;
    float values[4][2];
#pragma unroll
    for (int e = 0; e < 8; ++e) values[e / 2][e % 2] = dot[c][e / 4][e % 4];
    use(column_block + c, values);
  }
}

/// Grid: value heads, tiles, T or P.
template <int kKeyDim>
__global__ void __launch_bounds__(kMatrixThreads)
    chunk_matrices(GatedDeltaNetSizes sizes, PrefillSpace space) {
  constexpr int kRow = kPaddedKeyRow<kKeyDim>;
  constexpr int kLBytes = 64 * kLRow * 4;
  constexpr int kSolveBytes = (64 * kTRow + kProductFloats) * 4;
  static_assert(64 * kRow <= kLBytes && 64 * kRow <= kSolveBytes);
  // Q or, for T, L^T; then K and, once L is complete, T.
  __shared__ __align__(16) std::byte memory[kLBytes + kSolveBytes];
  __shared__ float sums[64];
  __shared__ float betas[64];

  const int head = static_cast<int>(blockIdx.x);
  const std::size_t tile = blockIdx.y;
  const bool for_p = blockIdx.z != 0;
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32;
  const int lane = thread % 32;
  const std::size_t keys_at = (tile * sizes.key_heads + head / sizes.group) * 64 * kKeyDim;
  const std::size_t chunk = tile * sizes.value_heads + head;

  pdl_wait();
  pdl_launch_dependents();
  const std::uint32_t q_at = shared_address(memory);
  const std::uint32_t k_at = q_at + kLBytes;
  constexpr int kPieces = kKeyDim / 8;
#pragma unroll
  for (int i = thread; i < 64 * kPieces; i += kMatrixThreads) {
    const int to = i / kPieces * kRow + i % kPieces * 16;
    copy_chunk(k_at + to, space.k + keys_at + i * 8);
    if (for_p) copy_chunk(q_at + to, space.q + keys_at + i * 8);
  }
  end_copy_group();
  if (warp == 0) {
    const std::size_t at = chunk * 64 + 2 * lane;
    const float2 sum = sum_decays_of(*reinterpret_cast<const float2*>(space.g + at), lane);
    *reinterpret_cast<float2*>(sums + 2 * lane) = sum;
    if (!for_p) *reinterpret_cast<float2*>(space.sums + at) = sum;
  } else if (warp == 1) {
    *reinterpret_cast<float2*>(betas + 2 * lane) =
        *reinterpret_cast<const float2*>(space.beta + chunk * 64 + 2 * lane);
  }
  wait_for_copies<0>();
  __syncthreads();

  std::byte* matrices = space.matrices + chunk * kChunkMatrixBytes;
  const int r = lane / 4;
  const int p = 2 * (lane % 4);
  // Element e of `values`: a0, a1, a2, a3 have two each.
  const auto row_of = [&](int row_block, int e) { return 16 * row_block + r + e / 2 % 2 * 8; };
  const auto column_of = [&](int column_block, int e) { return 16 * column_block + p + e / 4 * 8 + e % 2; };
  // Warps 0 to 5 have row blocks 0, 1, 2, 2, 3, 3.
  const int row_block = warp < 2 ? warp : warp / 2 + 1;
  const int column_block = warp < 2 ? 0 : warp % 2 * 2;
  if (for_p) {
    if (warp >= 6) return;
    multiply_two_blocks<kKeyDim>(q_at, k_at, row_block, column_block, lane, [&](int c, float(&values)[4][2]) {
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int i = row_of(row_block, e);
        const int j = column_of(c, e);
        values[e / 2][e % 2] = j <= i ? values[e / 2][e % 2] * expf(sums[i] - sums[j]) : 0.0F;
      }
      store_block(matrices, 1, block_index(row_block, c), lane, values);
    });
    return;
  }

  auto* lower = reinterpret_cast<float*>(memory);
  auto* inverse = reinterpret_cast<float*>(memory + kLBytes);
  if (warp < 6) {
    multiply_two_blocks<kKeyDim>(k_at, k_at, row_block, column_block, lane, [&](int c, float(&values)[4][2]) {
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int i = row_of(row_block, e);
        const int j = column_of(c, e);
        lower[j * kLRow + i] = j < i ? betas[i] * values[e / 2][e % 2] * expf(sums[i] - sums[j]) : 0.0F;
      }
    });
  }
  __syncthreads();  // L is complete, K is no longer needed
  invert_chunk(lower, inverse, inverse + 64 * kTRow);
  for (int block = warp; block < kBlocks; block += kMatrixThreads / 32) {
    const int rows = block < 1 ? 0 : block < 3 ? 1 : block < 6 ? 2 : 3;
    const int columns = block - block_index(rows, 0);
    float values[4][2];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 two =
          *reinterpret_cast<const float2*>(inverse + row_of(rows, 2 * i) * kTRow + column_of(columns, 2 * i));
      values[i][0] = two.x;
      values[i][1] = two.y;
    }
    store_block(matrices, 0, block, lane, values);
  }
}

// scan_chunks(). With S the f32 state of a value head and X, R, V', O of 64 rows, on a strip of value
// columns:
//   X = K S;  R = beta (V - e^G X);  V' = T R
//   O = e^G (Q S) + P V';  S = e^{G_63} S + K^T (e^{G_63 - G} V')
// K, Q and V are bf16; S, R, V', T and P are split into two bf16 each.
//
// Warp w has 16 rows (row_block) and half of the columns of X, R, V' and O, and rows 16 w ... 16 w + 15 of S
// as C fragments in registers.

constexpr int kScanThreads = 256;

/// Shared memory: one or two stages of a chunk's operands. A single stage is refilled at the end of the
/// chunk.
template <int kKeyDim, int kColumns, int kStages>
struct ScanMemory {
  // padding: eight rows of 16 bytes hit every bank once
  static constexpr int kKeyRow = kKeyDim * 2 + 16;
  static constexpr int kRow = kColumns * 2 + 16;
  // In a stage:
  static constexpr int kK = 0;
  static constexpr int kQ = kK + 64 * kKeyRow;
  static constexpr int kV = kQ + 64 * kKeyRow;
  static constexpr int kMatrices = kV + 64 * kRow;
  static constexpr int kG = kMatrices + kChunkMatrixBytes;
  static constexpr int kBeta = kG + 64 * 4;
  static constexpr int kStage = kBeta + 64 * 4;
  // After the stages, split operands, high rows before low rows: S [key_dim, columns]; V', e^{G_63 - G} V'
  // and R [64, columns]. In wide strips V' and the rest overlay S once X and Q S are done.
  static constexpr int kS = kStages * kStage;
  static constexpr bool kNarrow = kColumns == 16;
  static constexpr int kNew = kNarrow ? kS + 2 * kKeyDim * kRow : kS;
  static constexpr int kDecayed = kNew + 128 * kRow;
  static constexpr int kR = kDecayed + 128 * kRow;
  static constexpr int kBytes = kR + 128 * kRow;
  static_assert(2 * kKeyDim <= 256);
};

/// Starts the copies of k, q, v and beta of chunk `tile`.
template <int kKeyDim, int kColumns, int kStages>
__device__ void load_rows(const GatedDeltaNetSizes& sizes, const PrefillSpace& space, std::size_t tile,
                          int head, int first_column, std::uint32_t stage) {
  using Memory = ScanMemory<kKeyDim, kColumns, kStages>;
  const int thread = static_cast<int>(threadIdx.x);
  const std::size_t keys_at = (tile * sizes.key_heads + head / sizes.group) * 64 * kKeyDim;
  const std::size_t chunk = tile * sizes.value_heads + head;
  constexpr int kPieces = kKeyDim / 8;
  for (int i = thread; i < 64 * kPieces; i += kScanThreads) {
    const int to = i / kPieces * Memory::kKeyRow + i % kPieces * 16;
    copy_chunk(stage + Memory::kK + to, space.k + keys_at + i * 8);
    copy_chunk(stage + Memory::kQ + to, space.q + keys_at + i * 8);
  }
  constexpr int kValuePieces = kColumns / 8;
  const __nv_bfloat16* values = space.v + chunk * 64 * sizes.value_dim + first_column;
  for (int i = thread; i < 64 * kValuePieces; i += kScanThreads) {
    const int row = i / kValuePieces;
    const int piece = i % kValuePieces;
    copy_chunk(stage + Memory::kV + row * Memory::kRow + piece * 16,
               values + row * sizes.value_dim + piece * 8);
  }
  if (thread < 16) copy_chunk(stage + Memory::kBeta + thread * 16, space.beta + chunk * 64 + thread * 4);
}

/// Starts the copies of T, P and G; commits one group with those of load_rows().
template <int kKeyDim, int kColumns, int kStages>
__device__ void load_matrices_of(const GatedDeltaNetSizes& sizes, const PrefillSpace& space, std::size_t tile,
                                 int head, std::uint32_t stage) {
  using Memory = ScanMemory<kKeyDim, kColumns, kStages>;
  const int thread = static_cast<int>(threadIdx.x);
  const std::size_t chunk = tile * sizes.value_heads + head;
  const std::byte* matrices = space.matrices + chunk * kChunkMatrixBytes;
  for (int i = thread; i < kChunkMatrixBytes / 16; i += kScanThreads) {
    copy_chunk(stage + Memory::kMatrices + i * 16, matrices + i * 16);
  }
  if (thread < 16) copy_chunk(stage + Memory::kG + thread * 16, space.sums + chunk * 64 + thread * 4);
  end_copy_group();
}

template <int kKeyDim, int kColumns, int kStages>
__device__ void load_chunk(const GatedDeltaNetSizes& sizes, const PrefillSpace& space, std::size_t tile,
                           int head, int first_column, std::uint32_t stage) {
  load_rows<kKeyDim, kColumns, kStages>(sizes, space, tile, head, first_column, stage);
  load_matrices_of<kKeyDim, kColumns, kStages>(sizes, space, tile, head, stage);
}

/// A lane's part of a row of blocks of a triangular matrix. kEarly: prefetched into registers, with the same
/// bits.
template <bool kEarly>
struct TriangleRow {
  const std::byte* from;
  int row_block;
  SplitFragment blocks[kEarly ? 4 : 1];

  /// matrix: its high blocks, followed by the low ones.
  __device__ TriangleRow(const std::byte* matrix, int row, int lane)
      : from(matrix + block_index(row, 0) * kBlockBytes + lane * 16), row_block(row) {
    if constexpr (kEarly) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        if (c <= row_block) blocks[c] = load_fragment(from + c * kBlockBytes, kBlocks * kBlockBytes);
      }
    }
  }

  /// As multiply_triangle().
  template <int kRow, int kTiles>
  __device__ void multiply(float (&sum)[kTiles][4], std::uint32_t operand_at) const {
    if constexpr (!kEarly) {
      multiply_triangle<kRow, kTiles>(sum, from, row_block, operand_at);
    } else {
      std::uint32_t b[4][kTiles][4];
#pragma unroll
      for (int c = 0; c < 4; ++c) {
#pragma unroll
        for (int t = 0; t < kTiles; ++t) load_transposed(b[c][t], operand_at + c * 16 * kRow + t * 16);
      }
      float small[kTiles][4] = {};
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        if (c > row_block) break;
#pragma unroll
        for (int t = 0; t < kTiles; ++t) {
          multiply_add(sum[t], blocks[c].high, b[c][t][0], b[c][t][1]);
          multiply_add(small[t], blocks[c].high, b[c][t][2], b[c][t][3]);
          multiply_add(small[t], blocks[c].low, b[c][t][0], b[c][t][1]);
        }
      }
      add_fragments(sum, small);
    }
  }
};

/// Grid: value_dim / kColumns strips per value head, slices.
template <int kKeyDim, int kColumns, int kStages>
__global__ void __launch_bounds__(kScanThreads, 1)
    scan_chunks(GatedDeltaNetSizes sizes, Batch batch, SlotExports exports, PrefillSpace space) {
  using Memory = ScanMemory<kKeyDim, kColumns, kStages>;
  constexpr int kRow = Memory::kRow;
  constexpr int kTiles = kColumns / 16;
  constexpr bool kNarrow = Memory::kNarrow;
  extern __shared__ __align__(16) std::byte scan_memory[];

  const int slice_index = static_cast<int>(blockIdx.y);
  const int first_tile = batch.slice_count == 1 ? 0 : find_first_tile<kScanThreads>(batch, slice_index);
  if (first_tile < 0) return;
  const int parts = sizes.value_dim / kColumns;
  const int head = static_cast<int>(blockIdx.x) / parts;
  const int first_column = static_cast<int>(blockIdx.x) % parts * kColumns;
  const BatchSlice slice = batch.slices[slice_index];
  const int chunks = (slice.rows + 63) / 64;

  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  // warps w and w + 4 share a scheduler and together have 5 blocks
  const int row_block = warp < 4 ? warp : 7 - warp;
  const int column = warp / 4 * kTiles * 8;
  const int r = lane / 4;
  const int p = 2 * (lane % 4);
  const int row = 16 * row_block + r;

  const std::uint32_t memory = shared_address(scan_memory);
  // Lanes of A: rows 0-15 of elements 0-7, then of elements 8-15.
  const std::uint32_t a_lane = (16 * row_block + (lane & 15)) * Memory::kKeyRow + (lane >> 4) * 16;
  // Lanes of K^T as A, transposed by the load: tokens 0-7 of elements 0-7, tokens 0-7 of elements 8-15,
  // tokens 8-15 of elements 0-7, tokens 8-15 of elements 8-15.
  const std::uint32_t kt_lane =
      ((lane & 7) + (lane >> 4) * 8) * Memory::kKeyRow + (16 * warp + ((lane >> 3) & 1) * 8) * 2;
  // Lanes of a split B: rows 0-15 of the high part, then of the low part.
  const std::uint32_t state_lane = ((lane & 15) + (lane >> 4) * kKeyDim) * kRow;
  const std::uint32_t rows_lane = ((lane & 15) + (lane >> 4) * 64) * kRow;

  // State: rows 16 warp + r and + 8, columns 8 t + p and + 1.
  const bool has_state = warp < kKeyDim / 16;
  float s[kColumns / 8][4] = {};
  const std::size_t state_at =
      (static_cast<std::size_t>(head) * kKeyDim + 16 * warp + r) * sizes.value_dim + first_column + p;
  const int eight_rows = 8 * sizes.value_dim;
  const auto store_state = [&](std::byte* slot) {
    if (!has_state) return;
    float* to = reinterpret_cast<float*>(slot + sizes.state_offset) + state_at;
#pragma unroll
    for (int t = 0; t < kColumns / 8; ++t) {
      *reinterpret_cast<float2*>(to + 8 * t) = {s[t][0], s[t][1]};
      *reinterpret_cast<float2*>(to + eight_rows + 8 * t) = {s[t][2], s[t][3]};
    }
  };
  const auto publish_state = [&] {
    if (!has_state) return;
#pragma unroll
    for (int t = 0; t < kColumns / 8; ++t) {
      store_split<kRow>(scan_memory + Memory::kS, kKeyDim * kRow, 16 * warp + r, 8 * t + p, s[t][0], s[t][1]);
      store_split<kRow>(scan_memory + Memory::kS, kKeyDim * kRow, 16 * warp + r + 8, 8 * t + p, s[t][2],
                        s[t][3]);
    }
  };

  // The previous kernel writes only T, P and G.
  load_rows<kKeyDim, kColumns, kStages>(sizes, space, first_tile, head, first_column, memory);
  if (has_state) {
    const float* state = reinterpret_cast<const float*>(slice.slot + sizes.state_offset) + state_at;
#pragma unroll
    for (int t = 0; t < kColumns / 8; ++t) {
      const float2 upper = *reinterpret_cast<const float2*>(state + 8 * t);
      const float2 lower = *reinterpret_cast<const float2*>(state + eight_rows + 8 * t);
      s[t][0] = upper.x;
      s[t][1] = upper.y;
      s[t][2] = lower.x;
      s[t][3] = lower.y;
    }
  }
  pdl_wait();
  pdl_launch_dependents();
  load_matrices_of<kKeyDim, kColumns, kStages>(sizes, space, first_tile, head, memory);
  publish_state();

  for (int chunk = 0; chunk < chunks; ++chunk) {
    const std::size_t tile = first_tile + chunk;
    const int stage_offset = chunk % kStages * Memory::kStage;
    const std::byte* stage = scan_memory + stage_offset;
    std::byte* const exported = export_after_tile(exports, tile);
    const std::uint32_t stage_at = memory + stage_offset;
    wait_for_copies<0>();
    __syncthreads();  // the stage and S are ready, and the other stage has been read
    if (kStages > 1 && chunk + 1 < chunks) {
      load_chunk<kKeyDim, kColumns, kStages>(sizes, space, tile + 1, head, first_column,
                                             memory + Memory::kStage - stage_offset);
    }

    const auto* sums = reinterpret_cast<const float*>(stage + Memory::kG);
    const auto* betas = reinterpret_cast<const float*>(stage + Memory::kBeta);
    const float last = sums[63];
    const float decay[2] = {expf(sums[row]), expf(sums[row + 8])};  // decay since the chunk's start
    const float decay_to_end[2] = {expf(last - sums[row]),
                                   expf(last - sums[row + 8])};  // decay to the chunk's end
    const float beta[2] = {betas[row], betas[row + 8]};
    float x[kTiles][4] = {};
    float o[kTiles][4] = {};
#pragma unroll
    for (int step = 0; step < kKeyDim / 16; ++step) {
      std::uint32_t k[4];
      std::uint32_t q[4];
      load_matrices(k, stage_at + Memory::kK + a_lane + step * 32);
      load_matrices(q, stage_at + Memory::kQ + a_lane + step * 32);
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        std::uint32_t b[4];
        load_transposed(b, memory + Memory::kS + state_lane + step * 16 * kRow + (column + 8 * t) * 2);
        multiply_add(x[t], k, b[0], b[1]);
        multiply_add(o[t], q, b[0], b[1]);
        multiply_add(x[t], k, b[2], b[3]);
        multiply_add(o[t], q, b[2], b[3]);
      }
    }

#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int at = row + 8 * half;
        const float2 v = widen_pair(*reinterpret_cast<const std::uint32_t*>(stage + Memory::kV + at * kRow +
                                                                            (column + 8 * t + p) * 2));
        store_split<kRow>(scan_memory + Memory::kR, 64 * kRow, at, column + 8 * t + p,
                          beta[half] * (v.x - decay[half] * x[t][2 * half]),
                          beta[half] * (v.y - decay[half] * x[t][2 * half + 1]));
        o[t][2 * half] *= decay[half];
        o[t][2 * half + 1] *= decay[half];
      }
    }
    const std::byte* matrices = stage + Memory::kMatrices;  // T, then P
    const TriangleRow<kNarrow> t_row(matrices, row_block, lane);
    __syncthreads();  // R is ready, S has been read

    float change[kTiles][4] = {};  // V'
    t_row.template multiply<kRow, kTiles>(change, memory + Memory::kR + rows_lane + column * 2);
    const TriangleRow<kNarrow> p_row(matrices + 2 * kBlocks * kBlockBytes, row_block, lane);
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float first = change[t][2 * half];
        const float second = change[t][2 * half + 1];
        const int at = row + 8 * half;
        store_split<kRow>(scan_memory + Memory::kNew, 64 * kRow, at, column + 8 * t + p, first, second);
        store_split<kRow>(scan_memory + Memory::kDecayed, 64 * kRow, at, column + 8 * t + p,
                          decay_to_end[half] * first, decay_to_end[half] * second);
      }
    }
    __syncthreads();  // V' is ready

    const auto update_state = [&] {
      if (!has_state) return;
      const float whole = expf(last);
#pragma unroll
      for (int t = 0; t < kColumns / 8; ++t) {
#pragma unroll
        for (int i = 0; i < 4; ++i) s[t][i] *= whole;
      }
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        std::uint32_t kt[4];
        load_transposed(kt, stage_at + Memory::kK + kt_lane + step * 16 * Memory::kKeyRow);
#pragma unroll
        for (int t = 0; t < kColumns / 8; ++t) {
          std::uint32_t b[4];
          load_transposed(b, memory + Memory::kDecayed + rows_lane + step * 16 * kRow + t * 16);
          multiply_add(s[t], kt, b[0], b[1]);
          multiply_add(s[t], kt, b[2], b[3]);
        }
      }
    };
    const auto store_out = [&] {
      float* out = space.out + ((tile * sizes.value_heads + head) * 64 + row) * sizes.value_dim +
                   first_column + column + p;
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        *reinterpret_cast<float2*>(out + 8 * t) = {o[t][0], o[t][1]};
        *reinterpret_cast<float2*>(out + eight_rows + 8 * t) = {o[t][2], o[t][3]};
      }
    };
    const std::uint32_t new_at = memory + Memory::kNew + rows_lane + column * 2;
    if constexpr (kNarrow) {
      update_state();
      p_row.template multiply<kRow, kTiles>(o, new_at);
      publish_state();
      store_out();
    } else {
      p_row.template multiply<kRow, kTiles>(o, new_at);
      store_out();
      update_state();
    }
    if (exported != nullptr) store_state(exported);
    const bool reloads = kStages == 1 && chunk + 1 < chunks;
    if (reloads || !kNarrow) __syncthreads();  // V' and the stage have been read
    if (reloads) {
      load_chunk<kKeyDim, kColumns, kStages>(sizes, space, tile + 1, head, first_column, memory);
    }
    if (!kNarrow) publish_state();
  }
  store_state(slice.slot);
}

template <int kKeyDim, int kColumns, int kStages>
void launch_scan_of(const GatedDeltaNetSizes& sizes, const Batch& batch, const SlotExports& exports,
                    const PrefillSpace& space, StreamHandle stream) {
  constexpr int kBytes = ScanMemory<kKeyDim, kColumns, kStages>::kBytes;
  static_assert(kStages > 1 || kBytes <= kMinShared);
  const auto kernel = scan_chunks<kKeyDim, kColumns, kStages>;
  allow_shared(kernel, kBytes);
  const dim3 grid(sizes.value_dim / kColumns * sizes.value_heads, batch.slice_count);
  launch_after(kernel, {.blocks = grid, .threads = kScanThreads, .shared_bytes = kBytes}, stream, sizes,
               batch, exports, space);
}

template <int kKeyDim, int kColumns>
void launch_scan(const GatedDeltaNetSizes& sizes, const Batch& batch, const SlotExports& exports,
                 const PrefillSpace& space, StreamHandle stream) {
  constexpr int kBytes = ScanMemory<kKeyDim, kColumns, 2>::kBytes;
  if constexpr (kBytes > kMinShared) {
    if (kBytes > max_shared())
      return launch_scan_of<kKeyDim, kColumns, 1>(sizes, batch, exports, space, stream);
  }
  launch_scan_of<kKeyDim, kColumns, 2>(sizes, batch, exports, space, stream);
}

template <int kKeyDim>
void launch_chunks(const GatedDeltaNetSizes& sizes, const Batch& batch, const SlotExports& exports,
                   const PrefillSpace& space, StreamHandle stream) {
  launch_after(chunk_matrices<kKeyDim>,
               {.blocks = dim3(sizes.value_heads, batch.tile_count, 2), .threads = kMatrixThreads}, stream,
               sizes, space);
  // Narrow strips have the same bits and give more blocks.
  const int wide_blocks = sizes.value_dim / 32 * sizes.value_heads * batch.slice_count;
  if (sizes.value_dim % 32 == 0 && wide_blocks > kFewBlocks) {
    launch_scan<kKeyDim, 32>(sizes, batch, exports, space, stream);
  } else {
    launch_scan<kKeyDim, 16>(sizes, batch, exports, space, stream);
  }
}

}  // namespace

void gated_delta_net_chunks(const GatedDeltaNetSizes& sizes, const Batch& batch, const SlotExports& exports,
                            const PrefillSpace& space, StreamHandle stream) {
  switch (sizes.key_dim) {
    case 16:
      launch_chunks<16>(sizes, batch, exports, space, stream);
      break;
    case 32:
      launch_chunks<32>(sizes, batch, exports, space, stream);
      break;
    case 64:
      launch_chunks<64>(sizes, batch, exports, space, stream);
      break;
    default:
      launch_chunks<128>(sizes, batch, exports, space, stream);
      break;
  }
}

}  // namespace reprise::gpu::cuda
