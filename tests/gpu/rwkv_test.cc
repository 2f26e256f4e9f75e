// RWKV-7's kernels: all tables are bitwise identical, however a sequence is sliced; values match a reference.

#include <cmath>

#include "tests/gpu/kernel_inputs.h"

namespace reprise::gpu::test {
namespace {

double wkv_sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

struct WkvInputs {
  WkvInputs(Random& random, std::size_t head_dim, std::size_t tokens)
      : head_dim(head_dim), tokens(tokens), stride(2 * head_dim + 3) {
    for (std::vector<float>* rows : {&r, &k, &v, &key}) *rows = random.floats(tokens * stride, 0.3F);
    decay = random.between(tokens * stride, 0.55F, 1.0F);
    rate = random.between(tokens * stride, 0.0F, 1.0F);
  }

  /// Runs in slices that end at `cuts` and at the last token; returns state and outputs.
  std::vector<float> run(const Kernels& kernels, std::vector<std::size_t> cuts = {}) const {
    std::vector<float> result(head_dim * head_dim + tokens * stride);
    cuts.push_back(tokens);
    std::size_t begin = 0;
    for (const std::size_t end : cuts) {
      const std::size_t at = begin * stride;
      kernels.wkv_rule({.state = result.data(),
                        .head_dim = head_dim,
                        .tokens = end - begin,
                        .r = r.data() + at,
                        .k = k.data() + at,
                        .v = v.data() + at,
                        .decay = decay.data() + at,
                        .key = key.data() + at,
                        .rate = rate.data() + at,
                        .stride = stride,
                        .out = result.data() + head_dim * head_dim + at});
      begin = end;
    }
    return result;
  }

  std::size_t head_dim, tokens, stride;
  std::vector<float> r, k, v, decay, key, rate;
};

TEST(WkvRule, BitsDoNotDependOnTablesOrSlices) {
  Random random(1);
  for (const std::size_t head_dim : {8u, 24u, 32u, 40u, 64u}) {
    const WkvInputs inputs(random, head_dim, 20);
    const std::vector<float> expected = inputs.run(plain());
    for (const Kernels* table : all_tables()) {
      EXPECT_TRUE(same_bits(expected, inputs.run(*table))) << label(*table);
      for (std::size_t cut = 1; cut < inputs.tokens; ++cut) {
        EXPECT_TRUE(same_bits(expected, inputs.run(*table, {cut}))) << label(*table) << ", cut " << cut;
      }
    }
  }
}

TEST(WkvRule, ComputesTheRecurrence) {
  Random random(2);
  const WkvInputs inputs(random, 16, 30);
  const std::size_t size = inputs.head_dim;
  std::vector<double> state(size * size);
  const std::vector<float> result = inputs.run(plain());
  for (std::size_t t = 0; t < inputs.tokens; ++t) {
    const std::size_t at = t * inputs.stride;
    for (std::size_t j = 0; j < size; ++j) {
      double recalled = 0;
      for (std::size_t i = 0; i < size; ++i) recalled -= inputs.key[at + i] * state[i * size + j];
      double out = 0;
      for (std::size_t i = 0; i < size; ++i) {
        double& s = state[i * size + j];
        s = s * inputs.decay[at + i] + double{inputs.key[at + i]} * inputs.rate[at + i] * recalled +
            double{inputs.k[at + i]} * inputs.v[at + j];
        out += s * inputs.r[at + i];
      }
      ASSERT_NEAR(result[size * size + at + j], out, 1e-5) << t << ", " << j;
    }
  }
}

TEST(TokenShift, MixesEachRowWithTheOneBefore) {
  Random random(3);
  for (const std::size_t size : {1u, 8u, 29u}) {
    const std::size_t tokens = 9;
    const std::size_t mixes = 3;
    const std::vector<float> x = random.floats(tokens * size, 1.0F);
    const std::vector<float> mix = random.floats(mixes * size, 1.0F);
    const std::vector<float> before = random.floats(size, 1.0F);
    const auto run = [&](const Kernels& kernels, std::size_t cut) {
      std::vector<float> result = before;
      result.resize(size + mixes * tokens * size);
      for (const auto& [begin, end] : {std::pair<std::size_t, std::size_t>{0, cut}, {cut, tokens}}) {
        const TokenShift shift{.previous = result.data(),
                               .x = x.data() + begin * size,
                               .mix = mix.data(),
                               .y = result.data() + size + begin * size,
                               .size = size,
                               .mixes = mixes,
                               .tokens = end - begin,
                               .table = tokens * size};
        kernels.token_shift(shift, 0, size / 2);
        kernels.token_shift(shift, size / 2, size);
      }
      return result;
    };
    const std::vector<float> expected = run(plain(), 0);
    for (std::size_t c = 0; c < size; ++c) {
      EXPECT_EQ(expected[c], x[(tokens - 1) * size + c]);
      for (std::size_t t = 0; t < tokens; ++t) {
        const float previous = t == 0 ? before[c] : x[(t - 1) * size + c];
        for (std::size_t m = 0; m < mixes; ++m) {
          const double y = x[t * size + c] + (double{previous} - x[t * size + c]) * mix[m * size + c];
          ASSERT_NEAR(expected[size + (m * tokens + t) * size + c], y, 1e-5);
        }
      }
    }
    for (const Kernels* table : all_tables()) {
      for (std::size_t cut = 0; cut <= tokens; ++cut) EXPECT_TRUE(same_bits(expected, run(*table, cut)));
    }
  }
}

TEST(WkvGatesAndOutput, ComputeWhatTheySay) {
  Random random(4);
  const std::size_t rows = 3;
  const std::size_t heads = 2;
  const std::size_t size = 24;
  const std::size_t width = heads * size;
  const std::size_t count = rows * width;
  std::vector<std::vector<float>> in;
  for (int i = 0; i < 6; ++i) in.push_back(random.floats(count, 2.0F));  // decay, rate, k, v, mix, first
  const std::vector<float> key_scale = random.floats(width, 1.0F);
  const std::vector<float> rate_scale = random.floats(width, 1.0F);
  const auto run = [&](const Kernels& kernels) {
    std::vector<float> out;  // decay, rate, k, v, key, y
    std::vector<std::vector<float>> v(in.begin(), in.begin() + 4);
    std::vector<float> key(count);
    kernels.wkv_gates({.decay = v[0].data(),
                       .rate = v[1].data(),
                       .k = v[2].data(),
                       .key = key.data(),
                       .v = v[3].data(),
                       .mix = in[4].data(),
                       .first = in[5].data(),
                       .key_scale = key_scale.data(),
                       .rate_scale = rate_scale.data(),
                       .rows = rows,
                       .heads = heads,
                       .head_dim = size});
    std::vector<float> y = in[0];
    kernels.wkv_output({.y = y.data(),
                        .r = in[1].data(),
                        .k = in[2].data(),
                        .v = in[3].data(),
                        .bonus = key_scale.data(),
                        .gate = in[4].data(),
                        .rows = rows,
                        .heads = heads,
                        .head_dim = size});
    for (const auto* part : {&v[0], &v[1], &v[2], &v[3], &key, &y})
      out.insert(out.end(), part->begin(), part->end());
    return out;
  };
  const std::vector<float> result = run(plain());
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t c = i % width;
    const std::size_t head = i - i % size;
    double length = 0;
    double share = 0;
    for (std::size_t n = head; n < head + size; ++n) {
      length += std::pow(double{in[2][n]} * key_scale[n % width], 2);
      share += double{in[1][n]} * in[2][n] * key_scale[n % width];
    }
    const double rate = wkv_sigmoid(in[1][i]);
    const double expected[] = {std::exp(-std::exp(-0.5) * wkv_sigmoid(in[0][i])),
                               rate,
                               in[2][i] * (1 + (rate - 1) * rate_scale[c]),
                               in[3][i] + (double{in[5][i]} - in[3][i]) * wkv_sigmoid(in[4][i]),
                               in[2][i] * key_scale[c] / std::sqrt(length),
                               (in[0][i] + share * in[3][i]) * in[4][i]};
    for (std::size_t part = 0; part < 6; ++part) {
      ASSERT_NEAR(result[part * count + i], expected[part], 1e-4) << part << ", " << i;
    }
  }
  for (const Kernels* table : all_tables()) EXPECT_TRUE(same_bits(result, run(*table))) << label(*table);
}

TEST(LayerNorm, TakesOffTheMeanAndDividesByTheDeviation) {
  Random random(5);
  for (const std::size_t size : {1u, 8u, 37u, 64u}) {
    const std::size_t rows = 6;
    const std::size_t groups = 3;
    std::vector<float> x = random.floats(rows * size, 2.0F);
    for (float& value : x) value += 5.0F;
    const std::vector<float> weight = random.floats(groups * size, 1.0F);
    const std::vector<float> bias = random.floats(groups * size, 1.0F);
    const auto run = [&](const Kernels& kernels, bool in_place) {
      std::vector<float> y = in_place ? x : std::vector<float>(x.size());
      kernels.layer_norm({.x = in_place ? y.data() : x.data(),
                          .weight = weight.data(),
                          .bias = bias.data(),
                          .eps = 1e-5F,
                          .y = y.data(),
                          .rows = rows,
                          .groups = groups,
                          .size = size});
      return y;
    };
    const std::vector<float> result = run(plain(), false);
    for (std::size_t row = 0; row < rows; ++row) {
      double mean = 0;
      double variance = 0;
      for (std::size_t i = 0; i < size; ++i) mean += x[row * size + i] / static_cast<double>(size);
      for (std::size_t i = 0; i < size; ++i) {
        variance += std::pow(x[row * size + i] - mean, 2) / static_cast<double>(size);
      }
      for (std::size_t i = 0; i < size; ++i) {
        const std::size_t w = row % groups * size + i;
        const double y = (x[row * size + i] - mean) / std::sqrt(variance + 1e-5) * weight[w] + bias[w];
        ASSERT_NEAR(result[row * size + i], y, 1e-4);
      }
    }
    for (const Kernels* table : all_tables()) {
      EXPECT_TRUE(same_bits(result, run(*table, false))) << label(*table);
      EXPECT_TRUE(same_bits(result, run(*table, true))) << label(*table);
    }
  }
}

}  // namespace
}  // namespace reprise::gpu::test
