// Samples the token of one row with a block of threads.
//
// Candidates are the tokens with a probability above 0 (unnormalized, the largest is 1). Their order is
// determined only as far as needed: a histogram over buckets of the exponent shows in which bucket a running
// sum passes a threshold; a bucket too large for the sort buffer is narrowed by digits of the logit's bits;
// the rest is sorted.
//
// All threads of the block must call each function together, unless it says otherwise.

#include "gpu/cuda/rows/sampling.h"

#include <cuda_runtime.h>

#include <cfloat>
#include <cstdint>

#include "base/check.h"
#include "gpu/cuda/memory/launch.cuh"

namespace reprise::gpu::cuda {
namespace {

constexpr int kRowThreads = 1024;
constexpr int kRowWarps = kRowThreads / 32;
constexpr int kBuckets = 2048;
constexpr int kDigits = 256;
constexpr int kSorted = 2048;     // candidates that fit the sort buffer
constexpr int kInFlight = 4;      // float4 loads in flight per thread
constexpr float kUnit = 0x1p44f;  // integer value of probability 1
constexpr float kMaxDepth = -31;  // smaller exponents give less than 2^-44
constexpr unsigned kAll = 0xffffffff;

struct Part {
  std::uint64_t mass;
  std::uint32_t count;

  __device__ Part operator+(const Part& other) const { return {mass + other.mass, count + other.count}; }
  __device__ Part operator-(const Part& other) const { return {mass - other.mass, count - other.count}; }
};

struct BestLogit {
  float logit;
  std::int32_t token;  // the lowest with that logit; -1: all are NaN or -infinity
  std::uint32_t health;
};

struct RowShared {
  unsigned long long mass[kBuckets];
  std::uint32_t count[kBuckets];
  unsigned long long digit_mass[kDigits];
  std::uint32_t digit_count[kDigits];
  std::uint64_t sorted[kSorted];  // rank bits of the logit, then the token
  std::uint32_t sorted_count;
  Part warp[kRowWarps];
  BestLogit warp_best[kRowWarps];
  Part total;
  // Result of locate().
  int index;
  Part before;
  Part inside;
  std::int32_t token;
};

/// Calls use(logit, token) for every token, ascending within a thread. Need not be called by all threads
/// together.
template <int kThreads = kRowThreads, class Use>
__device__ void for_each_logit(const float* row, int vocab, Use use) {
  // Elements before the first 16-byte boundary, one per thread; then float4; then the rest.
  const int lead =
      min(vocab, static_cast<int>((16 - reinterpret_cast<std::uintptr_t>(row) % 16) % 16 / sizeof(float)));
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < lead) use(row[thread], thread);
  const auto* fours = reinterpret_cast<const float4*>(row + lead);
  const int count = (vocab - lead) / 4;
  for (int begin = thread; begin < count; begin += kThreads * kInFlight) {
    float4 logits[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const int at = begin + i * kThreads;
      logits[i] = at < count ? fours[at] : make_float4(0, 0, 0, 0);
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const int at = begin + i * kThreads;
      if (at >= count) break;
      const int token = lead + 4 * at;
      use(logits[i].x, token);
      use(logits[i].y, token + 1);
      use(logits[i].z, token + 2);
      use(logits[i].w, token + 3);
    }
  }
  const int rest = lead + 4 * count + thread;
  if (rest < vocab) use(row[rest], rest);
}

__device__ inline bool beats(const BestLogit& a, const BestLogit& b) {
  if (a.token < 0 || b.token < 0) return b.token < 0 && a.token >= 0;
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

/// Best of a warp's lanes; all of them get it.
__device__ inline BestLogit best_of_warp(BestLogit best) {
  for (int distance = 16; distance > 0; distance /= 2) {
    const BestLogit other{__shfl_xor_sync(kAll, best.logit, distance),
                          __shfl_xor_sync(kAll, best.token, distance),
                          __shfl_xor_sync(kAll, best.health, distance)};
    const std::uint32_t health = best.health | other.health;
    if (beats(other, best)) best = other;
    best.health = health;
  }
  return best;
}

/// Best of `count` logits by kThreads threads; `first` is the token of the first one. `of_warp`: [kThreads /
/// 32].
template <int kThreads>
__device__ BestLogit best_of_logits(const float* logits, int count, int first, BestLogit* of_warp) {
  BestLogit best{-INFINITY, -1, 0};
  for_each_logit<kThreads>(logits, count, [&best, first](float logit, int token) {
    if (logit > best.logit) {
      best.logit = logit;
      best.token = first + token;
    }
    if (!(logit < INFINITY)) best.health |= SampledToken::kNotFinite;
  });
  const int lane = static_cast<int>(threadIdx.x) % 32;
  best = best_of_warp(best);
  __syncthreads();  // the array may still be in use
  if (lane == 0) of_warp[threadIdx.x / 32] = best;
  __syncthreads();
  return best_of_warp(lane < kThreads / 32 ? of_warp[lane] : BestLogit{-INFINITY, -1, 0});
}

__device__ inline BestLogit best_of_row(const float* row, int vocab, RowShared& shared) {
  return best_of_logits<kRowThreads>(row, vocab, 0, shared.warp_best);
}

__device__ inline void adjust(float* row, const LogitAdjustment* list, int count) {
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kRowThreads) {
    const std::int32_t token = list[i].token;
    // The thread of a token's first entry applies all of them.
    if (i > 0 && list[i - 1].token == token) continue;
    float logit = row[token];
    for (int j = i; j < count && list[j].token == token; ++j) {
      logit = __fadd_rn(logit, list[j].bias);
      logit = logit > 0 ? __fdiv_rn(logit, list[j].penalty) : __fmul_rn(logit, list[j].penalty);
      logit = __fsub_rn(logit, list[j].subtract);
    }
    row[token] = logit;
  }
  __syncthreads();
}

/// Sets the logits of forbidden tokens to -infinity.
__device__ inline void apply_mask(float* row, int vocab, const std::uint32_t* mask) {
  for (int token = static_cast<int>(threadIdx.x); token < vocab; token += kRowThreads) {
    if ((mask[token / 32] >> (token % 32) & 1) == 0) row[token] = -INFINITY;
  }
  __syncthreads();
}

/// Probability of a logit, bitwise as models/sampling/softmax.cc.
struct Weights {
  float best;
  float scale;

  __device__ float exponent(float logit) const {
    return logit == best ? 0.0f : __fmul_rn(__fsub_rn(logit, best), scale);
  }
  static __device__ float of(float exponent) {
    if (!(exponent >= kMaxDepth)) return 0;
    const float shifted = __fadd_rn(__fmul_rn(exponent, 0x1.715476p0f), 0x1.8p23f);
    const float n = __fsub_rn(shifted, 0x1.8p23f);
    const float r = __fsub_rn(__fsub_rn(exponent, __fmul_rn(n, 0x1.62e4p-1f)), __fmul_rn(n, 0x1.7f7d1cp-20f));
    const float r2 = __fmul_rn(r, r);
    const float a = __fadd_rn(1.0f / 2, __fmul_rn(r, 1.0f / 6));
    const float b = __fadd_rn(1.0f / 24, __fmul_rn(r, 1.0f / 120));
    const float c = __fadd_rn(1.0f / 720, __fmul_rn(r, 1.0f / 5040));
    const float inner = __fadd_rn(b, __fmul_rn(r2, c));
    const float p = __fadd_rn(__fadd_rn(1.0f, r), __fmul_rn(r2, __fadd_rn(a, __fmul_rn(r2, inner))));
    return __fmul_rn(p, __uint_as_float((__float_as_uint(shifted) + 127) << 23));
  }
  static __device__ std::uint64_t units(float weight) {
    return __float2ull_rz(__fmul_rn(weight, kUnit));  // the product is exact
  }
  static __device__ int bucket(float exponent) {
    return min(kBuckets - 1, static_cast<int>(__fmul_rn(-exponent, kBuckets / -kMaxDepth)));
  }
};

/// Key in descending order of logits; equal logits have equal keys.
__device__ inline std::uint32_t rank_bits(float logit) {
  const std::uint32_t bits = logit == 0 ? 0 : __float_as_uint(logit);
  return (bits >> 31) != 0 ? bits : ~(bits | 0x80000000);
}

__device__ inline float logit_of(std::uint32_t rank) {
  return __uint_as_float((rank >> 31) != 0 ? rank : ~rank & 0x7fffffff);
}

/// Finds the first of item(0) ... item(count - 1) at which the running count or mass reaches `wanted`, and
/// sets shared.index, before, inside and total. Requires: 1 <= wanted <= total.
template <int kEach, class Item>
__device__ void locate(int count, bool by_count, std::uint64_t wanted, Item item, RowShared& shared) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  Part mine[kEach] = {};
  Part sum{};
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int at = static_cast<int>(threadIdx.x) * kEach + i;
    if (at < count) mine[i] = item(at);
    sum = sum + mine[i];
  }
  const auto scan_warp = [lane](Part part) {
    for (int distance = 1; distance < 32; distance *= 2) {
      const Part other{__shfl_up_sync(kAll, static_cast<unsigned long long>(part.mass), distance),
                       __shfl_up_sync(kAll, part.count, distance)};
      if (lane >= distance) part = part + other;
    }
    return part;
  };
  const Part through = scan_warp(sum);
  __syncthreads();  // the array may still be in use
  if (lane == 31) shared.warp[warp] = through;
  __syncthreads();
  if (warp == 0) {
    const Part own = shared.warp[lane];
    const Part all = scan_warp(own);
    shared.warp[lane] = all - own;
    if (lane == 31) shared.total = all;
  }
  __syncthreads();
  Part before = shared.warp[warp] + (through - sum);
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const Part after = before + mine[i];
    const std::uint64_t low = by_count ? before.count : before.mass;
    const std::uint64_t high = by_count ? after.count : after.mass;
    if (low < wanted && wanted <= high) {
      shared.index = static_cast<int>(threadIdx.x) * kEach + i;
      shared.before = before;
      shared.inside = mine[i];
    }
    before = after;
  }
  __syncthreads();
}

/// Selection in the rank order of a row's candidates.
class RowOrder {
 public:
  struct Found {
    std::uint64_t mass;  // sum over the candidates up to and including this one
    std::int32_t token;
  };

  __device__ RowOrder(const float* row, int vocab, const Weights& weights, RowShared& shared)
      : row_(row), vocab_(vocab), weights_(weights), shared_(shared) {}

  /// Fills the histogram. Returns the mass of this thread's candidates with a probability of at least
  /// `min_p`.
  __device__ std::uint64_t count(double min_p) {
    for (int i = static_cast<int>(threadIdx.x); i < kBuckets; i += kRowThreads) {
      shared_.mass[i] = 0;
      shared_.count[i] = 0;
    }
    __syncthreads();
    std::uint64_t likely = 0;
    for_each_logit(row_, vocab_, [&](float logit, int) {
      const float exponent = weights_.exponent(logit);
      const float weight = Weights::of(exponent);
      const std::uint64_t units = Weights::units(weight);
      if (units == 0) return;
      const int bucket = Weights::bucket(exponent);
      atomicAdd(&shared_.count[bucket], 1U);
      atomicAdd(&shared_.mass[bucket], static_cast<unsigned long long>(units));
      if (weight >= min_p) likely += units;
    });
    __syncthreads();
    return likely;
  }

  __device__ Part whole() {
    locate_bucket(true, 1);
    return shared_.total;
  }

  /// Returns the first candidate at which the running count or mass reaches `wanted`. Requires: wanted is at
  /// most the total.
  __device__ Found find(bool by_count, std::uint64_t wanted) {
    locate_bucket(by_count, wanted);
    const int bucket = shared_.index;
    if (bucket < first_bucket_ || bucket > last_bucket_) {
      const Part before = shared_.before;
      const Part inside = shared_.inside;
      // Sorts everything up to here, because later searches are in this range.
      if (before.count + inside.count <= kSorted) {
        sort_buckets(0, bucket, Part{});
      } else if (inside.count <= kSorted) {
        sort_buckets(bucket, bucket, before);
      } else {
        return find_in_large_bucket(bucket, by_count, wanted, before);
      }
    }
    return find_in_sorted(by_count, wanted);
  }

 private:
  __device__ void locate_bucket(bool by_count, std::uint64_t wanted) {
    locate<kBuckets / kRowThreads>(
        kBuckets, by_count, wanted,
        [this](int i) {
          return Part{shared_.mass[i], shared_.count[i]};
        },
        shared_);
  }

  /// Calls use(rank bits, token) for the candidates of these buckets.
  template <class Use>
  __device__ void for_each_in(int first, int last, Use use) const {
    for_each_logit(row_, vocab_, [&](float logit, int token) {
      const float exponent = weights_.exponent(logit);
      if (!(exponent >= kMaxDepth)) return;
      const int bucket = Weights::bucket(exponent);
      if (bucket < first || bucket > last || Weights::units(Weights::of(exponent)) == 0) return;
      use(rank_bits(logit), token);
    });
  }

  __device__ std::uint64_t units_of(std::uint32_t rank) const {
    return Weights::units(Weights::of(weights_.exponent(logit_of(rank))));
  }

  __device__ void sort_buckets(int first, int last, const Part& before) {
    gather([&](auto use) { for_each_in(first, last, use); });
    first_bucket_ = first;
    last_bucket_ = last;
    before_ = before;
  }

  /// Sorts the source's candidates into shared.sorted; they must fit.
  template <class Source>
  __device__ void gather(Source source) {
    __syncthreads();
    if (threadIdx.x == 0) shared_.sorted_count = 0;
    __syncthreads();
    source([this](std::uint32_t rank, int token) {
      const std::uint32_t at = atomicAdd(&shared_.sorted_count, 1U);
      shared_.sorted[at] = static_cast<std::uint64_t>(rank) << 32 | static_cast<std::uint32_t>(token);
    });
    __syncthreads();
    const int count = static_cast<int>(shared_.sorted_count);
    int size = 2;
    while (size < count) size *= 2;
    for (int i = count + static_cast<int>(threadIdx.x); i < size; i += kRowThreads) shared_.sorted[i] = ~0ULL;
    // Bitonic sort: thread i compares the i-th pair of each round.
    for (int run = 2; run <= size; run *= 2) {
      for (int distance = run / 2; distance > 0; distance /= 2) {
        __syncthreads();
        const int pair = static_cast<int>(threadIdx.x);
        if (pair < size / 2) {
          const int low = pair / distance * distance * 2 + pair % distance;
          const int high = low + distance;
          const bool ascending = (low & run) == 0;
          const std::uint64_t a = shared_.sorted[low];
          const std::uint64_t b = shared_.sorted[high];
          if ((a > b) == ascending) {
            shared_.sorted[low] = b;
            shared_.sorted[high] = a;
          }
        }
      }
    }
    __syncthreads();
  }

  __device__ Found find_in_sorted(bool by_count, std::uint64_t wanted) {
    wanted -= by_count ? before_.count : before_.mass;
    locate<kSorted / kRowThreads>(
        static_cast<int>(shared_.sorted_count), by_count, wanted,
        [this](int i) {
          return Part{units_of(static_cast<std::uint32_t>(shared_.sorted[i] >> 32)), 1};
        },
        shared_);
    return {before_.mass + shared_.before.mass + shared_.inside.mass,
            static_cast<std::int32_t>(shared_.sorted[shared_.index])};
  }

  /// Radix search in a bucket that does not fit the sort buffer, until the rest fits or is equal.
  __device__ Found find_in_large_bucket(int bucket, bool by_count, std::uint64_t wanted, Part before) {
    std::uint32_t prefix = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
      __syncthreads();
      for (int i = static_cast<int>(threadIdx.x); i < kDigits; i += kRowThreads) {
        shared_.digit_mass[i] = 0;
        shared_.digit_count[i] = 0;
      }
      __syncthreads();
      for_each_in(bucket, bucket, [&](std::uint32_t rank, int) {
        if (shift < 24 && rank >> (shift + 8) != prefix) return;
        const std::uint32_t digit = rank >> shift & 0xff;
        atomicAdd(&shared_.digit_count[digit], 1U);
        atomicAdd(&shared_.digit_mass[digit], static_cast<unsigned long long>(units_of(rank)));
      });
      __syncthreads();
      locate<1>(
          kDigits, by_count, wanted - (by_count ? before.count : before.mass),
          [this](int i) {
            return Part{shared_.digit_mass[i], shared_.digit_count[i]};
          },
          shared_);
      before = before + shared_.before;
      prefix = prefix << 8 | static_cast<std::uint32_t>(shared_.index);
      if (shared_.inside.count <= kSorted) {
        gather([&](auto use) {
          for_each_in(bucket, bucket, [&](std::uint32_t rank, int token) {
            if (rank >> shift == prefix) use(rank, token);
          });
        });
        first_bucket_ = 0;  // no complete bucket is sorted
        last_bucket_ = -1;
        before_ = before;
        return find_in_sorted(by_count, wanted);
      }
    }
    return find_equal(prefix, by_count, wanted, before);
  }

  /// Returns the candidate of the right ordinal among equal logits, in ascending order of tokens.
  __device__ Found find_equal(std::uint32_t rank, bool by_count, std::uint64_t wanted, const Part& before) {
    const std::uint64_t units = units_of(rank);
    const std::uint64_t number =  // ordinal, from 1
        by_count ? wanted - before.count : (wanted - before.mass + units - 1) / units;
    const int each = (vocab_ + kRowThreads - 1) / kRowThreads;
    const int begin = static_cast<int>(threadIdx.x) * each;
    const int end = min(vocab_, begin + each);
    const auto is_equal = [&](int token) { return rank_bits(row_[token]) == rank; };
    std::uint32_t equals = 0;
    for (int token = begin; token < end; ++token) equals += is_equal(token) ? 1 : 0;
    locate<1>(
        kRowThreads, true, number,
        [equals](int) {
          return Part{0, equals};
        },
        shared_);
    if (shared_.index == static_cast<int>(threadIdx.x)) {
      std::uint64_t left = number - shared_.before.count;
      int token = begin;
      for (; token < end; ++token) {
        if (is_equal(token) && --left == 0) break;
      }
      shared_.token = token;
    }
    __syncthreads();
    return {before.mass + number * units, shared_.token};
  }

  const float* row_;
  const int vocab_;
  const Weights weights_;
  RowShared& shared_;
  // Buckets in shared.sorted, and what precedes them.
  int first_bucket_ = 0;
  int last_bucket_ = -1;
  Part before_{};
};

/// `best`: maximum of the unmodified row.
__device__ inline SampledToken sample_row(float* row, int vocab, BestLogit best, const SamplingRow& params,
                                          const LogitAdjustment* adjustments, const std::uint32_t* masks,
                                          RowShared& shared) {
  const std::uint32_t health = best.health | (best.token >= 0 ? SampledToken::kUsable : 0);
  if (params.adjustments > 0) {
    __syncthreads();
    adjust(row, adjustments + params.first_adjustment, params.adjustments);
  }
  if (params.first_mask_word >= 0) {
    __syncthreads();
    apply_mask(row, vocab, masks + params.first_mask_word);
  }
  if (params.adjustments > 0 || params.first_mask_word >= 0) best = best_of_row(row, vocab, shared);
  if (best.token < 0 || params.temperature == 0) return {best.token, health};

  const Weights weights{best.logit,
                        static_cast<float>(fmin(1 / params.temperature, static_cast<double>(FLT_MAX)))};
  RowOrder order(row, vocab, weights, shared);
  const std::uint64_t my_likely = order.count(params.min_p);
  const Part whole = order.whole();
  std::uint64_t kept = whole.mass;
  if (params.top_k > 0 && static_cast<std::uint32_t>(params.top_k) < whole.count) {
    kept = order.find(true, static_cast<std::uint64_t>(params.top_k)).mass;
  }
  if (params.top_p < 1) {
    const double enough = ceil(params.top_p * static_cast<double>(kept));
    const std::uint64_t wanted = enough < 1 ? 1 : static_cast<std::uint64_t>(enough);
    kept = order.find(false, min(wanted, kept)).mass;
  }
  if (params.min_p > 0) {
    locate<1>(
        kRowThreads, true, 1,
        [my_likely](int) {
          return Part{my_likely, 1};
        },
        shared);
    kept = min(kept, shared.total.mass);
  }
  // The first token at which the running sum exceeds u times the total.
  const std::uint64_t target = __umul64hi(params.u, kept);
  return {order.find(false, target + 1).token, health};
}

constexpr int kParts = 32;  // per row; one warp merges them
constexpr int kPartThreads = 512;

/// Best logit of each part. Grid: parts, rows.
__global__ void __launch_bounds__(kPartThreads)
    find_best(const float* logits, int vocab, int stride, BestLogit* best) {
  __shared__ BestLogit of_warp[kPartThreads / 32];
  pdl_wait();
  pdl_launch_dependents();
  const int share = (vocab + 4 * kParts - 1) / (4 * kParts) * 4;
  const int first = min(vocab, static_cast<int>(blockIdx.x) * share);
  const std::size_t row = blockIdx.y;
  const BestLogit found = best_of_logits<kPartThreads>(
      logits + row * static_cast<std::size_t>(stride) + first, min(share, vocab - first), first, of_warp);
  if (threadIdx.x == 0) best[row * kParts + blockIdx.x] = found;
}

__global__ void __launch_bounds__(kRowThreads)
    sample_kernel(float* logits, int vocab, int stride, const SamplingRow* params,
                  const LogitAdjustment* adjustments, const std::uint32_t* masks, const BestLogit* best,
                  SampledToken* out) {
  __shared__ RowShared shared;
  const std::size_t row = blockIdx.x;
  const SamplingRow own = params[row];  // written by the host before the launch
  pdl_wait();
  pdl_launch_dependents();
  const SampledToken result =
      sample_row(logits + row * static_cast<std::size_t>(stride), vocab,
                 best_of_warp(best[row * kParts + threadIdx.x % 32]), own, adjustments, masks, shared);
  if (threadIdx.x == 0) out[row] = result;
}

}  // namespace

std::size_t sampling_workspace(int rows) {
  return static_cast<std::size_t>(rows) * kParts * sizeof(BestLogit);
}

void sample(float* logits, int rows, int vocab, int stride, const SamplingRow* params,
            const LogitAdjustment* adjustments, const std::uint32_t* masks, std::byte* workspace,
            SampledToken* out, StreamHandle stream) {
  REPRISE_CHECK(vocab > 0 && vocab <= kMaxVocab,
                "the vocabulary is empty or larger than the sampling kernel takes");
  if (rows == 0) return;
  auto* best = reinterpret_cast<BestLogit*>(workspace);
  launch_after(find_best, {.blocks = dim3(kParts, rows), .threads = kPartThreads}, stream, logits, vocab,
               stride, best);
  launch_after(sample_kernel, {.blocks = dim3(rows), .threads = kRowThreads}, stream, logits, vocab, stride,
               params, adjustments, masks, best, out);
}

}  // namespace reprise::gpu::cuda
