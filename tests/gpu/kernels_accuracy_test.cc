// Kernel values compared with double precision, and at the limits of the range; all tables, even those that
// kernels_test.cc shows to be bitwise identical.

#include <algorithm>
#include <limits>
#include <optional>

#include "tests/gpu/kernel_inputs.h"

namespace reprise::gpu::test {
namespace {

double sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

/// Relative error bound, but at least `floor` absolutely.
void expect_close(double value, double reference, double relative, double floor, const std::string& what) {
  EXPECT_LE(std::abs(value - reference), std::max(floor, relative * std::abs(reference)))
      << what << ": " << value << " for " << reference;
}

TEST(KernelValues, MatmulWithinRounding) {
  Random random(1);
  for (const Kernels* table : all_tables()) {
    for (const std::size_t depth : {1, 7, 64, 300, 3584}) {
      const OwnedMatrix w = random.matrix(kBF16Format, 9, depth);
      const std::vector<float> x = random.floats(5 * depth);
      const FormatKernels& bf16 = table->format(kBF16Format);
      std::optional<TwoParts> parts;
      std::vector<float> exact(5 * w.rows);
      std::vector<float> rounded(5 * w.rows);
      bf16.exact.multiply(x.data(), 5, w.view(), exact.data(), w.rows, 0, w.rows);
      const RowsForProduct prepared(bf16.fast, x, depth);
      bf16.fast.multiply(prepared.row(0), 5, w.view(), rounded.data(), w.rows, 0, w.rows);
      if (takes_two_parts(bf16)) parts.emplace(bf16.fast, x, depth);
      for (std::size_t i = 0; i < 5; ++i) {
        for (std::size_t n = 0; n < w.rows; ++n) {
          double sum = 0;
          double split_sum = 0;
          double magnitudes = 0;
          for (std::size_t k = 0; k < depth; ++k) {
            const double weight = w.values[n * depth + k];
            const std::size_t at = i * depth + k;
            sum += x[at] * weight;
            if (parts) split_sum += (static_cast<double>(parts->high(i, k)) + parts->low(i, k)) * weight;
            magnitudes += std::abs(x[at] * weight);
          }
          // f32 sums: rounding of 1 ulp per step, accumulating like a random walk.
          const double bound = 2 * kUlp * std::sqrt(static_cast<double>(depth)) * magnitudes;
          const std::string what = label(*table) + ", depth " + std::to_string(depth);
          expect_close(exact[i * w.rows + n], sum, 0, bound, what);
          if (!parts) {
            expect_close(rounded[i * w.rows + n], sum, 0, bound, what + ", fast");
            continue;
          }
          expect_close(rounded[i * w.rows + n], split_sum, 0, bound, what + ", of the parts");
          expect_close(rounded[i * w.rows + n], sum, 0, bound + 0x1p-17 * magnitudes,
                       what + ", of the whole");
        }
      }
    }
  }
}

TEST(KernelValues, Bf16RoundsToNearestEven) {
  const std::vector<float> x = {0.0F,        -0.0F,         1.0F,
                                1.00390625F, 1.01171875F,   1.0039064F,
                                -1.0039061F, 3.4028234e38F, std::numeric_limits<float>::infinity()};
  const std::vector<std::uint16_t> expected = {0,      0x8000, 0x3f80, 0x3f80, 0x3f82,
                                               0x3f81, 0xbf80, 0x7f80, 0x7f80};
  for (const Kernels* table : all_tables()) {
    std::vector<std::uint16_t> y(x.size());
    table->to_bf16(x.data(), y.data(), x.size());
    EXPECT_TRUE(same_bits(expected, y)) << label(*table);
    const float nan = std::numeric_limits<float>::quiet_NaN();
    table->to_bf16(&nan, y.data(), 1);
    EXPECT_TRUE(std::isnan(from_bf16(y[0]))) << label(*table);
  }
}

TEST(KernelValues, EveryHalfWidens) {
  std::vector<std::uint16_t> f16;
  std::vector<std::uint16_t> bf16;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    if ((bits & 0x7c00) != 0x7c00) f16.push_back(static_cast<std::uint16_t>(bits));
    if ((bits & 0x7f80) != 0x7f80) bf16.push_back(static_cast<std::uint16_t>(bits));
  }
  for (const Kernels* table : all_tables()) {
    std::vector<float> y(f16.size());
    const FormatKernels& of_f16 = table->format(kF16Format);
    of_f16.widen_row({.format = &kF16Format, .rows = 1, .columns = f16.size(), .data = f16.data()}, 0,
                     y.data());
    for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], from_f16(f16[i])) << f16[i];
    // The GEMM dequantizes in its own way.
    const std::vector<float> one = {1.0F};
    of_f16.exact.multiply(one.data(), 1,
                          {.format = &kF16Format, .rows = f16.size(), .columns = 1, .data = f16.data()},
                          y.data(), y.size(), 0, y.size());
    for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], from_f16(f16[i])) << f16[i];
    y.resize(bf16.size());
    table->format(kBF16Format)
        .widen_row({.format = &kBF16Format, .rows = 1, .columns = bf16.size(), .data = bf16.data()}, 0,
                   y.data());
    for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], from_bf16(bf16[i])) << bf16[i];
  }
}

TEST(KernelValues, SplitKeepsSixteenBits) {
  Random random(2);
  const std::vector<float> x = random.floats(10000, 100.0F);
  for (const Kernels* table : all_tables()) {
    const FormatKernels& bf16 = table->format(kBF16Format);
    if (!takes_two_parts(bf16)) continue;
    const TwoParts parts(bf16.fast, x, x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      std::uint16_t high = 0;  // rounds to nearest even, as every table does
      plain().to_bf16(&x[i], &high, 1);
      ASSERT_EQ(parts.high(0, i), from_bf16(high));
      const double both = static_cast<double>(from_bf16(high)) + parts.low(0, i);
      expect_close(both, x[i], 0x1p-17, 0, "split");
    }
  }
}

TEST(KernelValues, GatesWithinFewUlp) {
  std::vector<float> gate;
  for (float x = -86.0F; x < 87.0F; x += 0.00731F) gate.push_back(x);
  const std::vector<float> ones(gate.size(), 1.0F);
  for (const Kernels* table : all_tables()) {
    std::vector<float> by_sigmoid = ones;
    std::vector<float> by_silu = ones;
    std::vector<float> product(gate.size());
    table->gate_sigmoid(gate.data(), by_sigmoid.data(), gate.size());
    table->gate_silu(gate.data(), by_silu.data(), gate.size());
    table->swiglu(gate.data(), gate.data(), product.data(), gate.size());
    for (std::size_t i = 0; i < gate.size(); ++i) {
      const double x = gate[i];
      expect_close(by_sigmoid[i], sigmoid(x), 4 * kUlp, 0, label(*table) + " sigmoid");
      expect_close(by_silu[i], x * sigmoid(x), 5 * kUlp, 0, label(*table) + " silu");
      expect_close(product[i], x * x * sigmoid(x), 6 * kUlp, 0, label(*table) + " swiglu");
    }
  }
}

TEST(KernelValues, GatesFarOut) {
  const std::vector<float> gate = {0.0F, -0.0F, 1e-40F, 88.0F, -88.0F, 1000.0F, -1000.0F, 1e30F, -1e30F};
  for (const Kernels* table : all_tables()) {
    std::vector<float> by_sigmoid(gate.size(), 1.0F);
    std::vector<float> by_silu(gate.size(), 1.0F);
    table->gate_sigmoid(gate.data(), by_sigmoid.data(), gate.size());
    table->gate_silu(gate.data(), by_silu.data(), gate.size());
    for (std::size_t i = 0; i < gate.size(); ++i) {
      expect_close(by_sigmoid[i], sigmoid(gate[i]), 4 * kUlp, 1e-37, label(*table));
      expect_close(by_silu[i], gate[i] * sigmoid(gate[i]), 5 * kUlp, 1e-7, label(*table));
    }
  }
}

TEST(KernelValues, SoftCap) {
  std::vector<float> x = {0.0F, -0.0F, 1e-30F, 1e-6F, -1e-6F};
  for (float value = -400.0F; value < 400.0F; value += 0.37F) x.push_back(value);
  for (float value = 1e-5F; value < 30.0F; value *= 1.3F) x.push_back(value);
  const float infinite = std::numeric_limits<float>::infinity();
  for (const Kernels* table : all_tables()) {
    std::vector<float> y = x;
    table->soft_cap(30.0F, y.data(), y.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      expect_close(y[i], 30.0 * std::tanh(static_cast<double>(x[i]) / 30.0), 5 * kUlp, 0,
                   label(*table) + ", soft_cap of " + std::to_string(x[i]));
    }
    for (const float sick : {infinite, -infinite, std::numeric_limits<float>::quiet_NaN()}) {
      float one = sick;
      table->soft_cap(30.0F, &one, 1);
      EXPECT_FALSE(std::isfinite(one)) << label(*table) << ", soft_cap of " << sick;
    }
  }
}

TEST(KernelValues, Gelu) {
  std::vector<float> gate = {0.0F, -0.0F, 1e-40F, 100.0F, -100.0F, 1e10F, 1e30F, -1e30F};
  for (float x = -12.0F; x < 12.0F; x += 0.00731F) gate.push_back(x);
  for (const Kernels* table : all_tables()) {
    std::vector<float> y(gate.size(), 1.0F);
    table->gate_gelu(gate.data(), y.data(), gate.size());
    for (std::size_t i = 0; i < gate.size(); ++i) {
      const double x = gate[i];
      const double inner = std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x);
      const double expected = x / 2 * (1 + std::tanh(inner));
      expect_close(y[i], expected, 5 * kUlp, 3e-7, label(*table) + " gelu of " + std::to_string(x));
    }
  }
}

TEST(KernelValues, ReluSquared) {
  for (const Kernels* table : all_tables()) {
    std::vector<float> x = {-3.0F, -0.0F, 0.0F, 0.5F, 3.0F, 1e30F, std::numeric_limits<float>::quiet_NaN()};
    table->relu_squared(x.data(), x.size());
    EXPECT_EQ(std::vector<float>(x.begin(), x.begin() + 5), (std::vector<float>{0, 0, 0, 0.25F, 9}))
        << label(*table);
    EXPECT_TRUE(std::isinf(x[5])) << label(*table);
    EXPECT_TRUE(std::isnan(x[6])) << label(*table);
  }
}

TEST(KernelValues, NormsAndRope) {
  Random random(3);
  const std::size_t size = 100;
  const std::vector<float> x = random.floats(size, 3.0F);
  const std::vector<float> w = random.floats(size);
  double squares = 0;
  for (const float value : x) squares += static_cast<double>(value) * value;
  const double rms = 1.0 / std::sqrt(squares / size + 1e-6);
  const double l2 = 1.0 / std::sqrt(squares + 1e-6);
  const std::vector<float> angle = random.between(30, 0.0F, 6.0F);
  std::vector<float> cosine;
  std::vector<float> sine;
  for (const float a : angle) {
    cosine.push_back(std::cos(a));
    sine.push_back(std::sin(a));
  }
  for (const Kernels* table : all_tables()) {
    std::vector<float> y(size);
    table->rms_norm(x.data(), w.data(), 1.0F, 1e-6F, y.data(), 1, size, size);
    for (std::size_t i = 0; i < size; ++i)
      expect_close(y[i], x[i] * rms * (1.0 + w[i]), 1e-6, 1e-6, "rms_norm");
    table->l2_norm(x.data(), 1e-6F, 0.5F, y.data(), 1, size, size);
    for (std::size_t i = 0; i < size; ++i) expect_close(y[i], x[i] * l2 * 0.5, 1e-6, 0, "l2_norm");
    y = x;
    table->rope(y.data(), cosine.data(), sine.data(), 30);
    for (std::size_t i = 0; i < 30; ++i) {
      const double c = cosine[i];
      const double s = sine[i];
      expect_close(y[i], x[i] * c - x[i + 30] * s, 1e-6, 2e-6, "rope");
      expect_close(y[i + 30], x[i + 30] * c + x[i] * s, 1e-6, 2e-6, "rope");
    }
    for (std::size_t i = 60; i < size; ++i) EXPECT_EQ(y[i], x[i]);
    // A row of zeros has no direction and stays zero.
    const std::vector<float> zeros(size);
    table->l2_norm(zeros.data(), 1e-6F, 1.0F, y.data(), 1, size, size);
    EXPECT_TRUE(same_bits(zeros, y));
    table->rms_norm(zeros.data(), zeros.data(), 1.0F, 1e-6F, y.data(), 1, size, size);
    EXPECT_TRUE(same_bits(zeros, y));
  }
}

TEST(KernelValues, DeltaGates) {
  Random random(4);
  const std::size_t heads = 500;
  const std::vector<float> a = random.floats(heads, 15.0F);
  const std::vector<float> b = random.floats(heads, 15.0F);
  const std::vector<float> decay = random.between(heads, 0.01F, 16.0F);
  const std::vector<float> bias = random.floats(heads);
  for (const Kernels* table : all_tables()) {
    std::vector<float> g(heads);
    std::vector<float> beta(heads);
    table->delta_gates(a.data(), b.data(), decay.data(), bias.data(), g.data(), beta.data(), heads);
    for (std::size_t h = 0; h < heads; ++h) {
      const double x = static_cast<double>(a[h]) + bias[h];
      expect_close(g[h], -decay[h] * (x > 40 ? x : std::log1p(std::exp(x))), 1e-5, 0, "g");
      expect_close(beta[h], sigmoid(b[h]), 4 * kUlp, 0, "beta");
    }
  }
}

TEST(KernelValues, CausalConv) {
  Random random(5);
  const std::size_t channels = 19;
  const std::size_t tokens = 11;
  const std::size_t taps = 4;
  const std::size_t stride = channels + 3;
  const std::vector<float> weight = random.floats(taps * channels);
  const std::vector<float> bias = random.floats(channels);
  const std::vector<float> x = random.floats(tokens * stride);
  const std::vector<float> before = random.floats((taps - 1) * channels);
  std::vector<float> inputs = before;  // all, in order of time
  for (std::size_t t = 0; t < tokens; ++t) {
    const auto row = x.begin() + static_cast<std::ptrdiff_t>(t * stride);
    inputs.insert(inputs.end(), row, row + static_cast<std::ptrdiff_t>(channels));
  }
  struct Variant {
    bool bias, silu;
  };
  for (const Kernels* table : all_tables()) {
    for (const Variant& variant : {Variant{false, true}, {true, true}, {false, false}, {true, false}}) {
      std::vector<float> state = before;
      std::vector<float> y(tokens * channels);
      table->causal_conv({.state = state.data(),
                          .weight = weight.data(),
                          .x = x.data(),
                          .y = y.data(),
                          .channels = channels,
                          .taps = taps,
                          .tokens = tokens,
                          .x_stride = stride,
                          .bias = variant.bias ? bias.data() : nullptr,
                          .silu = variant.silu},
                         0, channels);
      for (std::size_t t = 0; t < tokens; ++t) {
        for (std::size_t c = 0; c < channels; ++c) {
          double sum = variant.bias ? bias[c] : 0;
          for (std::size_t j = 0; j < taps; ++j) {
            sum += static_cast<double>(weight[j * channels + c]) * inputs[(t + j) * channels + c];
          }
          expect_close(y[t * channels + c], variant.silu ? sum * sigmoid(sum) : sum, 1e-5, 2e-6,
                       label(*table));
        }
      }
      EXPECT_TRUE(same_bits(state, std::vector<float>(inputs.end() - (taps - 1) * channels, inputs.end())));
    }
  }
}

TEST(KernelValues, DeltaRule) {
  Random random(6);
  const DeltaInputs inputs(random, 64, 40, 150);
  std::vector<double> s(inputs.state.begin(), inputs.state.end());
  std::vector<double> out(inputs.tokens * inputs.value_dim);
  for (std::size_t t = 0; t < inputs.tokens; ++t) {
    const float* q = inputs.rows.data() + t * inputs.stride;
    const float* k = q + inputs.key_dim;
    const float* v = k + inputs.key_dim;
    const double decay = std::exp(static_cast<double>(inputs.g[2 * t]));
    for (std::size_t j = 0; j < inputs.value_dim; ++j) {
      const auto at = [&](std::size_t i) -> double& { return s[i * inputs.value_dim + j]; };
      double recalled = 0;
      for (std::size_t i = 0; i < inputs.key_dim; ++i) recalled += k[i] * (at(i) *= decay);
      const double change = inputs.beta[2 * t] * (v[j] - recalled);
      for (std::size_t i = 0; i < inputs.key_dim; ++i) {
        at(i) += k[i] * change;
        out[t * inputs.value_dim + j] += q[i] * at(i);
      }
    }
  }
  for (const Kernels* table : all_tables()) {
    std::vector<float> state = inputs.state;
    std::vector<float> result(out.size());
    inputs.run(*table, state, result, 0, inputs.tokens);
    for (std::size_t i = 0; i < out.size(); ++i)
      expect_close(result[i], out[i], 0, 5e-6, label(*table) + " out");
    for (std::size_t i = 0; i < s.size(); ++i)
      expect_close(state[i], s[i], 0, 5e-6, label(*table) + " state");
  }
}

std::vector<double> softmax_attention(const PagedHead& head, const std::vector<float>& q,
                                      std::size_t head_dim, std::size_t length, double scale) {
  std::vector<double> out(q.size());
  for (std::size_t h = 0; h < q.size() / head_dim; ++h) {
    std::vector<double> score(length);
    for (std::size_t t = 0; t < length; ++t) {
      for (std::size_t i = 0; i < head_dim; ++i) {
        score[t] += static_cast<double>(q[h * head_dim + i]) * head.k[t * head_dim + i];
      }
      score[t] *= scale;
    }
    const double highest = *std::max_element(score.begin(), score.end());
    double weight = 0;
    for (std::size_t t = 0; t < length; ++t) {
      const double share = std::exp(score[t] - highest);
      weight += share;
      for (std::size_t i = 0; i < head_dim; ++i) out[h * head_dim + i] += share * head.v[t * head_dim + i];
    }
    for (std::size_t i = 0; i < head_dim; ++i) out[h * head_dim + i] /= weight;
  }
  return out;
}

TEST(KernelValues, Attention) {
  Random random(7);
  for (const std::size_t length : {1, 2, 63, 64, 65, 128, 129, 200}) {
    for (const KvType kv : kAllKvTypes) {
      const std::size_t head_dim = random.size(16, 256);
      const PagedHead head(random, length, head_dim, kv);
      const std::vector<float> q = random.floats(3 * head_dim, 3.0F);
      std::vector<float> out(q.size());
      const double scale = head.row(q, out, head_dim, length).scale;
      const std::vector<double> expected = softmax_attention(head, q, head_dim, length, scale);
      for (const Kernels* table : all_tables()) {
        table->attention(head.row(q, out, head_dim, length));
        for (std::size_t i = 0; i < out.size(); ++i)
          expect_close(out[i], expected[i], 0, 2e-5, label(*table));
      }
    }
  }
}

TEST(KernelValues, AttentionToOneOfMany) {
  Random random(8);
  const std::size_t head_dim = 32;
  const std::size_t length = 150;
  for (const std::size_t chosen : {0, 63, 64, 149}) {
    PagedHead head(random, length, head_dim, KvType::kF32);
    // The chosen key scores far above the others, whose exponentials underflow.
    for (std::size_t i = 0; i < head.k.size(); ++i) head.k[i] = i / head_dim == chosen ? 1e4F : -1e15F;
    head.store(length, head_dim);
    const std::vector<float> q(head_dim, 1e15F);
    std::vector<float> out(head_dim);
    for (const Kernels* table : all_tables()) {
      table->attention(head.row(q, out, head_dim, length));
      for (std::size_t i = 0; i < head_dim; ++i) {
        expect_close(out[i], head.v[chosen * head_dim + i], 2 * kUlp, 1e-30, label(*table));
      }
    }
  }
}

TEST(KernelValues, AttentionToEqualKeysIsTheMean) {
  Random random(9);
  const std::size_t head_dim = 24;
  const std::size_t length = 100;
  PagedHead head(random, length, head_dim, KvType::kF32);
  std::fill(head.k.begin(), head.k.end(), 0.0F);
  head.store(length, head_dim);
  const std::vector<float> q = random.floats(head_dim);
  std::vector<float> out(head_dim);
  for (const Kernels* table : all_tables()) {
    table->attention(head.row(q, out, head_dim, length));
    for (std::size_t i = 0; i < head_dim; ++i) {
      double mean = 0;
      for (std::size_t t = 0; t < length; ++t) mean += head.v[t * head_dim + i] / static_cast<double>(length);
      expect_close(out[i], mean, 0, 2e-6, label(*table));
    }
  }
}

}  // namespace
}  // namespace reprise::gpu::test
