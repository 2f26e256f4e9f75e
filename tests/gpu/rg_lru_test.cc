// RG-LRU: all tables are bitwise identical, however a sequence is sliced; values match a reference. Also
// attention that skips the start of its first page, as a window does.

#include <cmath>

#include "tests/gpu/kernel_inputs.h"

namespace reprise::gpu::test {
namespace {

struct LruInputs {
  LruInputs(Random& random, std::size_t channels, std::size_t tokens)
      : channels(channels),
        tokens(tokens),
        x(random.floats(channels * tokens, 1.0F)),
        input_gate(random.floats(channels * tokens, 3.0F)),
        recurrence_gate(random.floats(channels * tokens, 3.0F)),
        rate(random.between(channels, -9.0F, -0.01F)) {}

  /// Runs in slices that end at `cuts` and at the last token; returns state and outputs.
  std::vector<float> run(const Kernels& kernels, std::vector<std::size_t> cuts = {}) const {
    std::vector<float> result(channels * (tokens + 1));
    cuts.push_back(tokens);
    std::size_t begin = 0;
    for (const std::size_t end : cuts) {
      const std::size_t at = begin * channels;
      const RgLru unit{.state = result.data(),
                       .x = x.data() + at,
                       .input_gate = input_gate.data() + at,
                       .recurrence_gate = recurrence_gate.data() + at,
                       .rate = rate.data(),
                       .out = result.data() + channels + at,
                       .channels = channels,
                       .tokens = end - begin,
                       .begins = begin == 0};
      kernels.rg_lru(unit, 0, channels / 2);
      kernels.rg_lru(unit, channels / 2, channels);
      begin = end;
    }
    return result;
  }

  std::size_t channels;
  std::size_t tokens;
  std::vector<float> x, input_gate, recurrence_gate, rate;
};

double lru_sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

TEST(RgLru, BitsDoNotDependOnTablesOrSlices) {
  Random random(1);
  for (int round = 0; round < 40; ++round) {
    const std::size_t channels = random.size(1, 70);
    const LruInputs inputs(random, channels, random.size(1, 20));
    const std::vector<float> expected = inputs.run(plain());
    for (const Kernels* table : all_tables()) {
      EXPECT_TRUE(same_bits(expected, inputs.run(*table))) << label(*table);
      std::vector<std::size_t> every;
      for (std::size_t cut = 1; cut < inputs.tokens; ++cut) {
        EXPECT_TRUE(same_bits(expected, inputs.run(*table, {cut}))) << label(*table) << ", cut " << cut;
        every.push_back(cut);
      }
      EXPECT_TRUE(same_bits(expected, inputs.run(*table, every))) << label(*table);
    }
  }
}

TEST(RgLru, ComputesTheRecurrence) {
  Random random(2);
  const LruInputs inputs(random, 21, 60);
  std::vector<double> h(inputs.channels);
  std::vector<double> expected;
  for (std::size_t i = 0; i < inputs.x.size(); ++i) {
    const std::size_t c = i % inputs.channels;
    const double log_a = inputs.rate[c] * lru_sigmoid(inputs.recurrence_gate[i]);
    const bool is_first = i < inputs.channels;
    const double x = inputs.x[i] * lru_sigmoid(inputs.input_gate[i]);
    h[c] = is_first ? x : std::exp(log_a) * h[c] + x * std::sqrt(1 - std::exp(2 * log_a));
    expected.push_back(h[c]);
  }
  for (const Kernels* table : all_tables()) {
    const std::vector<float> result = inputs.run(*table);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(result[inputs.channels + i], expected[i], 2e-5) << label(*table) << ", " << i;
    }
    for (std::size_t c = 0; c < inputs.channels; ++c) {
      EXPECT_EQ(result[c], result[inputs.tokens * inputs.channels + c]);  // the state is the last output
    }
  }
}

TEST(BlockDiagonal, HasTheSameBitsForEveryTableAndNumberOfRows) {
  Random random(3);
  for (const std::size_t size : {1u, 5u, 8u, 27u, 64u}) {
    const std::size_t rows = 7;
    const std::size_t blocks = 3;
    const std::vector<float> x = random.floats(rows * blocks * size, 1.0F);
    const std::vector<float> weight = random.floats(blocks * size * size, 1.0F);
    const std::vector<float> bias = random.floats(blocks * size, 1.0F);
    const auto run = [&](const Kernels& kernels, std::size_t at_once) {
      std::vector<float> y(x.size());
      for (std::size_t row = 0; row < rows; row += at_once) {
        const BlockDiagonal product{.x = x.data() + row * blocks * size,
                                    .weight = weight.data(),
                                    .bias = bias.data(),
                                    .y = y.data() + row * blocks * size,
                                    .rows = std::min(at_once, rows - row),
                                    .blocks = blocks,
                                    .size = size};
        kernels.block_diagonal(product, 0, 1);
        kernels.block_diagonal(product, 1, blocks);
      }
      return y;
    };
    const std::vector<float> expected = run(plain(), rows);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const std::size_t block = i / size % blocks;
      double sum = bias[block * size + i % size];
      for (std::size_t k = 0; k < size; ++k) {
        sum += static_cast<double>(x[i - i % size + k]) * weight[(block * size + k) * size + i % size];
      }
      ASSERT_NEAR(expected[i], sum, 1e-4);
    }
    for (const Kernels* table : all_tables()) {
      for (const std::size_t at_once : {std::size_t{1}, std::size_t{3}, rows}) {
        EXPECT_TRUE(same_bits(expected, run(*table, at_once))) << label(*table) << ", " << at_once;
      }
    }
  }
}

// Skipped entries are NaN here, so that reading them shows.
TEST(WindowAttention, LooksAtNothingThatItSkips) {
  Random random(4);
  const std::size_t size = 24;
  const std::size_t group = 5;
  for (const KvType kv : {KvType::kF32, KvType::kBF16}) {
    for (const std::size_t skipped : {0u, 1u, 7u, 63u}) {
      for (const std::size_t length : {skipped + 1, std::size_t{64}, std::size_t{130}}) {
        const std::vector<float> q = random.floats(group * size, 1.0F);
        std::vector<float> k = random.floats(192 * size, 1.0F);
        std::vector<float> v = random.floats(192 * size, 1.0F);
        std::vector<std::vector<std::uint16_t>> halves(2, std::vector<std::uint16_t>(k.size()));
        plain().to_bf16(k.data(), halves[0].data(), k.size());
        plain().to_bf16(v.data(), halves[1].data(), v.size());
        if (kv == KvType::kBF16) {
          for (std::size_t i = 0; i < k.size(); ++i) {
            k[i] = from_bf16(halves[0][i]);
            v[i] = from_bf16(halves[1][i]);
          }
        }
        // A page has K of its tokens, then V.
        const std::size_t element = kv == KvType::kF32 ? sizeof(float) : sizeof(std::uint16_t);
        const std::size_t one = kPageTokens * size * element;
        std::vector<std::byte> memory(3 * 2 * one, std::byte{0xff});
        std::vector<const std::byte*> pages;
        for (std::size_t page = 0; page < 3; ++page) {
          std::byte* to = memory.data() + page * 2 * one;
          pages.push_back(to);
          const std::size_t first = page == 0 ? skipped : 0;
          for (int which = 0; which < 2; ++which) {
            const auto* floats = reinterpret_cast<const std::byte*>((which == 0 ? k : v).data());
            const auto* from =
                kv == KvType::kF32 ? floats : reinterpret_cast<const std::byte*>(halves[which].data());
            std::memcpy(to + which * one + first * size * element,
                        from + (page * kPageTokens + first) * size * element, one - first * size * element);
          }
        }
        std::vector<float> expected;
        for (const Kernels* table : all_tables()) {
          std::vector<float> out(group * size);
          table->attention({.q = q.data(),
                            .out = out.data(),
                            .group = group,
                            .head_dim = size,
                            .length = length,
                            .skipped = skipped,
                            .scale = 0.3F,
                            .pages = pages.data(),
                            .k_offset = 0,
                            .v_offset = one,
                            .kv = kv});
          if (expected.empty()) expected = out;
          EXPECT_TRUE(same_bits(expected, out)) << label(*table);
        }
        for (std::size_t head = 0; head < group; ++head) {
          std::vector<double> sum(size);
          double weights = 0;
          for (std::size_t t = skipped; t < length; ++t) {
            double score = 0;
            for (std::size_t i = 0; i < size; ++i) score += double{q[head * size + i]} * k[t * size + i];
            const double weight = std::exp(0.3 * score);
            weights += weight;
            for (std::size_t i = 0; i < size; ++i) sum[i] += weight * v[t * size + i];
          }
          for (std::size_t i = 0; i < size; ++i)
            ASSERT_NEAR(expected[head * size + i], sum[i] / weights, 1e-5);
        }
      }
    }
  }
}

}  // namespace
}  // namespace reprise::gpu::test
