// Mamba-2's recurrence: all tables are bitwise identical, however a sequence is sliced; values match a
// reference.

#include <algorithm>
#include <cmath>

#include "tests/gpu/kernel_inputs.h"

namespace reprise::gpu::test {
namespace {

struct Result {
  std::vector<float> state;
  std::vector<float> out;
};

/// Runs in slices that end at `cuts` and at the last token.
Result run(const Mamba2Inputs& inputs, const Kernels& kernels, std::vector<std::size_t> cuts = {}) {
  Result result{inputs.state, std::vector<float>(inputs.tokens * inputs.head_dim)};
  cuts.push_back(inputs.tokens);
  std::size_t begin = 0;
  for (const std::size_t end : cuts) {
    inputs.run(kernels, result.state, result.out, begin, end);
    begin = end;
  }
  return result;
}

TEST(Mamba2, EveryTableHasTheSameBits) {
  Random random(1);
  for (int round = 0; round < 60; ++round) {
    const std::size_t states = random.size(1, 40);
    const std::size_t head_dim = random.size(1, 90);
    const Mamba2Inputs inputs(random, states, head_dim, random.size(1, 12));
    const Result expected = run(inputs, plain());
    for (const Kernels* table : fast_tables()) {
      const Result result = run(inputs, *table);
      EXPECT_TRUE(same_bits(expected.state, result.state)) << label(*table);
      EXPECT_TRUE(same_bits(expected.out, result.out)) << label(*table);
    }
  }
}

TEST(Mamba2, SlicesDoNotMatter) {
  Random random(2);
  for (const Kernels* table : all_tables()) {
    const Mamba2Inputs inputs(random, 16, 20, 150);
    const Result expected = run(inputs, *table);
    for (std::size_t cut = 1; cut < inputs.tokens; ++cut) {
      const Result result = run(inputs, *table, {cut});
      ASSERT_TRUE(same_bits(expected.state, result.state)) << label(*table) << ", cut " << cut;
      ASSERT_TRUE(same_bits(expected.out, result.out)) << label(*table) << ", cut " << cut;
    }
    std::vector<std::size_t> every;
    for (std::size_t cut = 1; cut < inputs.tokens; ++cut) every.push_back(cut);
    EXPECT_TRUE(same_bits(expected.out, run(inputs, *table, every).out)) << label(*table);
  }
}

TEST(Mamba2, ComputesTheRecurrence) {
  Random random(3);
  for (const std::size_t head_dim : {1u, 8u, 21u, 64u}) {
    const Mamba2Inputs inputs(random, 24, head_dim, 40);
    std::vector<double> state(inputs.state.begin(), inputs.state.end());
    std::vector<double> expected;
    for (std::size_t t = 0; t < inputs.tokens; ++t) {
      const float* x = inputs.rows.data() + t * inputs.stride;
      const float* b = x + head_dim;
      const float* c = b + inputs.state_size;
      const double step = std::log1p(std::exp(double{inputs.dt_scale} * inputs.step[3 * t] + inputs.dt_bias));
      const double dt = std::clamp(step, double{inputs.dt_min}, double{inputs.dt_max});
      for (std::size_t p = 0; p < head_dim; ++p) {
        double y = double{inputs.skip} * x[p];
        for (std::size_t n = 0; n < inputs.state_size; ++n) {
          double& s = state[n * head_dim + p];
          s = s * std::exp(-inputs.decay * dt) + dt * x[p] * b[n];
          y += s * c[n];
        }
        expected.push_back(y);
      }
    }
    for (const Kernels* table : all_tables()) {
      const Result result = run(inputs, *table);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR(result.out[i], expected[i], 2e-4) << label(*table) << ", " << i;
      }
      for (std::size_t i = 0; i < state.size(); ++i) ASSERT_NEAR(result.state[i], state[i], 1e-4);
    }
  }
}

}  // namespace
}  // namespace reprise::gpu::test
