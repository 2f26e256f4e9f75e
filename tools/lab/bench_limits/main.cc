// bench_limits: what this machine can do at most, for tools/bench_cpu to measure against.
//
//   bench_limits [--threads T] [--seconds S] [--megabytes M] [--json]
//
// The products a second that the cores make in registers, for each instruction they have; and the bytes a second that
// they read from a buffer of four times the last cache (or of M megabytes). Figures are the best of the rounds that
// fit S seconds each; the others are what else the machine was doing.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>

#include "tools/lab/bench_limits/memory.h"
#include "tools/lab/bench_limits/peak.h"

namespace {

using namespace reprise;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kLeastBuffer = std::size_t{256} << 20;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Operations a second of all threads together.
double rate_of(const tools::Peak& peak, gpu::Threads& threads, double seconds) {
  std::size_t turns = 1000;
  const auto round = [&] {
    std::atomic<float> sink{0};  // relaxed: it only keeps the work from being left out
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
    const std::size_t cache = tools::last_cache_bytes();
    const std::size_t buffer = megabytes != 0 ? megabytes * 1000000 : std::max(kLeastBuffer, 4 * cache);
    if (json) std::printf(R"({"threads":%u,"last_cache_bytes":%zu,"peaks":[)", threads.count(), cache);
    const char* comma = "";
    const std::vector<tools::Peak> peaks = tools::peaks();
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
    const double read = tools::read_bandwidth(threads, buffer, seconds) * 1e-9;
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
