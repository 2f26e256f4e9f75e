// The delta rule with a decay per key channel: all tables are bitwise identical, however tokens are sliced;
// values match the definition.

#include <cmath>

#include "tests/gpu/kernel_inputs.h"

namespace reprise::gpu::test {
namespace {

struct RuleInputs {
  RuleInputs(Random& random, std::size_t some_keys, std::size_t some_values, std::size_t some_tokens)
      : keys(some_keys),
        values(some_values),
        tokens(some_tokens),
        stride(std::max(keys, values) + 3),
        state(random.floats(keys * values)),
        q(random.floats(tokens * stride)),
        k(random.floats(tokens * stride, 0.4F)),
        v(random.floats(tokens * stride)),
        decay(random.between(tokens * stride, 0.0F, 1.0F)),
        beta(random.between(tokens * 2, 0.0F, 1.0F)) {}

  struct Result {
    std::vector<float> state;
    std::vector<float> out;
  };
  Result start() const { return {state, std::vector<float>(tokens * stride, -1.0F)}; }
  /// Runs tokens [first, last).
  void run(const Kernels& kernels, Result& result, std::size_t first, std::size_t last) const {
    kernels.kda_rule({.state = result.state.data(),
                      .key_dim = keys,
                      .value_dim = values,
                      .tokens = last - first,
                      .q = q.data() + first * stride,
                      .k = k.data() + first * stride,
                      .v = v.data() + first * stride,
                      .decay = decay.data() + first * stride,
                      .stride = stride,
                      .beta = beta.data() + first * 2,
                      .beta_stride = 2,
                      .out = result.out.data() + first * stride});
  }
  Result run(const Kernels& kernels) const {
    Result result = start();
    run(kernels, result, 0, tokens);
    return result;
  }

  std::size_t keys, values, tokens, stride;
  std::vector<float> state, q, k, v, decay, beta;
};

TEST(KdaRule, EveryTableHasTheSameBitsHoweverTokensAreCut) {
  Random random(1);
  for (int round = 0; round < 60; ++round) {
    const std::size_t keys = random.size(1, 40);
    const std::size_t values = 8 * random.size(1, 9);
    const RuleInputs inputs(random, keys, values, random.size(1, 12));
    const RuleInputs::Result expected = inputs.run(plain());
    for (const Kernels* table : all_tables()) {
      const RuleInputs::Result whole = inputs.run(*table);
      ASSERT_TRUE(same_bits(expected.state, whole.state)) << label(*table);
      ASSERT_TRUE(same_bits(expected.out, whole.out)) << label(*table);
      for (std::size_t cut = 1; cut < inputs.tokens; ++cut) {
        RuleInputs::Result parts = inputs.start();
        inputs.run(*table, parts, 0, cut);
        inputs.run(*table, parts, cut, inputs.tokens);
        ASSERT_TRUE(same_bits(expected.state, parts.state)) << label(*table) << ", cut at " << cut;
        ASSERT_TRUE(same_bits(expected.out, parts.out)) << label(*table) << ", cut at " << cut;
      }
    }
  }
}

TEST(KdaRule, IsItsDefinition) {
  Random random(2);
  for (int round = 0; round < 20; ++round) {
    const std::size_t keys = random.size(1, 24);
    const RuleInputs in(random, keys, 8 * random.size(1, 6), 5);
    std::vector<double> s(in.state.begin(), in.state.end());
    const RuleInputs::Result found = in.run(plain());
    for (std::size_t t = 0; t < in.tokens; ++t) {
      for (std::size_t i = 0; i < in.keys; ++i) {
        for (std::size_t j = 0; j < in.values; ++j) {
          s[i * in.values + j] *= static_cast<double>(in.decay[t * in.stride + i]);
        }
      }
      for (std::size_t j = 0; j < in.values; ++j) {
        double recalled = 0;
        for (std::size_t i = 0; i < in.keys; ++i) {
          recalled += static_cast<double>(in.k[t * in.stride + i]) * s[i * in.values + j];
        }
        const double change =
            static_cast<double>(in.beta[2 * t]) * (static_cast<double>(in.v[t * in.stride + j]) - recalled);
        double out = 0;
        for (std::size_t i = 0; i < in.keys; ++i) {
          s[i * in.values + j] += static_cast<double>(in.k[t * in.stride + i]) * change;
          out += static_cast<double>(in.q[t * in.stride + i]) * s[i * in.values + j];
        }
        EXPECT_NEAR(found.out[t * in.stride + j], out, 2e-4);
      }
    }
    for (std::size_t i = 0; i < s.size(); ++i) EXPECT_NEAR(found.state[i], s[i], 1e-4);
  }
}

TEST(ChannelGates, AreTheirDefinitionInEveryTable) {
  Random random(3);
  for (int round = 0; round < 40; ++round) {
    const std::size_t heads = random.size(1, 5);
    const std::size_t size = random.size(1, 30);
    const std::vector<float> f = random.between(heads * size, -12.0F, 25.0F);
    const std::vector<float> b = random.floats(heads, 4.0F);
    const std::vector<float> rate = random.between(heads, 0.05F, 16.0F);
    const std::vector<float> bias = random.floats(heads * size);
    const auto gates = [&](const Kernels& kernels) {
      std::pair<std::vector<float>, std::vector<float>> made{f, b};
      kernels.channel_gates({.decay = made.first.data(),
                             .beta = made.second.data(),
                             .rate = rate.data(),
                             .dt_bias = bias.data(),
                             .heads = heads,
                             .size = size});
      return made;
    };
    const auto expected = gates(plain());
    for (std::size_t i = 0; i < f.size(); ++i) {
      const double step = std::log1p(std::exp(static_cast<double>(f[i] + bias[i])));
      const double decay = std::exp(-static_cast<double>(rate[i / size]) * step);
      EXPECT_NEAR(expected.first[i], decay, 1e-6 + 3e-5 * decay);
    }
    for (std::size_t i = 0; i < heads; ++i) {
      EXPECT_NEAR(expected.second[i], 1 / (1 + std::exp(-static_cast<double>(b[i]))), 1e-6);
    }
    for (const Kernels* table : all_tables()) {
      EXPECT_TRUE(same_bits(gates(*table).first, expected.first)) << label(*table);
      EXPECT_TRUE(same_bits(gates(*table).second, expected.second)) << label(*table);
    }
  }
}

// In latent attention the values are the first elements of the key rows.
TEST(LatentAttention, IsAttentionWhoseValuesAreShorter) {
  Random random(4);
  for (int round = 0; round < 60; ++round) {
    const std::size_t head_dim = random.size(2, 200);
    const std::size_t value_dim = random.size(1, head_dim - 1);
    const std::size_t length = random.size(1, 150);
    const std::size_t heads = random.size(1, 9);
    const PagedHead head(random, length, head_dim, round % 2 == 0 ? KvType::kF32 : KvType::kBF16);
    const std::vector<float> q = random.floats(heads * head_dim);
    for (const Kernels* table : all_tables()) {
      std::vector<float> whole(heads * head_dim);
      std::vector<float> some(heads * value_dim);
      AttentionRows row = head.row(q, whole, head_dim, length);
      table->attention(row);
      row.out = some.data();
      row.value_dim = value_dim;
      table->attention(row);
      for (std::size_t h = 0; h < heads; ++h) {
        ASSERT_EQ(
            std::memcmp(some.data() + h * value_dim, whole.data() + h * head_dim, value_dim * sizeof(float)),
            0)
            << label(*table) << ", " << value_dim << " of " << head_dim;
      }
    }
  }
}

}  // namespace
}  // namespace reprise::gpu::test
