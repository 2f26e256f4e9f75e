#include "tools/lab/bench_limits/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <new>
#include <string>

namespace reprise::tools {
namespace {

using Clock = std::chrono::steady_clock;

/// "32768K", as Linux writes it.
std::size_t bytes_of(const std::string& size) {
  std::size_t end = 0;
  std::size_t number = 0;
  try {
    number = std::stoull(size, &end);
  } catch (const std::exception&) {
    return 0;
  }
  const char unit = end < size.size() ? size[end] : ' ';
  return unit == 'K' ? number << 10 : unit == 'M' ? number << 20 : number;
}

/// Memory of large pages where the system gives them: looking up pages is not what is to be measured.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes)
      : bytes_(bytes),
        data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (data_ == MAP_FAILED) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
    madvise(data_, bytes, MADV_HUGEPAGE);
#endif
  }
  ~Buffer() {
    munmap(data_, bytes_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::uint64_t* words() {
    return static_cast<std::uint64_t*>(data_);
  }

 private:
  const std::size_t bytes_;
  void* const data_;
};

std::uint64_t sum_of(const std::uint64_t* words, std::size_t count) {
  std::uint64_t sums[16] = {};
  for (std::size_t i = 0; i + 16 <= count; i += 16) {
    for (std::size_t lane = 0; lane < 16; ++lane) sums[lane] ^= words[i + lane];
  }
  std::uint64_t all = 0;
  for (const std::uint64_t sum : sums) all ^= sum;
  return all;
}

}  // namespace

std::size_t last_cache_bytes() {
  std::size_t largest = 0;
  std::error_code error;
  const std::filesystem::path caches = "/sys/devices/system/cpu/cpu0/cache";
  for (const auto& cache : std::filesystem::directory_iterator(caches, error)) {
    std::string size;
    if (std::getline(std::ifstream(cache.path() / "size"), size)) largest = std::max(largest, bytes_of(size));
  }
  return largest;
}

double read_bandwidth(gpu::Threads& threads, std::size_t bytes, double seconds) {
  constexpr std::size_t kPartWords = std::size_t{1} << 17;  // 1 MiB: whoever is free takes the next
  const std::size_t parts = std::max<std::size_t>(1, bytes / (kPartWords * sizeof(std::uint64_t)));
  Buffer buffer(parts * kPartWords * sizeof(std::uint64_t));
  std::uint64_t* words = buffer.words();
  threads.for_parts(parts,
                    [&](std::size_t part) { std::fill_n(words + part * kPartWords, kPartWords, part); });
  std::atomic<std::uint64_t> seen{0};  // relaxed: it only keeps the sums from being left out
  double best = 0;
  const Clock::time_point end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  for (int round = 0; round < 3 || Clock::now() < end; ++round) {
    const Clock::time_point start = Clock::now();
    threads.for_parts(parts, [&](std::size_t part) {
      seen.fetch_xor(sum_of(words + part * kPartWords, kPartWords), std::memory_order_relaxed);
    });
    const double spent = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::max(best, static_cast<double>(parts * kPartWords * sizeof(std::uint64_t)) / spent);
  }
  return best;
}

}  // namespace reprise::tools
