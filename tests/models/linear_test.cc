// Linear with a weight format unknown to the models: values, rows independent of batch and threads, embedding
// rows, bias, an input shared by several layers.

#include "models/cpu/linear.h"

#include <cstring>

#include "tests/gpu/test_formats.h"

namespace reprise::models {
namespace {

using gpu::Compute;
using gpu::test::kTestBlocks;
using gpu::test::kTestTiles;
using gpu::test::Random;
using gpu::test::TestWeight;

constexpr std::size_t kInputs = 96;
constexpr std::size_t kOutputs = 37;

/// A Step that knows the test's formats.
struct Bench {
  explicit Bench(Compute compute, unsigned count = 2) : options{.compute = compute}, threads(count) {}

  ComputeOptions options;
  gpu::Threads threads;
  cpu::Scratch scratch;
  cpu::Step step{.kernels = gpu::test::table_with_test_formats(),
                 .threads = threads,
                 .options = options,
                 .scratch = scratch,
                 .slices = {}};

  std::vector<float> apply(const cpu::Linear& linear, const float* x, std::size_t rows) {
    std::vector<float> y(rows * linear.outputs());
    linear.apply(step, x, rows, y.data());
    return y;
  }
};

struct Setting {
  const gpu::WeightFormat* format;
  Compute compute;
};
constexpr Setting kSettings[] = {{&kTestBlocks, Compute::kF32},
                                 {&kTestBlocks, Compute::kAuto},
                                 {&kTestTiles, Compute::kF32},
                                 {&kTestTiles, Compute::kAuto}};

TEST(Linear, GivesTheNaiveNumbers) {
  Random random(1);
  for (const Setting& setting : kSettings) {
    const TestWeight weight(random, *setting.format, kOutputs, kInputs);
    const std::vector<float> bias = random.floats(kOutputs);
    const cpu::Linear linear(gpu::HostWeight(weight.view), bias);
    EXPECT_EQ(linear.inputs(), kInputs);
    EXPECT_EQ(linear.outputs(), kOutputs);
    const std::vector<float> x = random.floats(5 * kInputs);
    Bench bench(setting.compute);
    const std::vector<float> y = bench.apply(linear, x.data(), 5);
    // The fast GEMM of blocks quantizes activations to eight bits.
    const double relative = setting.format == &kTestBlocks && setting.compute == Compute::kAuto ? 0.02 : 1e-5;
    for (std::size_t i = 0; i < 5; ++i) {
      for (std::size_t n = 0; n < kOutputs; ++n) {
        double sum = bias[n];
        double magnitudes = 1;
        for (std::size_t k = 0; k < kInputs; ++k) {
          const double product = static_cast<double>(x[i * kInputs + k]) * weight.values[n * kInputs + k];
          sum += product;
          magnitudes += std::abs(product);
        }
        EXPECT_NEAR(y[i * kOutputs + n], sum, relative * magnitudes) << setting.format->name;
      }
    }
  }
}

TEST(Linear, RowsDependOnNeitherBatchNorThreads) {
  Random random(2);
  for (const Setting& setting : kSettings) {
    const TestWeight weight(random, *setting.format, kOutputs, kInputs);
    const cpu::Linear linear(gpu::HostWeight(weight.view), random.floats(kOutputs));
    const std::vector<float> x = random.floats(12 * kInputs);
    Bench bench(setting.compute, 1);
    const std::vector<float> all = bench.apply(linear, x.data(), 12);
    for (const unsigned threads : {1U, 2U, 3U}) {
      Bench other(setting.compute, threads);
      for (std::size_t first = 0; first < 12; ++first) {
        for (const std::size_t rows : {std::size_t{1}, 12 - first}) {
          const std::vector<float> y = other.apply(linear, x.data() + first * kInputs, rows);
          ASSERT_EQ(std::memcmp(y.data(), all.data() + first * kOutputs, y.size() * sizeof(float)), 0)
              << setting.format->name << ", " << rows << " rows from " << first << ", " << threads
              << " threads";
        }
      }
    }
  }
}

// Layers of different formats share an input in any order; each gets the form it needs.
TEST(Linear, AnInputMayBeShared) {
  Random random(4);
  const TestWeight blocks(random, kTestBlocks, kOutputs, kInputs);
  const TestWeight tiles(random, kTestTiles, kOutputs, kInputs);
  const auto bf16 = random.matrix(gpu::kBF16Format, kOutputs, kInputs);
  const std::vector<cpu::Linear> layers = [&] {
    std::vector<cpu::Linear> all;
    for (const gpu::WeightView& view : {blocks.view, blocks.view, bf16.view(), tiles.view, blocks.view}) {
      all.emplace_back(gpu::HostWeight(view));
    }
    return all;
  }();
  const std::vector<float> x = random.floats(3 * kInputs);
  Bench bench(Compute::kAuto);
  cpu::LinearInput input(x.data(), 3);
  for (const cpu::Linear& layer : layers) {
    const std::vector<float> alone = bench.apply(layer, x.data(), 3);
    std::vector<float> shared(alone.size());
    layer.apply(bench.step, input, shared.data());
    EXPECT_EQ(std::memcmp(alone.data(), shared.data(), alone.size() * sizeof(float)), 0);
  }
}

TEST(Linear, ReadsRowsOfAnEmbedding) {
  Random random(3);
  for (const Setting& setting : kSettings) {
    const TestWeight weight(random, *setting.format, kOutputs, kInputs);
    const cpu::Linear linear{gpu::HostWeight(weight.view)};
    Bench bench(setting.compute);
    for (std::size_t row = 0; row < kOutputs; ++row) {
      std::vector<float> y(kInputs);
      linear.row(bench.step, row, y.data());
      EXPECT_EQ(std::memcmp(y.data(), weight.values.data() + row * kInputs, kInputs * sizeof(float)), 0)
          << setting.format->name << ", row " << row;
    }
    EXPECT_EQ(linear.packed_bytes(), 0U);  // reading rows makes no copy
  }
}

}  // namespace
}  // namespace reprise::models
