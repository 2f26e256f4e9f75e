// Multi-head latent attention.
//
// Computes: prepare_latents() (RoPE, norm and storage of new latents), then attention in which the cached
// latents are both keys and values; bf16 MMA with f32 online softmax, or f32 throughout for f32 rows.
//
// Mapping: bf16: a block has 32 query rows, which are half a tile of tokens with one head (prefill) or 32
// heads of one token (decode, split-KV over 256 positions, merged by combine_latents()). It visits latents in
// steps of 32. Two groups of 4 warps divide the rows by 16; the warps of a group divide the keys for the
// scores and the columns for the sum. f32: a block has one token and four heads (precise_row.cuh), in both
// phases.
//
// Pipeline: one latent buffer per block (cp.async); two blocks per SM overlap.
//
// Bits: steps and splits are anchored at position 0 and merged in ascending order.

#include "gpu/cuda/attention/latent.h"

#include <algorithm>
#include <type_traits>

#include "base/check.h"
#include "gpu/cuda/attention/attention.h"
#include "gpu/cuda/attention/precise_row.cuh"
#include "gpu/cuda/attention/tiles.cuh"
#include "gpu/cuda/memory/error.h"
#include "gpu/cuda/memory/launch.cuh"
#include "gpu/cuda/rows/activations.cuh"
#include "gpu/gpu_limits.h"

namespace reprise::gpu::cuda {
namespace {

// -- before attention

constexpr int kPrepareWarps = 8;

/// Returns element i of a RoPE part x after rotation, de-interleaved if shape.neighbors.
template <class Read>
__device__ __forceinline__ float rotated_element(const LatentShape& shape, const Read& x, const float* cosine,
                                                 const float* sine, int i) {
  const int half = shape.rotary_dim / 2;
  const auto apart = [&](int at) {
    return x(!shape.neighbors ? at : at < half ? 2 * at : 2 * (at - half) + 1);
  };
  const int pairs = shape.rope_pairs;
  if (pairs == 0) return x(i);
  if (i < pairs) return apart(i) * cosine[i] - apart(i + pairs) * sine[i];
  if (i < 2 * pairs) return apart(i) * cosine[i - pairs] + apart(i - pairs) * sine[i - pairs];
  return apart(i);
}

/// One warp per head of each row, and one for the row's latent. Kept: storage type of latents.
template <class Row, class Kept>
__global__ void __launch_bounds__(32 * kPrepareWarps)
    prepare_latents(LatentShape shape, Batch batch, LatentPass<Row> pass, int compared) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int item = static_cast<int>(blockIdx.x) * kPrepareWarps + static_cast<int>(threadIdx.x) / 32;
  const int row = item / (shape.heads + 1);
  if (row >= batch.rows || batch.row_slice[row] == kNoSlice) return;
  const int head = item % (shape.heads + 1);
  const int stored = shape.rank + shape.rotary_dim;
  const float* cosine = pass.rope_cos + static_cast<std::size_t>(row) * shape.rope_pairs;
  const float* sine = pass.rope_sin + static_cast<std::size_t>(row) * shape.rope_pairs;
  if (head < shape.heads) {
    const Row* x = pass.queries + static_cast<std::size_t>(row) * pass.query_stride +
                   head * (shape.plain_dim + shape.rotary_dim) + shape.plain_dim;
    Row* to = pass.compared + (static_cast<std::size_t>(row) * shape.heads + head) * compared + shape.rank;
    const auto read = [&](int i) { return load_row(x[i]); };
    for (int i = lane; i < compared - shape.rank; i += 32) {
      store_row(to[i], i < shape.rotary_dim ? rotated_element(shape, read, cosine, sine, i) : 0.0F);
    }
    return;
  }
  const BatchSlice& slice = batch.slices[batch.row_slice[row]];
  const int position = slice.stored + row - slice.first_row;
  Kept* to = reinterpret_cast<Kept*>(slice.pages[position / kGrid] + shape.offset) +
             static_cast<std::size_t>(position % kGrid) * stored;
  const float* latent = pass.made + static_cast<std::size_t>(row) * pass.made_stride;
  float squares = 0.0F;
  for (int i = lane; i < shape.rank; i += 32) squares = fmaf(latent[i], latent[i], squares);
  for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(0xffffffffU, squares, step);
  const float scale = 1.0F / sqrtf(squares / static_cast<float>(shape.rank) + shape.norm_eps);
  for (int i = lane; i < shape.rank; i += 32) {
    store_row(to[i], latent[i] * scale * (shape.norm_offset + pass.norm[i]));
  }
  const auto read = [&](int i) { return latent[shape.rank + i]; };
  for (int i = lane; i < shape.rotary_dim; i += 32) {
    store_row(to[shape.rank + i], rotated_element(shape, read, cosine, sine, i));
  }
}

template <class Row, class Kept>
void prepare_latent_rows(const LatentShape& shape, const Batch& batch, const LatentPass<Row>& pass,
                         StreamHandle stream) {
  const int items = batch.rows * (shape.heads + 1);
  const auto blocks = static_cast<unsigned>((items + kPrepareWarps - 1) / kPrepareWarps);
  prepare_latents<Row, Kept><<<blocks, 32 * kPrepareWarps, 0, stream>>>(shape, batch, pass, shape.compared());
  check_launch("latent attention: its rows");
}

// -- bf16 rows. Scores go through shared memory; each warp of a group computes the same probabilities from
// them.

constexpr int kLatentThreads = 256;
constexpr int kQueries = 32;     // query rows per block
constexpr int kLatents = 32;     // keys per step
constexpr int kSharers = 4;      // warps per 16 rows
constexpr int kColumnPairs = 8;  // pairs of 8 columns per warp: kMaxLatent / kSharers / 16
constexpr int kScoreStride = kLatents + 4;
constexpr int kLatentCombineThreads = 128;
// bytes; above, a decode is split into several launches
constexpr std::size_t kLatentPartials = std::size_t{64} << 20;
constexpr int kMaxLatentSlices = 32768;  // per launch

static_assert(kMaxLatent == 16 * kColumnPairs * kSharers,
              "the warp's columns of the sum do not match its registers");
static_assert(kLatentThreads == 32 * kSharers * kQueries / 16 && kLatents == 8 * kSharers);

/// Partial results. Row r of the launch, head h and split s are at (r * heads + h) * splits + s.
struct LatentPartial {
  float* out;           // [rank] each, unnormalized
  float2* max_and_sum;  // of scores; of probabilities
  int splits;           // of the longest sequence
  int first_slice;
};

struct LatentBlock {
  BatchSlice slice;
  const Bf16* queries;  // rows `stride` apart
  std::size_t stride;
  int rows;
  int first_key;
  int end_key;
  int last_key;  // last key visible to row 0; row r sees r * per_row more
  int per_row;
};

/// Starts the copy of rows of `size` elements (a multiple of 8), `stride` apart, to shared memory. Rows from
/// `present` on become zero.
__device__ __forceinline__ void copy_latents(std::uint32_t tile, int tile_stride, const Bf16* from,
                                             std::size_t stride, int size, int rows, int present) {
  const int chunks = size / 8;
  for (int i = static_cast<int>(threadIdx.x); i < rows * chunks; i += kLatentThreads) {
    const int row = i / chunks;
    const int column = i % chunks * 8;
    copy_chunk(tile + (row * tile_stride + column) * sizeof(Bf16), from + row * stride + column,
               row < present);
  }
}

/// Grid: head, half of a tile (prefill); split, 32 heads, slice (decode).
template <bool kDecode>
__global__ void __launch_bounds__(kLatentThreads, 2)
    attend_latents(LatentShape shape, Batch batch, LatentPass<Bf16> pass, int compared, LatentPartial partial,
                   float scale) {
  extern __shared__ __align__(16) Bf16 shared[];  // queries, latents, scores
  LatentBlock own;
  int head;
  if constexpr (kDecode) {
    own.slice = batch.slices[partial.first_slice + static_cast<int>(blockIdx.z)];
    head = static_cast<int>(blockIdx.y) * kQueries;
    own.queries =
        pass.compared + (static_cast<std::size_t>(own.slice.first_row) * shape.heads + head) * compared;
    own.stride = compared;
    own.rows = min(kQueries, shape.heads - head);
    own.first_key = static_cast<int>(blockIdx.x) * kDecodeSplit;
    own.end_key = min(own.slice.stored + 1, own.first_key + kDecodeSplit);
    own.last_key = own.slice.stored;
    own.per_row = 0;
  } else {
    const BatchTile tile = batch.tiles[batch.tile_count - 1 - static_cast<int>(blockIdx.y) / 2];
    own.slice = batch.slices[tile.slice];
    head = static_cast<int>(blockIdx.x);
    const int first = tile.first + static_cast<int>(blockIdx.y) % 2 * kQueries;
    own.queries = pass.compared +
                  (static_cast<std::size_t>(own.slice.first_row + first) * shape.heads + head) * compared;
    own.stride = static_cast<std::size_t>(shape.heads) * compared;
    own.rows = min(kQueries, own.slice.rows - first);
    own.first_key = 0;
    own.last_key = own.slice.stored + first;
    own.end_key = own.last_key + own.rows;
    own.per_row = 1;
  }
  if (own.rows <= 0 || own.first_key >= own.end_key) return;

  const int stored = shape.rank + shape.rotary_dim;
  const int stride = compared + 8;  // an odd number of 16-byte units: rows are in different banks
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int first_row = warp % 2 * 16;
  const int share = warp / 2;
  const std::uint32_t q_tile = shared_address(shared);
  const std::uint32_t k_tile = q_tile + kQueries * stride * sizeof(Bf16);
  auto* scores = reinterpret_cast<float*>(shared + (kQueries + kLatents) * stride);

  copy_latents(q_tile, stride, own.queries, own.stride, compared, kQueries, own.rows);
  for (int i = static_cast<int>(threadIdx.x); i < kLatents * (compared - stored); i += kLatentThreads) {
    shared[(kQueries + i / (compared - stored)) * stride + stored + i % (compared - stored)] = 0;
  }

  const std::uint32_t q_lane = q_tile + ((first_row + lane % 16) * stride + lane / 16 * 8) * sizeof(Bf16);
  const std::uint32_t k_lane = k_tile + ((share * 8 + lane % 8) * stride + lane / 8 % 2 * 8) * sizeof(Bf16);
  const std::uint32_t v_lane =
      k_tile + (lane % 16 * stride + lane / 16 * 8 + share * kColumnPairs * 16) * sizeof(Bf16);
  float* to_scores = scores + (first_row + lane / 4) * kScoreStride + share * 8 + lane % 4 * 2;
  const float* from_scores = scores + (first_row + lane / 4) * kScoreStride + lane % 4 * 2;

  float out[2 * kColumnPairs][4] = {};
  float highest[2] = {tiles::kMinusInfinity, tiles::kMinusInfinity};
  float denominator[2] = {0.0F, 0.0F};
  for (int key = own.first_key; key < own.end_key; key += kLatents) {
    const auto* page = reinterpret_cast<const Bf16*>(own.slice.pages[key / kGrid] + shape.offset) +
                       static_cast<std::size_t>(key % kGrid) * stored;
    __syncthreads();  // the previous latents have been read
    copy_latents(k_tile, stride, page, stored, stored, kLatents, own.end_key - key);
    end_copy_group();
    wait_for_copies<0>();
    __syncthreads();
    float s[4] = {0, 0, 0, 0};
    float odd[4] = {0, 0, 0, 0};
    // even and odd steps accumulate separately, which halves the dependency chain
    for (int i = 0; i < compared / 16; ++i) {
      std::uint32_t a[4];
      std::uint32_t b[2];
      load_matrices(a, q_lane + i * 16 * sizeof(Bf16));
      load_two_matrices(b, k_lane + i * 16 * sizeof(Bf16));
      if (i % 2 == 0) {
        multiply_add(s, a, b[0], b[1]);
      } else {
        multiply_add(odd, a, b[0], b[1]);
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) to_scores[i / 2 * 8 * kScoreStride + i % 2] = s[i] + odd[i];
    __syncthreads();

    float p[kLatents / 8][4];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first_row + lane / 4 + half * 8;
      const int last = own.last_key + row * own.per_row - key;
      float maximum = highest[half];
#pragma unroll
      for (int block = 0; block < kLatents / 8; ++block) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const float score = from_scores[half * 8 * kScoreStride + block * 8 + j];
          const bool seen = block * 8 + lane % 4 * 2 + j <= last;
          p[block][2 * half + j] = seen ? score : tiles::kMinusInfinity;
          maximum = fmaxf(maximum, p[block][2 * half + j]);
        }
      }
      maximum = tiles::highest_of_four(maximum);
      const float rescale = tiles::power_of_two((highest[half] - maximum) * scale);
      highest[half] = maximum;
      denominator[half] *= rescale;
#pragma unroll
      for (auto& block : p) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          block[2 * half + j] = tiles::power_of_two((block[2 * half + j] - maximum) * scale);
          denominator[half] += block[2 * half + j];
        }
      }
#pragma unroll
      for (auto& block : out) {
        block[2 * half] *= rescale;
        block[2 * half + 1] *= rescale;
      }
    }
#pragma unroll
    for (int i = 0; i < kLatents / 16; ++i) {
      const std::uint32_t a[4] = {narrow(p[2 * i][0], p[2 * i][1]), narrow(p[2 * i][2], p[2 * i][3]),
                                  narrow(p[2 * i + 1][0], p[2 * i + 1][1]),
                                  narrow(p[2 * i + 1][2], p[2 * i + 1][3])};
#pragma unroll
      for (int pair = 0; pair < kColumnPairs; ++pair) {
        if ((share * kColumnPairs + pair) * 16 < shape.rank) {
          std::uint32_t b[4];
          load_transposed(b, v_lane + (i * 16 * stride + pair * 16) * sizeof(Bf16));
          multiply_add(out[2 * pair], a, b[0], b[1]);
          multiply_add(out[2 * pair + 1], a, b[2], b[3]);
        }
      }
    }
  }

#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first_row + lane / 4 + half * 8;
    const float total = tiles::sum_of_four(denominator[half]);
    const float divided = kDecode ? 1.0F : tiles::inverse(total);
    if (row >= own.rows) continue;
    std::size_t index;
    if constexpr (kDecode) {
      index = (static_cast<std::size_t>(blockIdx.z) * shape.heads + head + row) * partial.splits + blockIdx.x;
      if (share == 0 && lane % 4 == 0) partial.max_and_sum[index] = make_float2(highest[half], total);
    } else {
      const int batch_row = own.slice.first_row + own.last_key - own.slice.stored + row;
      index = static_cast<std::size_t>(batch_row) * shape.heads + head;
    }
#pragma unroll
    for (int block = 0; block < 2 * kColumnPairs; ++block) {
      const int column = share * kColumnPairs * 16 + block * 8 + lane % 4 * 2;
      if (column < shape.rank) {
        const std::size_t at = index * shape.rank + column;
        const float first = out[block][2 * half] * divided;
        const float second = out[block][2 * half + 1] * divided;
        if constexpr (kDecode) {
          *reinterpret_cast<float2*>(partial.out + at) = make_float2(first, second);
        } else {
          *reinterpret_cast<std::uint32_t*>(pass.out + at) = narrow(first, second);
        }
      }
    }
  }
}

/// Grid: elements of the latent, head, slice - first_slice; one element per thread.
__global__ void __launch_bounds__(kLatentCombineThreads)
    combine_latents(LatentShape shape, Batch batch, LatentPass<Bf16> pass, LatentPartial partial,
                    float scale) {
  const BatchSlice& slice = batch.slices[partial.first_slice + static_cast<int>(blockIdx.z)];
  const int head = static_cast<int>(blockIdx.y);
  const int element = static_cast<int>(blockIdx.x * kLatentCombineThreads + threadIdx.x);
  if (element >= shape.rank) return;
  const int splits = slice.stored / kDecodeSplit + 1;
  const std::size_t index =
      (static_cast<std::size_t>(blockIdx.z) * shape.heads + head) * static_cast<std::size_t>(partial.splits);
  const float2* max_and_sum = partial.max_and_sum + index;
  const float* outs = partial.out + index * shape.rank + element;
  float highest = tiles::kMinusInfinity;
  for (int split = 0; split < splits; ++split) highest = fmaxf(highest, max_and_sum[split].x);
  float total = 0;
  float denominator = 0;
  for (int split = 0; split < splits; ++split) {
    const float share = tiles::power_of_two((max_and_sum[split].x - highest) * scale);
    total = fmaf(share, outs[static_cast<std::size_t>(split) * shape.rank], total);
    denominator = fmaf(share, max_and_sum[split].y, denominator);
  }
  pass.out[(static_cast<std::size_t>(slice.first_row) * shape.heads + head) * shape.rank + element] =
      narrow(total * tiles::inverse(denominator));
}

int latent_splits(int longest) {
  return (longest + kDecodeSplit - 1) / kDecodeSplit;
}

std::size_t latent_row_bytes(const LatentShape& shape, int longest) {
  return static_cast<std::size_t>(shape.heads) * latent_splits(longest) *
         (static_cast<std::size_t>(shape.rank) * sizeof(float) + sizeof(float2));
}

template <bool kDecode>
void launch_latents(const LatentShape& shape, const Batch& batch, const LatentPass<Bf16>& pass,
                    const dim3& grid, const LatentPartial& partial, StreamHandle stream) {
  const auto shared_of = [](int compared) {
    return (kQueries + kLatents) * (compared + 8) * static_cast<int>(sizeof(Bf16)) +
           kQueries * kScoreStride * static_cast<int>(sizeof(float));
  };
  static_assert(shared_of(kMaxStored) <= kMinShared && kMaxStored % 16 == 0);
  const int bytes = shared_of(shape.compared());
  allow_shared(attend_latents<kDecode>, bytes);
  attend_latents<kDecode><<<grid, kLatentThreads, bytes, stream>>>(
      shape, batch, pass, shape.compared(), partial, shape.score_scale * tiles::kLog2OfE);
  check_launch("latent attention");
}

}  // namespace

template <class Row>
bool latent_supports(const LatentShape& shape) {
  constexpr bool kIsPrecise = std::is_same_v<Row, float>;
  return shape.heads > 0 && shape.plain_dim > 0 && shape.rank > 0 && shape.rank % 2 == 0 &&
         shape.rotary_dim >= 0 && shape.rank <= static_cast<int>(kMaxLatent) &&
         shape.stored() <= static_cast<int>(kMaxStored) && shape.stored() % 8 == 0 &&
         2 * shape.rope_pairs <= shape.rotary_dim && shape.score_scale > 0 && shape.offset % 16 == 0 &&
         (shape.kv == KvType::kBF16 || (kIsPrecise && shape.kv == KvType::kF32));
}
template bool latent_supports<Bf16>(const LatentShape&);
template bool latent_supports<float>(const LatentShape&);

template <class Row>
std::size_t latent_workspace(const LatentShape& shape, int rows, int tiles, int longest) {
  if (tiles > 0 || std::is_same_v<Row, float>) return 0;
  const std::size_t of_row = latent_row_bytes(shape, longest);
  return std::min(static_cast<std::size_t>(rows) * of_row, std::max(kLatentPartials, of_row));
}
template std::size_t latent_workspace<Bf16>(const LatentShape&, int, int, int);
template std::size_t latent_workspace<float>(const LatentShape&, int, int, int);

void latent_attention(const LatentShape& shape, const Batch& batch, const LatentPass<Bf16>& pass,
                      StreamHandle stream) {
  if (batch.rows == 0) return;
  REPRISE_CHECK(latent_supports(shape), "latent attention has no kernel for this shape");
  prepare_latent_rows<Bf16, Bf16>(shape, batch, pass, stream);
  const auto heads = static_cast<unsigned>(shape.heads);
  if (batch.tile_count > 0) {
    launch_latents<false>(shape, batch, pass, dim3(heads, static_cast<unsigned>(2 * batch.tile_count)), {},
                          stream);
    return;
  }
  REPRISE_CHECK(batch.rows == batch.slice_count && batch.longest > 0,
                "a decode batch has no tokens, or a slice without exactly one row");
  const int splits = latent_splits(batch.longest);
  const std::size_t fitting = kLatentPartials / latent_row_bytes(shape, batch.longest);
  const int at_once = static_cast<int>(std::clamp<std::size_t>(fitting, 1, kMaxLatentSlices));
  const unsigned of_rank =
      static_cast<unsigned>((shape.rank + kLatentCombineThreads - 1) / kLatentCombineThreads);
  for (int first = 0; first < batch.slice_count; first += at_once) {
    const int slices = std::min(at_once, batch.slice_count - first);
    auto* max_and_sum = reinterpret_cast<float2*>(pass.workspace);
    const std::size_t results = static_cast<std::size_t>(slices) * shape.heads * splits;
    const LatentPartial partial{.out = reinterpret_cast<float*>(max_and_sum + results),
                                .max_and_sum = max_and_sum,
                                .splits = splits,
                                .first_slice = first};
    const auto many = static_cast<unsigned>(slices);
    launch_latents<true>(shape, batch, pass,
                         dim3(static_cast<unsigned>(splits), (heads + kQueries - 1) / kQueries, many),
                         partial, stream);
    combine_latents<<<dim3(of_rank, heads, many), kLatentCombineThreads, 0, stream>>>(
        shape, batch, pass, partial, shape.score_scale * tiles::kLog2OfE);
    check_launch("latent attention: its splits");
  }
}

namespace {

// -- f32 rows

constexpr int kPreciseHeads = 4;   // per block
constexpr int kLatentsOfLane = 2;  // groups of eight elements of a latent
static_assert(kMaxLatent == 32 * 8 * kLatentsOfLane,
              "the lane's columns of the sum do not match its registers");

/// Grid: rows, last first because it has the most keys; groups of heads.
template <KvType kKv>
__global__ void __launch_bounds__(kPreciseThreads)
    attend_latent_rows(LatentShape shape, Batch batch, LatentPass<float> pass, int compared) {
  using Kept = KvRow<kKv, 8>;  // read in groups of eight
  __shared__ PreciseShared<static_cast<int>(kMaxLatent)> shared;
  __shared__ __align__(16) float queries[kPreciseHeads * static_cast<int>(kMaxStored)];
  const int row = batch.rows - 1 - static_cast<int>(blockIdx.x);
  const int slice_index = batch.row_slice[row];
  if (slice_index == kNoSlice) return;
  const BatchSlice slice = batch.slices[slice_index];
  const int stored = shape.rank + shape.rotary_dim;
  const int head = static_cast<int>(blockIdx.y) * kPreciseHeads;
  const int present = min(kPreciseHeads, shape.heads - head);
  const std::size_t index = static_cast<std::size_t>(row) * shape.heads + head;
  for (int i = static_cast<int>(threadIdx.x); i < kPreciseHeads * stored; i += kPreciseThreads) {
    const int query = i / stored;
    queries[i] = query < present ? pass.compared[(index + query) * compared + i % stored] : 0.0F;
  }
  __syncthreads();

  const PreciseKeys keys{.first = 0,
                         .last = slice.stored + row - slice.first_row,
                         .key_chunks = stored / 8,
                         .value_chunks = (shape.rank + 7) / 8,
                         .row_bytes = stored / 8 * Kept::kBytes,
                         .scale = shape.score_scale};
  const auto step_at = [&](int step) -> PreciseStep {
    const std::byte* latents = slice.pages[step * kKeysOfStep / kGrid] + shape.offset +
                               static_cast<std::size_t>(step * kKeysOfStep % kGrid) * keys.row_bytes;
    return {.keys = latents, .values = latents};
  };
  attend_precisely<Kept, kPreciseHeads, 32, kLatentsOfLane>(
      shared, queries, keys, step_at, [&](int query, int column, float result) {
        if (query >= present || column >= shape.rank) return;
        pass.out[(index + query) * shape.rank + column] = result;
      });
}

}  // namespace

void latent_attention(const LatentShape& shape, const Batch& batch, const LatentPass<float>& pass,
                      StreamHandle stream) {
  if (batch.rows == 0) return;
  REPRISE_CHECK(latent_supports<float>(shape), "latent attention has no kernel for this shape");
  const auto launch = [&](auto kv, auto kept) {
    prepare_latent_rows<float, decltype(kept)>(shape, batch, pass, stream);
    const dim3 blocks(static_cast<unsigned>(batch.rows),
                      static_cast<unsigned>((shape.heads + kPreciseHeads - 1) / kPreciseHeads));
    attend_latent_rows<decltype(kv)::value>
        <<<blocks, kPreciseThreads, 0, stream>>>(shape, batch, pass, shape.compared());
    check_launch("latent attention of rows of f32");
  };
  if (shape.kv == KvType::kF32) return launch(std::integral_constant<KvType, KvType::kF32>(), float{});
  launch(std::integral_constant<KvType, KvType::kBF16>(), Bf16{});
}

}  // namespace reprise::gpu::cuda
