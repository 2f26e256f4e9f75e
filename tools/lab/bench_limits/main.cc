// bench_limits: the machine's peak rates, as a reference for tools/bench_cpu.
//
//   bench_limits [--threads T] [--seconds S] [--megabytes M] [--json]
//
// Measures operations per second in registers for each supported instruction, and the bandwidth of reading a
// buffer of four times the last-level cache (or M megabytes). Figures are the best of the rounds that fit in
// S seconds each, to exclude other load.

#include <sys/mman.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <new>
#include <string>

#include "gpu/compute.h"
#include "gpu/threads.h"
#include "tools/lab/bench_limits/peak.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace {

using namespace reprise;
using tools::Peak;
using Clock = std::chrono::steady_clock;

#if defined(__x86_64__)
bool has_avx512_bf16() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & 1U << 5) != 0;
}
#endif

/// Returns the peaks of supported instructions; several of one name are variants with different chain counts.
std::vector<Peak> available_peaks() {
  std::vector<Peak> found;
  const auto add = [&](const std::vector<Peak>& more) {
    found.insert(found.end(), more.begin(), more.end());
  };
#if defined(__aarch64__)
  add(tools::neon_fma_peaks());
  if (gpu::is_available(gpu::Isa::kNeonDotprod)) add(tools::neon_dot_peaks());
  if (gpu::is_available(gpu::Isa::kNeonI8mm)) add(tools::neon_matrix_peaks());
#elif defined(__x86_64__)
  if (gpu::is_available(gpu::Isa::kAvx2)) add(tools::avx2_fma_peaks());
  if (gpu::is_available(gpu::Isa::kAvx2Vnni)) add(tools::avx_vnni_peaks());
  if (gpu::is_available(gpu::Isa::kAvx512)) add(tools::avx512_fma_peaks());
  if (gpu::is_available(gpu::Isa::kAvx512Vnni)) add(tools::avx512_vnni_peaks());
  if (gpu::is_available(gpu::Isa::kAvx512) && has_avx512_bf16()) add(tools::avx512_bf16_peaks());
  if (gpu::is_available(gpu::Isa::kAvx512Amx)) {
    add(tools::amx_bf16_peaks());
    add(tools::amx_int8_peaks());
  }
#endif
  return found;
}

/// Parses e.g. "32768K", as Linux writes cache sizes.
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

/// Memory of huge pages if available, to exclude TLB misses.
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

/// Returns the size of the last-level cache in bytes; 0: unknown.
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

/// Returns the bytes per second at which `threads` read a buffer of `bytes`, each parts that it wrote first;
/// best of the rounds that fit in `seconds`, at least three. Throws std::bad_alloc.
double read_bandwidth(gpu::Threads& threads, std::size_t bytes, double seconds) {
  constexpr std::size_t kPartWords = std::size_t{1} << 17;  // 1 MiB per dynamically assigned part
  const std::size_t parts = std::max<std::size_t>(1, bytes / (kPartWords * sizeof(std::uint64_t)));
  Buffer buffer(parts * kPartWords * sizeof(std::uint64_t));
  std::uint64_t* words = buffer.words();
  threads.for_parts(parts,
                    [&](std::size_t part) { std::fill_n(words + part * kPartWords, kPartWords, part); });
  std::atomic<std::uint64_t> seen{0};  // relaxed: only prevents optimization
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

constexpr std::size_t kMinBuffer = std::size_t{256} << 20;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double rate_of(const Peak& peak, gpu::Threads& threads, double seconds) {
  std::size_t turns = 1000;
  const auto round = [&] {
    std::atomic<float> sink{0};  // relaxed: only prevents optimization
    const Clock::time_point start = Clock::now();
    threads.for_parts(threads.count(),
                      [&](std::size_t) { sink.store(peak.run(turns), std::memory_order_relaxed); });
    return seconds_since(start);
  };
  while (round() < 0.01 && turns < std::size_t{1} << 40) turns *= 2;
  double best = 1e30;
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < 3 || seconds_since(start) < seconds; ++i) best = std::min(best, round());
  return peak.operations * static_cast<double>(turns) * threads.count() / best;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"The most that this machine multiplies and reads in a second"};
  unsigned thread_count = 0;
  double seconds = 0.2;
  std::size_t megabytes = 0;
  bool json = false;
  app.add_option("--threads", thread_count, "Threads; 0: one for each core")->check(CLI::Range(0, 4096));
  app.add_option("--seconds", seconds, "For each figure")
      ->check(CLI::Range(0.0, 600.0))
      ->capture_default_str();
  app.add_option("--megabytes", megabytes, "Of the buffer that is read; 0: four times the last cache")
      ->check(CLI::Range(0, 1 << 24));
  app.add_flag("--json", json, "One JSON object instead of a table");
  CLI11_PARSE(app, argc, argv);
  try {
    gpu::Threads threads(thread_count);
    const std::size_t cache = last_cache_bytes();
    const std::size_t buffer = megabytes != 0 ? megabytes * 1000000 : std::max(kMinBuffer, 4 * cache);
    if (json) std::printf(R"({"threads":%u,"last_cache_bytes":%zu,"peaks":[)", threads.count(), cache);
    const char* comma = "";
    const std::vector<Peak> peaks = available_peaks();
    for (auto peak = peaks.begin(); peak != peaks.end();) {
      const std::string name(peak->name);
      const std::string numbers(peak->numbers);
      double giga = 0;
      for (; peak != peaks.end() && peak->name == name; ++peak) {
        giga = std::max(giga, rate_of(*peak, threads, seconds) * 1e-9);
      }
      if (json) {
        std::printf(R"(%s{"name":"%s","numbers":"%s","gop_per_s":%.6g})", comma, name.c_str(),
                    numbers.c_str(), giga);
      } else {
        std::printf("%-20s %-5s %10.1f GOP/s\n", name.c_str(), numbers.c_str(), giga);
      }
      comma = ",";
    }
    const double read = read_bandwidth(threads, buffer, seconds) * 1e-9;
    const double size = static_cast<double>(buffer) * 1e-6;
    if (json) {
      std::printf(R"(],"read":{"megabytes":%.0f,"gb_per_s":%.6g}})"
                  "\n",
                  size, read);
    } else {
      std::printf("%-20s %-5s %10.1f GB/s, of a buffer of %.0f MB\n", "read", "", read, size);
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_limits: %s\n", error.what());
    return 1;
  }
}
