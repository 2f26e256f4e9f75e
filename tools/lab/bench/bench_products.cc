// Speed of the CPU's weight GEMMs: each kernel table that runs here, each format, by rows of x.
//
//   bench_products [--table NAME] [--format NAME] [--rows 1,8,256] [--outputs N] [--columns K] [--threads T]
//                  [--exact] [--seconds S] [--megabytes M]
//
// Prints GFLOP/s (2 m n k) and GB/s (bytes of the stored weight, read once per GEMM). Cycles through many
// copies of the weights, together larger than the caches, so small m measures memory. Weights have random
// bits, but possible floats in them are between 2^-7 and 2. Prints the best of the rounds that fit in the
// time.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gpu/cpu/tables.h"
#include "gpu/threads.h"
#include "gpu/weights/host_weight.h"

namespace {

using namespace reprise::gpu;
using Clock = std::chrono::steady_clock;

struct Settings {
  std::string table, format;
  std::vector<std::size_t> rows = {1, 8, 64, 256};
  std::size_t outputs = 3584;
  std::size_t columns = 1024;
  unsigned threads = 2;
  bool exact = false;
  double seconds = 0.3;
  std::size_t megabytes = 1000;
};

[[noreturn]] void usage() {
  std::fprintf(
      stderr,
      "usage: bench_products [--table NAME] [--format NAME] [--rows 1,8] [--outputs N] [--columns K]\n"
      "                      [--threads T] [--exact] [--seconds S] [--megabytes M]\n");
  std::exit(2);
}

std::vector<std::size_t> numbers(const std::string& list) {
  std::vector<std::size_t> all;
  for (const char* p = list.c_str(); *p != '\0';) {
    char* end = nullptr;
    all.push_back(std::strtoull(p, &end, 10));
    if (end == p || all.back() == 0) usage();
    p = *end == ',' ? end + 1 : end;
  }
  return all;
}

Settings parse(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--exact") {
      settings.exact = true;
      continue;
    }
    if (++i == argc) usage();
    const std::string value = argv[i];
    if (flag == "--table") {
      settings.table = value;
    } else if (flag == "--format") {
      settings.format = value;
    } else if (flag == "--rows") {
      settings.rows = numbers(value);
    } else if (flag == "--outputs") {
      settings.outputs = numbers(value).at(0);
    } else if (flag == "--columns") {
      settings.columns = numbers(value).at(0);
    } else if (flag == "--threads") {
      settings.threads = static_cast<unsigned>(numbers(value).at(0));
    } else if (flag == "--megabytes") {
      settings.megabytes = numbers(value).at(0);
    } else if (flag == "--seconds") {
      settings.seconds = std::strtod(value.c_str(), nullptr);
    } else {
      usage();
    }
  }
  return settings;
}

/// Copies of one weight with random bytes whose 16-bit words, as f16 or bf16, are small values.
class Weights {
 public:
  Weights(const Settings& settings, const WeightFormat& format) {
    WeightView view{.format = &format, .rows = settings.outputs, .columns = settings.columns};
    const std::size_t count = std::max<std::size_t>(2, settings.megabytes * 1000000 / view.bytes());
    std::mt19937_64 random(1);
    bytes_.resize(count);
    for (std::vector<std::uint64_t>& copy : bytes_) {
      copy.resize(view.bytes() / 8 + 9);
      if (&copy != &bytes_[0]) {
        copy = bytes_[0];
      } else {
        for (std::uint64_t& word : copy) word = (random() & 0x83ff83ff83ff83ffULL) | 0x3c003c003c003c00ULL;
      }
      view.data = copy.data();
      if (format.scales.rows != 0) {
        scales_.assign((settings.outputs / format.scales.rows + 1) * view.scale_row_bytes() / 8 + 1,
                       0x3c003c003c003c00ULL);
        view.scales = scales_.data();
      }
      weights_.emplace_back(view);
    }
  }

  HostWeight& next() { return weights_[turn_++ % weights_.size()]; }
  std::size_t count() const { return weights_.size(); }

 private:
  std::vector<std::vector<std::uint64_t>> bytes_;
  std::vector<std::uint64_t> scales_;
  std::vector<HostWeight> weights_;
  std::size_t turn_ = 0;
};

double measure(const Settings& settings, const Kernels& kernels, Weights& weights, std::size_t m,
               Threads& threads) {
  const Compute compute = settings.exact ? Compute::kF32 : Compute::kAuto;
  std::mt19937 random(2);
  struct alignas(64) Line {  // aligned like a model's buffers
    float numbers[16];
  };
  const auto lines = [](std::size_t bytes) { return (bytes + sizeof(Line) - 1) / sizeof(Line); };
  std::vector<float> x(m * settings.columns);
  for (float& value : x) value = static_cast<float>(random()) * 0x1p-32F - 0.5F;
  std::vector<Line> y(lines(m * settings.outputs * sizeof(float)));
  std::vector<Line> prepared;
  double best = 1e30;
  const Clock::time_point end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                   std::chrono::duration<double>(settings.seconds));
  for (std::size_t round = 0; round < 3 || Clock::now() < end; ++round) {
    // At least about a millisecond of work.
    const std::size_t times = std::max<std::size_t>(1, 16 / m);
    Clock::duration spent{};
    for (std::size_t i = 0; i < times; ++i) {
      HostWeight& weight = weights.next();
      const Product& product = weight.prepare(kernels, compute, threads);
      const Clock::time_point start = Clock::now();
      const void* input = x.data();
      if (product.activations->prepare != nullptr) {
        prepared.resize(lines(m * product.activations->row_bytes(settings.columns)));
        product.activations->prepare(x.data(), m, settings.columns,
                                     reinterpret_cast<std::byte*>(prepared.data()));
        input = prepared.data();
      }
      threads.for_ranges(settings.outputs, product.outputs_at_once, [&](std::size_t begin, std::size_t stop) {
        product.multiply(input, m, weight.view(), y.front().numbers, settings.outputs, begin, stop);
      });
      spent += Clock::now() - start;
    }
    best = std::min(best, std::chrono::duration<double>(spent).count() / static_cast<double>(times));
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const Settings settings = parse(argc, argv);
  Threads threads(settings.threads);
  std::printf("n %zu, k %zu, %u threads, %s products\n", settings.outputs, settings.columns, settings.threads,
              settings.exact ? "exact" : "fast");
  std::printf("%-14s %-8s", "table", "format");
  for (const std::size_t m : settings.rows) std::printf("  m %-4zu GFLOP/s   GB/s", m);
  std::printf("\n");
  for (const Isa isa : available_isas()) {
    if (!settings.table.empty() && name_of(isa) != settings.table) continue;
    const Kernels& table = cpu_kernels(isa);
    for (const FormatKernels& format : table.formats) {
      const WeightFormat& stored = *format.format;
      if (!settings.format.empty() && stored.name != settings.format) continue;
      if (settings.columns % stored.block_size != 0) continue;
      Weights weights(settings, stored);
      std::printf("%-14s %-8s", std::string(name_of(isa)).c_str(), std::string(stored.name).c_str());
      for (const std::size_t m : settings.rows) {
        const double seconds = measure(settings, table, weights, m, threads);
        const double flops = 2.0 * static_cast<double>(m * settings.outputs * settings.columns);
        const double bytes = static_cast<double>(weights.next().view().bytes());
        std::printf("  %14.1f %6.1f", flops / seconds * 1e-9, bytes / seconds * 1e-9);
        std::fflush(stdout);
      }
      std::printf("\n");
    }
  }
  return 0;
}
