// How fast each format's products are, on each table of kernels that the machine has: a line for each number of rows.
//
//   bench_products [FORMATS [ROWS [COLUMNS [OUTPUTS [MIB]]]]]     e.g. bench_products Q8_0,Q4_K 1,4,512 1024 3584 96
//
// One thread, and the processor's time of it: what else runs on the machine counts for little. GB/s are of the weight,
// as it lies in the file; MIB of such weights are multiplied by one after another: more than the caches, as a model is.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "gpu/host_weight.h"
#include "gpu/kernels.h"

namespace {

using namespace reprise::gpu;

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> out;
  std::stringstream in(text);
  for (std::string word; std::getline(in, word, ',');) out.push_back(word);
  return out;
}

/// Random bytes without the exponents that make f16 and f32 infinite or not a number.
std::vector<std::byte> random_bytes(std::size_t count) {
  std::mt19937_64 random(1);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() & 0xbbU);
  return bytes;
}

void measure(const Kernels& kernels, const FormatKernels& format, Compute compute, std::size_t rows,
             std::size_t columns, std::size_t outputs, const std::vector<std::byte>& bytes) {
  const WeightView one{.format = format.format, .rows = outputs, .columns = columns, .data = bytes.data()};
  const std::size_t copies = std::max<std::size_t>(1, bytes.size() / one.bytes());
  const WeightView all{
      .format = format.format, .rows = copies * outputs, .columns = columns, .data = bytes.data()};
  Threads threads(1);
  HostWeight weight(all);
  const Product& product = weight.prepare(kernels, compute, threads);
  std::vector<float> x(rows * columns);
  std::mt19937_64 random(2);
  std::normal_distribution<float> normal;
  for (float& value : x) value = normal(random);
  const void* prepared = x.data();
  std::vector<float> room;
  double preparing = 0;
  if (product.activations->prepare != nullptr) {
    room.resize(rows * product.activations->row_bytes(columns) / sizeof(float) + 1);
    const double start = thread_seconds();
    product.activations->prepare(x.data(), rows, columns, reinterpret_cast<std::byte*>(room.data()));
    preparing = thread_seconds() - start;
    prepared = room.data();
  }
  std::vector<float> y(rows * all.rows);
  double best = 1e9;
  std::size_t copy = 0;
  const double until = thread_seconds() + 0.3;
  for (int i = 0; i < 3 || thread_seconds() < until; ++i, copy = (copy + 1) % copies) {
    const double start = thread_seconds();
    product.multiply(prepared, rows, weight.view(), y.data(), all.rows, copy * outputs, (copy + 1) * outputs);
    best = std::min(best, thread_seconds() - start);
  }
  const double products = 2.0 * static_cast<double>(rows * columns * outputs);
  std::printf("%-10s %-8s %-6s m %4zu   %8.1f GFLOP/s  %7.2f GB/s  %8.1f us, preparing %.1f us\n",
              std::string(name_of(kernels.isa)).c_str(), std::string(format.format->name).c_str(),
              compute == Compute::kF32 ? "exact" : "fast", rows, products / best * 1e-9,
              static_cast<double>(one.bytes()) / best * 1e-9, best * 1e6, preparing * 1e6);
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int at, const char* otherwise) {
    return std::string(argc > at ? argv[at] : otherwise);
  };
  const std::vector<std::string> names = words(argument(1, "BF16,Q8_0,Q4_0,Q4_K,Q5_K,Q6_K,IQ4_XS"));
  const std::vector<std::string> rows = words(argument(2, "1,4,16,512"));
  const std::size_t columns = std::stoul(argument(3, "1024"));
  const std::size_t outputs = std::stoul(argument(4, "3584"));
  const std::vector<std::byte> bytes = random_bytes(std::stoul(argument(5, "96")) << 20);
  const Kernels& kernels = cpu_kernels(best_isa());
  for (const std::string& name : names) {
    const WeightFormat* format = format_named(name);
    if (format == nullptr) {
      std::fprintf(stderr, "no format %s\n", name.c_str());
      return 1;
    }
    for (const std::string& m : rows) {
      measure(kernels, kernels.format(*format), Compute::kAuto, std::stoul(m), columns, outputs, bytes);
    }
  }
  return 0;
}
