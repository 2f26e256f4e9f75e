// Copies with checksums: a persistent grid walks the chunks of up to kMaxCopies copies. A block sums its
// words' mixes and adds them with integer atomics, whose order does not matter.

#include "gpu/cuda/memory/device_memory.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "gpu/cuda/memory/error.h"
#include "gpu/cuda/memory/launch.cuh"

namespace reprise::gpu::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kDeep = 4;                  // loads in flight per thread
constexpr int kChunk = kThreads * kDeep;  // 16-byte vectors per block and step
constexpr int kMax = CheckedCopier::kMaxCopies;
constexpr unsigned kExponent = 0x7f800000;
constexpr std::uint64_t kIndexFactor = 0x9e3779b97f4a7c15;
constexpr std::uint64_t kOdd = 0xd6e8feb86659fd93;

struct Job {
  std::byte* to;  // null: examine only
  const std::byte* from;
  std::uint64_t bytes;
};

struct Plan {
  Job jobs[kMax];
  std::uint64_t first_chunk[kMax + 1];  // first chunk of each job; the last entry is the total
  int count;
};

struct Totals {
  unsigned long long sum[kMax];
  unsigned infinite[kMax];
  unsigned arrived;  // blocks that have added their results
};

struct Results {
  unsigned long long sum[kMax];
  unsigned infinite[kMax];
};

__host__ __device__ inline std::uint64_t mixed(std::uint64_t word) {
  word = (word ^ (word >> 32)) * kOdd;
  return word ^ (word >> 32);
}

struct PartialTotals {
  std::uint64_t sum = 0;
  unsigned infinite = 0;

  // `index` is the index of the 16-byte vector.
  __device__ void add(uint4 vector, std::uint64_t index) {
    const std::uint64_t low = vector.x | static_cast<std::uint64_t>(vector.y) << 32;
    const std::uint64_t high = vector.z | static_cast<std::uint64_t>(vector.w) << 32;
    const std::uint64_t salt = 2 * index * kIndexFactor;
    sum += mixed(low + salt) + mixed(high + salt + kIndexFactor);
    const unsigned words[4] = {vector.x, vector.y, vector.z, vector.w};
    for (const unsigned word : words) infinite |= (word & kExponent) == kExponent ? 1 : 0;
  }
};

// Copies and examines one step of a block, from vector `begin`.
template <bool kCopy>
__device__ void take_chunk(const Job& job, std::uint64_t begin, PartialTotals& partial) {
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
      partial.add(vectors[i], first + i * kThreads);
    }
    return;
  }
  for (int i = 0; i < kDeep; ++i) {
    const std::uint64_t at = first + i * kThreads;
    if (at < whole) {
      const uint4 vector = from[at];
      if constexpr (kCopy) to[at] = vector;
      partial.add(vector, at);
    } else if (at == whole && job.bytes % sizeof(uint4) != 0) {  // the last partial vector, padded with zeros
      const int words = static_cast<int>(job.bytes % sizeof(uint4) / 4);
      unsigned rest[4] = {0, 0, 0, 0};
      const unsigned* source = reinterpret_cast<const unsigned*>(from + at);
      unsigned* target = reinterpret_cast<unsigned*>(to + at);
#pragma unroll
      for (int word = 0; word < 3; ++word) {
        if (word >= words) continue;
        rest[word] = source[word];
        if constexpr (kCopy) target[word] = rest[word];
      }
      partial.add(make_uint4(rest[0], rest[1], rest[2], rest[3]), at);
    }
  }
}

// All threads of the block must call it.
__device__ void add_to_totals(PartialTotals& partial, int job, Totals* totals) {
  __shared__ std::uint64_t sums[kWarps];
  __shared__ unsigned infinites[kWarps];
  for (int distance = 16; distance > 0; distance /= 2) {
    partial.sum += __shfl_down_sync(0xffffffff, static_cast<unsigned long long>(partial.sum), distance);
    partial.infinite |= __shfl_down_sync(0xffffffff, partial.infinite, distance);
  }
  if (threadIdx.x % 32 == 0) {
    sums[threadIdx.x / 32] = partial.sum;
    infinites[threadIdx.x / 32] = partial.infinite;
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
  __syncthreads();  // the arrays above are reused
  partial = {};
}

__global__ void __launch_bounds__(kThreads)
    checked_copy_kernel(const __grid_constant__ Plan plan, Totals* totals, Results* results) {
  const std::uint64_t chunks = plan.first_chunk[plan.count];
  PartialTotals partial;
  int job = 0;
  for (std::uint64_t chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {
    if (chunk >= plan.first_chunk[job + 1]) {
      add_to_totals(partial, job, totals);
      while (chunk >= plan.first_chunk[job + 1]) ++job;
    }
    const Job& work = plan.jobs[job];
    const std::uint64_t begin = (chunk - plan.first_chunk[job]) * kChunk;
    if (work.to != nullptr) {
      take_chunk<true>(work, begin, partial);
    } else {
      take_chunk<false>(work, begin, partial);
    }
  }
  add_to_totals(partial, job, totals);

  // The last block publishes the totals and resets them for the next launch, a thread per copy. The fences
  // order the totals before the arrival count.
  __shared__ bool is_last;
  if (threadIdx.x == 0) {
    __threadfence();
    is_last = atomicAdd(&totals->arrived, 1U) == gridDim.x - 1;
  }
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  static_assert(kMax <= kThreads);
  if (threadIdx.x < static_cast<unsigned>(plan.count)) {
    results->sum[threadIdx.x] = atomicExch(&totals->sum[threadIdx.x], 0ULL);
    results->infinite[threadIdx.x] = atomicExch(&totals->infinite[threadIdx.x], 0U);
  }
  if (threadIdx.x == 0) atomicExch(&totals->arrived, 0U);
}

}  // namespace

CheckedCopier::CheckedCopier() : totals_(sizeof(Totals)), results_(sizeof(Results)) {
  check(cudaMemset(totals_.data(), 0, sizeof(Totals)), "clearing the totals of copies");
  check(cudaDeviceSynchronize(), "clearing the totals of copies");
  int resident = 0;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, checked_copy_kernel, kThreads, 0),
        "the occupancy of copies");
  max_blocks_ = static_cast<unsigned>(multiprocessor_count() * std::max(resident, 1));
}

void CheckedCopier::launch(std::span<const BlockMemory::Copy> copies, StreamHandle stream) {
  REPRISE_CHECK(copies.size() <= kMaxCopies, "more copies than one launch takes");
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
  const auto blocks = static_cast<unsigned>(std::min<std::uint64_t>(chunks, max_blocks_));
  checked_copy_kernel<<<blocks, kThreads, 0, stream>>>(plan, totals_.as<Totals>(),
                                                       reinterpret_cast<Results*>(results_.data()));
  check_launch("checked_copy");
}

CopyFigures CheckedCopier::figures(std::size_t index) const {
  const auto* results = reinterpret_cast<const volatile Results*>(results_.data());
  return {.checksum = mixed(results->sum[index] + sizes_[index] * kIndexFactor),
          .finite = results->infinite[index] == 0};
}

namespace {

constexpr int kCopyThreads = 256;

__global__ void __launch_bounds__(kCopyThreads) copy_sixteens(uint4* to, const uint4* from, int count) {
  const int i = static_cast<int>(blockIdx.x * kCopyThreads + threadIdx.x);
  if (i < count) to[i] = from[i];
}

}  // namespace

void copy_small_to_device(std::byte* to, const std::byte* from, std::size_t bytes, StreamHandle stream) {
  const auto is_aligned = [](const void* pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0;
  };
  REPRISE_CHECK(bytes <= kMaxSmallBytes && is_aligned(to) && is_aligned(from),
                "the copy is too large for a small copy, or not aligned to 16 bytes");
  if (bytes == 0) return;
  const auto count = static_cast<int>((bytes + 15) / 16);
  copy_sixteens<<<static_cast<unsigned>((count + kCopyThreads - 1) / kCopyThreads), kCopyThreads, 0,
                  stream>>>(reinterpret_cast<uint4*>(to), reinterpret_cast<const uint4*>(from), count);
  check_launch("small copy");
}

std::byte* DeviceMemory::take(std::size_t bytes) {
  std::byte* block = bytes >= large_ ? arena_.take_high(bytes) : arena_.take_low(bytes);
  if (block != nullptr) used_ += bytes;
  return block;
}

HostBytes DeviceMemory::take_host(std::size_t bytes) {
  const auto fits = std::find_if(spare_.begin(), spare_.end(), [bytes](const PinnedBytes& one) {
    return one.size() >= bytes && one.size() / 2 <= bytes;
  });
  auto pinned = std::make_shared<PinnedBytes>();
  if (fits != spare_.end()) {
    *pinned = std::move(*fits);
    spare_.erase(fits);
  } else {
    *pinned = PinnedBytes(bytes);
  }
  std::byte* data = pinned->data();
  const auto give_back = [this, pinned](std::byte*) {
    if (spare_.size() < kMaxSpare) spare_.push_back(std::move(*pinned));
  };
  return {std::shared_ptr<std::byte>(data, give_back), bytes};
}

void DeviceMemory::give(std::byte* block, std::size_t bytes) {
  arena_.give(block, bytes);
  used_ -= bytes;
}

void DeviceMemory::fill(std::byte* to, int value, std::size_t bytes) {
  fill_all({&to, 1}, value, bytes);
}

// Contiguous blocks, as consecutive allocations often are, are filled by one call.
void DeviceMemory::fill_all(std::span<std::byte* const> blocks, int value, std::size_t bytes) {
  for (std::size_t i = 0; i < blocks.size();) {
    std::byte* const to = blocks[i];
    std::size_t run = 0;
    for (; i < blocks.size() && blocks[i] == to + run; ++i) run += bytes;
    cuda::fill(to, value, run, stream_.handle());
  }
  stream_.wait();
}

void DeviceMemory::copy(std::span<const Copy> copies, std::span<CopyFigures> figures) {
  while (!copies.empty()) {
    const std::size_t count = std::min(copies.size(), CheckedCopier::kMaxCopies);
    copier_.launch(copies.first(count), stream_.handle());
    stream_.wait();
    for (std::size_t i = 0; i < count; ++i) figures[i] = copier_.figures(i);
    copies = copies.subspan(count);
    figures = figures.subspan(count);
  }
}

CopyFigures DeviceMemory::look_at(const std::byte* bytes, std::size_t size) {
  const Copy look{.to = nullptr, .from = bytes, .bytes = size};
  CopyFigures figures;
  copy({&look, 1}, {&figures, 1});
  return figures;
}

void DeviceMemory::look_at_all(std::span<const std::byte* const> blocks, std::size_t size,
                               std::span<CopyFigures> figures) {
  std::vector<Copy> looks;
  for (const std::byte* const block : blocks) looks.push_back({.to = nullptr, .from = block, .bytes = size});
  copy(looks, figures);
}

void DeviceMemory::to_host(std::span<const Copy> copies) {
  for (const Copy& copy : copies) copy_to_host(copy.to, copy.from, copy.bytes, stream_.handle());
  stream_.wait();
}

void DeviceMemory::from_host(std::span<const Copy> copies) {
  for (const Copy& copy : copies) copy_to_device(copy.to, copy.from, copy.bytes, stream_.handle());
  stream_.wait();
}

}  // namespace reprise::gpu::cuda
