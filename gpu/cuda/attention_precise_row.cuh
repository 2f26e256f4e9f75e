#pragma once
// Attention of one row in f32, by a block: some query heads that look at the same keys. Included by CUDA sources alone,
// with internal linkage.
//
// Keys are taken 32 at a time, in steps anchored at position 0. Warp w takes steps w, w + kPreciseWarps, ... upwards, with
// an online softmax of its own; what the warps have is added up, ascending. In a step a lane scores one key, over its
// elements upwards; then a lane has eight columns of the values, and where a value has fewer than 32 times eight, lanes
// share out the keys and are added up in the end. So the order of additions is fixed by the row's position and the
// sizes: prefilled and decoded rows have the same bits.

#include "gpu/cuda/attention_tiles.cuh"
#include "gpu/cuda/kv_rows.cuh"

namespace reprise::gpu::cuda {
namespace {

constexpr int kPreciseWarps = 8;
constexpr int kPreciseThreads = 32 * kPreciseWarps;
constexpr int kKeysOfStep = 32;  // a lane each

/// What a row looks at, and how.
struct PreciseKeys {
  int first;         // position
  int last;          // the row's own
  int key_chunks;    // eights of elements of a key
  int value_chunks;  // of a value, those that are summed
  int row_bytes;     // from a key to the next, from a value to the next
  float scale;       // of scores
};

/// Keys and values of a step, in a page.
struct PreciseStep {
  const std::byte* keys;
  const std::byte* values;
};

/// Of a block, in shared memory. kColumns: of values.
template <int kColumns>
struct PreciseShared {
  alignas(16) float sums[kPreciseWarps][kColumns];  // of one query
  float2 weights[kPreciseWarps];                    // highest score, sum of weights
};

__device__ __forceinline__ float sum_of_warp(float x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(~0U, x, step);
  return x;
}
__device__ __forceinline__ float highest_of_warp(float x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(~0U, x, step));
  return x;
}

/// A warp's part of kQueries queries. Stored: a KvRow, of which eights are fetched. A value is spread over kSpread lanes,
/// of which each holds kHeld eights: number lane % kSpread, and every 32nd behind it; those beyond the value's hold anything.
template <class Stored, int kQueries, int kSpread, int kHeld>
class PreciseWarp {
 public:
  static constexpr int kColumns = kSpread * kHeld * 8;
  static_assert(32 % kSpread == 0 && (kHeld == 1 || kSpread == 32));

  __device__ __forceinline__ PreciseWarp() : lane_(static_cast<int>(threadIdx.x) % 32) {
#pragma unroll
    for (float& one : highest_) one = tiles::kMinusInfinity;
  }

  /// Keys from position `begin` on. queries: [kQueries] of key_chunks eights, in shared memory.
  __device__ __forceinline__ void take(const float* queries, const PreciseKeys& keys, const PreciseStep& step,
                                       int begin) {
    const int first = max(keys.first - begin, 0);              // of the step's that are looked at
    const int last = min(keys.last - begin, kKeysOfStep - 1);  // what lies elsewhere may be anything
    const auto is_seen = [&](int key) { return key >= first && key <= last; };
    const auto near = [&](int key) {
      return static_cast<std::size_t>(max(first, min(last, key))) * keys.row_bytes;
    };
    float score[kQueries] = {};
    const std::byte* own_key = step.keys + near(lane_);
#pragma unroll 4
    for (int chunk = 0; chunk < keys.key_chunks; ++chunk) {
      float x[8];
      Stored::widened(Stored::fetch(own_key, chunk), chunk, x);
#pragma unroll
      for (int query = 0; query < kQueries; ++query) {
        float q[8];
        const auto* fours = reinterpret_cast<const float4*>(queries + (query * keys.key_chunks + chunk) * 8);
        put_fours(fours[0], fours[1], q);
#pragma unroll
        for (int i = 0; i < 8; ++i) score[query] = fmaf(q[i], x[i], score[query]);
      }
    }
    float share[kQueries];
#pragma unroll
    for (int query = 0; query < kQueries; ++query) {
      const float own = is_seen(lane_) ? score[query] * keys.scale : tiles::kMinusInfinity;
      const float most = fmaxf(highest_[query], highest_of_warp(own));
      const float fade = expf(highest_[query] - most);
      share[query] = expf(own - most);
      highest_[query] = most;
      weight_[query] = fmaf(weight_[query], fade, share[query]);
#pragma unroll
      for (auto& eight : out_[query]) {
#pragma unroll
        for (float& sum : eight) sum *= fade;
      }
    }
#pragma unroll 4
    for (int i = 0; i < kSpread; ++i) {  // 32 / kSpread keys at a time
      const int key = i * (32 / kSpread) + lane_ / kSpread;
      float own_share[kQueries];
#pragma unroll
      for (int query = 0; query < kQueries; ++query) own_share[query] = __shfl_sync(~0U, share[query], key);
      const std::byte* value = step.values + near(key);
#pragma unroll
      for (int held = 0; held < kHeld; ++held) {
        const int chunk = min(lane_ % kSpread + held * 32, keys.value_chunks - 1);
        float x[8];
        Stored::widened(Stored::fetch(value, chunk), chunk, x);
        if (!is_seen(key)) clear(x);
#pragma unroll
        for (int query = 0; query < kQueries; ++query) {
#pragma unroll
          for (int j = 0; j < 8; ++j) {
            out_[query][held][j] = fmaf(own_share[query], x[j], out_[query][held][j]);
          }
        }
      }
    }
  }

  /// What the warp has of a query, for all to see behind the next barrier.
  __device__ __forceinline__ void leave(int query, PreciseShared<kColumns>& shared) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
    for (auto& eight : out_[query]) {
#pragma unroll
      for (float& sum : eight) {
#pragma unroll
        for (int step = kSpread; step < 32; step *= 2) sum += __shfl_xor_sync(~0U, sum, step);
      }
    }
    const float weight = sum_of_warp(weight_[query]);
    if (lane_ == 0) shared.weights[warp] = make_float2(highest_[query], weight);
    if (lane_ >= kSpread) return;
#pragma unroll
    for (int held = 0; held < kHeld; ++held) {
      KvRow<KvType::kF32, kColumns>::put(reinterpret_cast<std::byte*>(shared.sums[warp]), lane_ + held * 32,
                                         out_[query][held]);
    }
  }

 private:
  static __device__ __forceinline__ void clear(float (&x)[8]) {
#pragma unroll
    for (float& one : x) one = 0;
  }

  int lane_;
  float highest_[kQueries];
  float weight_[kQueries] = {};  // the lane's keys
  float out_[kQueries][kHeld][8] = {};
};

/// By all threads of a block. step_at(n): where keys 32 n and on stand; put(query, column, value) gets the results.
template <class Stored, int kQueries, int kSpread, int kHeld, class StepAt, class Put>
__device__ __forceinline__ void attend_precisely(
    PreciseShared<PreciseWarp<Stored, kQueries, kSpread, kHeld>::kColumns>& shared, const float* queries,
    const PreciseKeys& keys, const StepAt& step_at, const Put& put) {
  using Warp = PreciseWarp<Stored, kQueries, kSpread, kHeld>;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int first = keys.first / kKeysOfStep;
  const int own = first + (warp + kPreciseWarps - first % kPreciseWarps) % kPreciseWarps;
  Warp sums;
  for (int step = own; step <= keys.last / kKeysOfStep; step += kPreciseWarps) {
    sums.take(queries, keys, step_at(step), step * kKeysOfStep);
  }
#pragma unroll
  for (int query = 0; query < kQueries; ++query) {
    __syncthreads();  // the query before is used up
    sums.leave(query, shared);
    __syncthreads();
    float highest = tiles::kMinusInfinity;
    for (const float2& one : shared.weights) highest = fmaxf(highest, one.x);
    for (int column = static_cast<int>(threadIdx.x); column < Warp::kColumns; column += kPreciseThreads) {
      float total = 0;
      float weight = 0;
      for (int other = 0; other < kPreciseWarps; ++other) {  // one without steps has a share of zero
        const float share = expf(shared.weights[other].x - highest);
        total = fmaf(share, shared.sums[other][column], total);
        weight = fmaf(share, shared.weights[other].y, weight);
      }
      put(query, column, total / weight);
    }
  }
}

}  // namespace
}  // namespace reprise::gpu::cuda
