#pragma once
// f32 attention of one row by a block, for kQueries query heads that share keys.
//
// Mapping: keys are taken in steps of 32 anchored at position 0; warp w takes steps w, w + 8, ... in
// ascending order with an online softmax of its own. In a step a lane scores one key, then accumulates eight
// columns of V; if V has fewer than 256 columns, lanes divide the keys and are summed at the end. The warps
// are merged in ascending order.
//
// Bits: the order of additions depends only on the row's position and the sizes.

#include "gpu/cuda/attention/kv_rows.cuh"
#include "gpu/cuda/attention/tiles.cuh"

namespace reprise::gpu::cuda {
namespace {

constexpr int kPreciseWarps = 8;
constexpr int kPreciseThreads = 32 * kPreciseWarps;
constexpr int kKeysOfStep = 32;  // one per lane

struct PreciseKeys {
  int first;         // position
  int last;          // the row's own position
  int key_chunks;    // key size / 8
  int value_chunks;  // value size / 8
  int row_bytes;     // bytes between keys, and between values
  float scale;       // factor of the scores
};

/// Addresses of a step's first key and value.
struct PreciseStep {
  const std::byte* keys;
  const std::byte* values;
};

template <int kColumns>
struct PreciseShared {
  alignas(16) float sums[kPreciseWarps][kColumns];  // sums of one query
  float2 max_and_sum[kPreciseWarps];                // of scores; of probabilities
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

/// A warp's state for kQueries queries. Stored: the KvRow type. A value is spread over kSpread lanes; a lane
/// holds kHeld groups of eight columns, lane % kSpread and every 32nd after it; groups past the end are
/// unspecified.
template <class Stored, int kQueries, int kSpread, int kHeld>
class PreciseWarp {
 public:
  static constexpr int kColumns = kSpread * kHeld * 8;
  static_assert(32 % kSpread == 0 && (kHeld == 1 || kSpread == 32));

  __device__ __forceinline__ PreciseWarp() : lane_(static_cast<int>(threadIdx.x) % 32) {
#pragma unroll
    for (float& one : highest_) one = tiles::kMinusInfinity;
  }

  /// Processes the keys from position `begin`. queries: [kQueries, key_chunks * 8], in shared memory.
  __device__ __forceinline__ void take(const float* queries, const PreciseKeys& keys, const PreciseStep& step,
                                       int begin) {
    const int first = max(keys.first - begin, 0);              // first visible key of the step
    const int last = min(keys.last - begin, kKeysOfStep - 1);  // last visible key
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
      const float maximum = fmaxf(highest_[query], highest_of_warp(own));
      const float rescale = expf(highest_[query] - maximum);
      share[query] = expf(own - maximum);
      highest_[query] = maximum;
      denominator_[query] = fmaf(denominator_[query], rescale, share[query]);
#pragma unroll
      for (auto& eight : out_[query]) {
#pragma unroll
        for (float& sum : eight) sum *= rescale;
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

  /// Writes the warp's result for a query to shared memory; readers need a barrier.
  __device__ __forceinline__ void put_result(int query, PreciseShared<kColumns>& shared) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
    for (auto& eight : out_[query]) {
#pragma unroll
      for (float& sum : eight) {
#pragma unroll
        for (int step = kSpread; step < 32; step *= 2) sum += __shfl_xor_sync(~0U, sum, step);
      }
    }
    const float denominator = sum_of_warp(denominator_[query]);
    if (lane_ == 0) shared.max_and_sum[warp] = make_float2(highest_[query], denominator);
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
  float denominator_[kQueries] = {};  // probability sum of the lane's keys
  float out_[kQueries][kHeld][8] = {};
};

/// Called by all threads of a block. step_at(n) returns the addresses of keys from 32 n on; put(query,
/// column, value) receives the results.
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
    __syncthreads();  // the previous query's results have been read
    sums.put_result(query, shared);
    __syncthreads();
    float highest = tiles::kMinusInfinity;
    for (const float2& one : shared.max_and_sum) highest = fmaxf(highest, one.x);
    for (int column = static_cast<int>(threadIdx.x); column < Warp::kColumns; column += kPreciseThreads) {
      float total = 0;
      float denominator = 0;
      for (int other = 0; other < kPreciseWarps; ++other) {  // a warp without steps has factor 0
        const float share = expf(shared.max_and_sum[other].x - highest);
        total = fmaf(share, shared.sums[other][column], total);
        denominator = fmaf(share, shared.max_and_sum[other].y, denominator);
      }
      put(query, column, total / denominator);
    }
  }
}

}  // namespace
}  // namespace reprise::gpu::cuda
