#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "gpu/cuda/checked_copy.h"
#include "gpu/cuda/error.h"
#include "gpu/cuda/gpu_attribute.h"

namespace reprise::gpu::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kDeep = 4;                  // loads that a thread has under way
constexpr int kChunk = kThreads * kDeep;  // 16-byte vectors that a block takes at a time
constexpr int kMost = CheckedCopier::kMostCopies;
constexpr unsigned kExponent = 0x7f800000;
constexpr std::uint64_t kPlace = 0x9e3779b97f4a7c15;
constexpr std::uint64_t kOdd = 0xd6e8feb86659fd93;

struct Job {
  std::byte* to;  // null: look only
  const std::byte* from;
  std::uint64_t bytes;
};

struct Plan {
  Job jobs[kMost];
  std::uint64_t first_chunk[kMost + 1];  // of each job; the last is the number of all
  int count;
};

struct Totals {
  unsigned long long sum[kMost];
  unsigned infinite[kMost];
  unsigned arrived;  // blocks that have added theirs
};

struct Results {
  unsigned long long sum[kMost];
  unsigned infinite[kMost];
};

__host__ __device__ inline std::uint64_t mixed(std::uint64_t word) {
  word = (word ^ (word >> 32)) * kOdd;
  return word ^ (word >> 32);
}

struct Seen {
  std::uint64_t sum = 0;
  unsigned infinite = 0;

  // `place` counts vectors of 16 bytes.
  __device__ void add(uint4 vector, std::uint64_t place) {
    const std::uint64_t low = vector.x | static_cast<std::uint64_t>(vector.y) << 32;
    const std::uint64_t high = vector.z | static_cast<std::uint64_t>(vector.w) << 32;
    const std::uint64_t salt = 2 * place * kPlace;
    sum += mixed(low + salt) + mixed(high + salt + kPlace);
    const unsigned words[4] = {vector.x, vector.y, vector.z, vector.w};
    for (const unsigned word : words) infinite |= (word & kExponent) == kExponent ? 1 : 0;
  }
};

// The vectors from `begin` on that a block takes in one go.
template <bool kCopy>
__device__ void take_chunk(const Job& job, std::uint64_t begin, Seen& seen) {
  const uint4* from = reinterpret_cast<const uint4*>(job.from);
  uint4* to = reinterpret_cast<uint4*>(job.to);
  const std::uint64_t whole = job.bytes / sizeof(uint4);
  const std::uint64_t first = begin + threadIdx.x;
  if (begin + kChunk <= whole) {
    uint4 vectors[kDeep];
#pragma unroll
    for (int i = 0; i < kDeep; ++i) vectors[i] = from[first + i * kThreads];
#pragma unroll
    for (int i = 0; i < kDeep; ++i) {
      if constexpr (kCopy) to[first + i * kThreads] = vectors[i];
      seen.add(vectors[i], first + i * kThreads);
    }
    return;
  }
  for (int i = 0; i < kDeep; ++i) {
    const std::uint64_t at = first + i * kThreads;
    if (at < whole) {
      const uint4 vector = from[at];
      if constexpr (kCopy) to[at] = vector;
      seen.add(vector, at);
    } else if (at == whole && job.bytes % sizeof(uint4) != 0) {  // the rest, with zeros behind
      const int words = static_cast<int>(job.bytes % sizeof(uint4) / 4);
      unsigned rest[4] = {0, 0, 0, 0};
      const unsigned* source = reinterpret_cast<const unsigned*>(from + at);
      unsigned* place = reinterpret_cast<unsigned*>(to + at);
#pragma unroll
      for (int word = 0; word < 3; ++word) {
        if (word >= words) continue;
        rest[word] = source[word];
        if constexpr (kCopy) place[word] = rest[word];
      }
      seen.add(make_uint4(rest[0], rest[1], rest[2], rest[3]), at);
    }
  }
}

// All threads of a block call it together.
__device__ void add_to_totals(Seen& seen, int job, Totals* totals) {
  __shared__ std::uint64_t sums[kWarps];
  __shared__ unsigned infinites[kWarps];
  for (int distance = 16; distance > 0; distance /= 2) {
    seen.sum += __shfl_down_sync(0xffffffff, static_cast<unsigned long long>(seen.sum), distance);
    seen.infinite |= __shfl_down_sync(0xffffffff, seen.infinite, distance);
  }
  if (threadIdx.x % 32 == 0) {
    sums[threadIdx.x / 32] = seen.sum;
    infinites[threadIdx.x / 32] = seen.infinite;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    std::uint64_t sum = 0;
    unsigned infinite = 0;
    for (int warp = 0; warp < kWarps; ++warp) {
      sum += sums[warp];
      infinite |= infinites[warp];
    }
    atomicAdd(&totals->sum[job], static_cast<unsigned long long>(sum));
    if (infinite != 0) atomicOr(&totals->infinite[job], 1U);
  }
  __syncthreads();  // the places above are used again
  seen = {};
}

__global__ void __launch_bounds__(kThreads)
    checked_copy_kernel(const __grid_constant__ Plan plan, Totals* totals, Results* results) {
  const std::uint64_t chunks = plan.first_chunk[plan.count];
  Seen seen;
  int job = 0;
  for (std::uint64_t chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {
    if (chunk >= plan.first_chunk[job + 1]) {
      add_to_totals(seen, job, totals);
      while (chunk >= plan.first_chunk[job + 1]) ++job;
    }
    const Job& work = plan.jobs[job];
    const std::uint64_t begin = (chunk - plan.first_chunk[job]) * kChunk;
    if (work.to != nullptr) {
      take_chunk<true>(work, begin, seen);
    } else {
      take_chunk<false>(work, begin, seen);
    }
  }
  add_to_totals(seen, job, totals);

  // Who comes last hands the totals over and leaves zeros for the next launch.
  if (threadIdx.x != 0) return;
  __threadfence();
  if (atomicAdd(&totals->arrived, 1U) != gridDim.x - 1) return;
  __threadfence();
  for (int i = 0; i < plan.count; ++i) {
    results->sum[i] = atomicExch(&totals->sum[i], 0ULL);
    results->infinite[i] = atomicExch(&totals->infinite[i], 0U);
  }
  atomicExch(&totals->arrived, 0U);
}

}  // namespace

CheckedCopier::CheckedCopier() : totals_(sizeof(Totals)), results_(sizeof(Results)) {
  check(cudaMemset(totals_.data(), 0, sizeof(Totals)), "clearing the totals of copies");
  check(cudaDeviceSynchronize(), "clearing the totals of copies");
  int resident = 0;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, checked_copy_kernel, kThreads, 0),
        "the occupancy of copies");
  most_blocks_ = static_cast<unsigned>(multiprocessor_count() * std::max(resident, 1));
}

void CheckedCopier::launch(std::span<const BlockMemory::Copy> copies, StreamHandle stream) {
  REPRISE_CHECK(copies.size() <= kMostCopies, "more copies than one launch takes");
  Plan plan{};
  plan.count = static_cast<int>(copies.size());
  for (std::size_t i = 0; i < copies.size(); ++i) {
    const BlockMemory::Copy& copy = copies[i];
    REPRISE_CHECK(copy.bytes % 4 == 0 && reinterpret_cast<std::uintptr_t>(copy.to) % kCopyAlignment == 0 &&
                      reinterpret_cast<std::uintptr_t>(copy.from) % kCopyAlignment == 0,
                  "a checked copy is not aligned, or its size is not a multiple of 4 bytes");
    plan.jobs[i] = {.to = copy.to, .from = copy.from, .bytes = copy.bytes};
    const std::uint64_t vectors = (copy.bytes + sizeof(uint4) - 1) / sizeof(uint4);
    plan.first_chunk[i + 1] = plan.first_chunk[i] + (vectors + kChunk - 1) / kChunk;
    sizes_[i] = copy.bytes;
  }
  const std::uint64_t chunks = std::max<std::uint64_t>(plan.first_chunk[copies.size()], 1);
  const auto blocks = static_cast<unsigned>(std::min<std::uint64_t>(chunks, most_blocks_));
  checked_copy_kernel<<<blocks, kThreads, 0, stream>>>(plan, totals_.as<Totals>(),
                                                       reinterpret_cast<Results*>(results_.data()));
  check_launch("checked_copy");
}

CopyFigures CheckedCopier::figures(std::size_t index) const {
  const auto* results = reinterpret_cast<const volatile Results*>(results_.data());
  return {.checksum = mixed(results->sum[index] + sizes_[index] * kPlace),
          .finite = results->infinite[index] == 0};
}

}  // namespace reprise::gpu::cuda
