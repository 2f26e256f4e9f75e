// Mamba-1's selective scan: all tables are bitwise identical, however channels and tokens are split; values
// match a reference.

#include <cmath>

#include "tests/gpu/kernel_inputs.h"

namespace reprise::gpu::test {
namespace {

struct ScanInputs {
  ScanInputs(Random& random, std::size_t some_channels, std::size_t some_states, std::size_t some_tokens)
      : channels(some_channels),
        state_size(some_states),
        tokens(some_tokens),
        groups((channels + kLanes - 1) / kLanes),
        state(random.floats(groups * state_size * kLanes)),
        a(random.between(groups * state_size * kLanes, -4.0F, -0.01F)),
        skip(random.floats(channels)),
        x(random.floats(tokens * channels)),
        step(random.between(tokens * channels, -12.0F, 4.0F)),
        bc(random.floats(tokens * bc_stride())),
        gate(random.floats(tokens * gate_stride())) {
    for (std::size_t c = channels; c < groups * kLanes; ++c) {  // padding of the last group
      for (std::size_t n = 0; n < state_size; ++n) state[index_of(c, n)] = a[index_of(c, n)] = 0;
    }
  }

  std::size_t bc_stride() const { return 2 * state_size + 3; }
  std::size_t gate_stride() const { return channels + 5; }
  std::size_t index_of(std::size_t c, std::size_t n) const {
    return (c / kLanes * state_size + n) * kLanes + c % kLanes;
  }

  struct Result {
    std::vector<float> state;
    std::vector<float> y;
  };
  Result start() const { return {state, std::vector<float>(tokens * channels, -1.0F)}; }
  /// Runs tokens [first, last) of channels [begin, end).
  void run(const Kernels& kernels, Result& result, std::size_t first, std::size_t last, std::size_t begin,
           std::size_t end) const {
    kernels.selective_scan({.state = result.state.data(),
                            .a = a.data(),
                            .skip = skip.data(),
                            .channels = channels,
                            .state_size = state_size,
                            .tokens = last - first,
                            .x = x.data() + first * channels,
                            .step = step.data() + first * channels,
                            .b = bc.data() + first * bc_stride(),
                            .c = bc.data() + first * bc_stride() + state_size,
                            .bc_stride = bc_stride(),
                            .gate = gate.data() + first * gate_stride(),
                            .gate_stride = gate_stride(),
                            .y = result.y.data() + first * channels},
                           begin, end);
  }
  Result run(const Kernels& kernels) const {
    Result result = start();
    run(kernels, result, 0, tokens, 0, channels);
    return result;
  }

  std::size_t channels, state_size, tokens, groups;
  std::vector<float> state, a, skip, x, step, bc, gate;
};

void expect_same(const ScanInputs::Result& expected, const ScanInputs::Result& result,
                 const std::string& what) {
  ASSERT_TRUE(same_bits(expected.state, result.state)) << what;
  ASSERT_TRUE(same_bits(expected.y, result.y)) << what;
}

TEST(SelectiveScan, EveryTableHasTheSameBits) {
  Random random(1);
  for (int round = 0; round < 80; ++round) {
    const std::size_t channels = random.size(1, 70);
    const std::size_t states = random.size(1, 24);
    const ScanInputs inputs(random, channels, states, random.size(1, 12));
    const ScanInputs::Result expected = inputs.run(plain());
    for (const Kernels* table : fast_tables()) expect_same(expected, inputs.run(*table), label(*table));
  }
}

TEST(SelectiveScan, SlicesAndRangesDoNotMatter) {
  Random random(2);
  const ScanInputs inputs(random, 45, 16, 20);
  for (const Kernels* table : all_tables()) {
    const ScanInputs::Result expected = inputs.run(*table);
    for (std::size_t cut = 1; cut < inputs.tokens; ++cut) {
      ScanInputs::Result result = inputs.start();
      const std::size_t middle = cut % 5 * kLanes;
      inputs.run(*table, result, 0, cut, middle, inputs.channels);
      if (middle > 0) inputs.run(*table, result, 0, cut, 0, middle);
      inputs.run(*table, result, cut, inputs.tokens, 0, inputs.channels);
      expect_same(expected, result, label(*table) + ", cut " + std::to_string(cut));
    }
  }
}

TEST(SelectiveScan, ComputesTheRecurrence) {
  Random random(3);
  for (const std::size_t channels : {1u, 8u, 21u, 64u}) {
    const ScanInputs inputs(random, channels, 16, 50);
    std::vector<double> h(inputs.state.begin(), inputs.state.end());
    std::vector<double> expected;
    for (std::size_t t = 0; t < inputs.tokens; ++t) {
      const float* b = inputs.bc.data() + t * inputs.bc_stride();
      const float* c = b + inputs.state_size;
      for (std::size_t channel = 0; channel < channels; ++channel) {
        const double x = inputs.x[t * channels + channel];
        const double dt = std::log1p(std::exp(static_cast<double>(inputs.step[t * channels + channel])));
        double y = inputs.skip[channel] * x;
        for (std::size_t n = 0; n < inputs.state_size; ++n) {
          const std::size_t at = inputs.index_of(channel, n);
          h[at] = std::exp(dt * inputs.a[at]) * h[at] + dt * x * b[n];
          y += h[at] * c[n];
        }
        const double gate = inputs.gate[t * inputs.gate_stride() + channel];
        expected.push_back(y * gate / (1 + std::exp(-gate)));
      }
    }
    for (const Kernels* table : all_tables()) {
      const ScanInputs::Result result = inputs.run(*table);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR(result.y[i], expected[i], 2e-5 * (1 + std::abs(expected[i]))) << label(*table);
      }
      for (std::size_t i = 0; i < h.size(); ++i) {
        ASSERT_NEAR(result.state[i], h[i], 2e-5 * (1 + std::abs(h[i]))) << label(*table);
      }
    }
  }
}

// A state that only adds its input, once: h = dt.
TEST(SelectiveScan, StepsAreAsExactAsFloatsAre) {
  std::vector<float> steps;
  for (float x = -87.0F; x < 100.0F; x += 0.0371F) steps.push_back(x);
  const std::vector<float> zeros(steps.size() * 2);
  const std::vector<float> ones(steps.size(), 1.0F);
  for (const Kernels* table : all_tables()) {
    std::vector<float> state(steps.size() + kLanes);
    std::vector<float> y(steps.size());
    table->selective_scan({.state = state.data(),
                           .a = zeros.data(),
                           .skip = zeros.data(),
                           .channels = steps.size(),
                           .state_size = 1,
                           .tokens = 1,
                           .x = ones.data(),
                           .step = steps.data(),
                           .b = ones.data(),
                           .c = ones.data(),
                           .bc_stride = 1,
                           .gate = ones.data(),
                           .gate_stride = 1,
                           .y = y.data()},
                          0, steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const double dt = steps[i] > 40 ? steps[i] : std::log1p(std::exp(static_cast<double>(steps[i])));
      ASSERT_NEAR(state[i] / dt, 1, 4e-7) << label(*table) << ": softplus of " << steps[i];
    }
  }
}

TEST(SelectiveScan, WhatIsNoNumberStaysNone) {
  Random random(4);
  for (const Kernels* table : all_tables()) {
    ScanInputs inputs(random, 8, 4, 2);
    inputs.step[3] = std::nanf("");
    const ScanInputs::Result result = inputs.run(*table);
    EXPECT_TRUE(std::isnan(result.y[3])) << label(*table);
    EXPECT_TRUE(std::isnan(result.state[inputs.index_of(3, 0)])) << label(*table);
    EXPECT_FALSE(std::isnan(result.y[2])) << label(*table);
  }
}

}  // namespace
}  // namespace reprise::gpu::test
