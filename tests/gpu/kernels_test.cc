// Bitwise identity of kernels: every table equals the plain one, rows do not depend on other rows or ranges,
// and sequences do not depend on slicing.

#include "gpu/kernels.h"

#include "tests/gpu/kernel_inputs.h"

namespace reprise::gpu::test {
namespace {

constexpr const WeightFormat* kFloats[] = {&kF32Format, &kF16Format, &kBF16Format};

/// Calls compute(table, output) for each table, with `output` initialized to `before`, and expects the plain
/// table's bits.
template <class T, class Compute>
void expect_same(const std::vector<T>& before, Compute compute) {
  std::vector<T> expected = before;
  compute(plain(), expected);
  for (const Kernels* table : fast_tables()) {
    std::vector<T> result = before;
    compute(*table, result);
    EXPECT_TRUE(same_bits(expected, result)) << label(*table);
  }
}

TEST(KernelBits, Matmul) {
  Random random(1);
  for (int round = 0; round < 150; ++round) {
    const std::size_t m = random.size(1, 20);
    const std::size_t n = random.size(1, 40);
    const std::size_t stride = n + random.size(0, 3);
    const OwnedMatrix w = random.matrix(*kFloats[round % 3], n, random.size(1, 300));
    const std::vector<float> x =
        round % 10 == 9 ? random.odd_floats(m * w.columns) : random.floats(m * w.columns);
    const std::size_t begin = random.size(0, n - 1);
    const std::size_t end = random.size(begin, n);
    // Bytes outside the range must not change.
    expect_same(random.floats(m * stride), [&](const Kernels& kernels, std::vector<float>& y) {
      kernels.format(*w.format).exact.multiply(x.data(), m, w.view(), y.data(), stride, begin, end);
    });
  }
}

TEST(KernelBits, Conversions) {
  Random random(2);
  for (std::size_t count = 0; count < 70; ++count) {
    const std::vector<float> x = count % 2 == 0 ? random.floats(count) : random.odd_floats(count);
    expect_same(std::vector<std::uint16_t>(count),
                [&](const Kernels& kernels, std::vector<std::uint16_t>& y) {
                  kernels.to_bf16(x.data(), y.data(), count);
                });
    if (count == 0) continue;
    for (const WeightFormat* format : kFloats) {
      const OwnedMatrix w = random.matrix(*format, 3, count);
      expect_same(std::vector<float>(count), [&](const Kernels& kernels, std::vector<float>& y) {
        kernels.format(*format).widen_row(w.view(), 2, y.data());
      });
    }
  }
}

TEST(KernelBits, Norms) {
  Random random(3);
  for (std::size_t size = 1; size < 200; ++size) {
    const std::size_t rows = random.size(1, 4);
    const std::size_t stride = size + random.size(0, 9);
    const std::vector<float> x =
        size % 7 == 0 ? random.odd_floats(rows * stride) : random.floats(rows * stride);
    const std::vector<float> w = random.floats(size);
    expect_same(x, [&](const Kernels& kernels, std::vector<float>& y) {
      kernels.rms_norm(x.data(), w.data(), 1.0F, 1e-6F, y.data(), rows, size, stride);
    });
    expect_same(x, [&](const Kernels& kernels, std::vector<float>& y) {
      kernels.l2_norm(y.data(), 1e-6F, 0.25F, y.data(), rows, size, stride);  // in place
    });
  }
}

TEST(KernelBits, Elementwise) {
  Random random(4);
  for (std::size_t count = 0; count < 100; ++count) {
    const auto some = [&](float scale) {
      return count % 4 == 3 ? random.odd_floats(count) : random.floats(count, scale);
    };
    const std::vector<float> gate = some(20.0F);
    const std::vector<float> up = some(1.0F);
    const std::vector<float> before = some(1.0F);
    expect_same(before, [&](const Kernels& kernels, std::vector<float>& y) {
      kernels.add(up.data(), y.data(), count);
    });
    expect_same(gate,
                [&](const Kernels& kernels, std::vector<float>& y) { kernels.scale(0.3F, y.data(), count); });
    expect_same(
        gate, [&](const Kernels& kernels, std::vector<float>& y) { kernels.relu_squared(y.data(), count); });
    expect_same(gate, [&](const Kernels& kernels, std::vector<float>& y) {
      kernels.soft_cap(7.0F, y.data(), count);
    });
    expect_same(before, [&](const Kernels& kernels, std::vector<float>& y) {
      kernels.swiglu(gate.data(), up.data(), y.data(), count);
    });
    expect_same(before, [&](const Kernels& kernels, std::vector<float>& y) {
      kernels.gate_silu(gate.data(), y.data(), count);
    });
    expect_same(before, [&](const Kernels& kernels, std::vector<float>& y) {
      kernels.gate_gelu(gate.data(), y.data(), count);
    });
    expect_same(before, [&](const Kernels& kernels, std::vector<float>& y) {
      kernels.gate_sigmoid(gate.data(), y.data(), count);
    });
    expect_same(random.floats(2 * count + 3), [&](const Kernels& kernels, std::vector<float>& head) {
      kernels.rope(head.data(), gate.data(), up.data(), count);
    });
    const std::vector<float> decay = random.between(count, 0.1F, 16.0F);
    expect_same(std::vector<float>(2 * count), [&](const Kernels& kernels, std::vector<float>& y) {
      kernels.delta_gates(gate.data(), up.data(), decay.data(), before.data(), y.data(), y.data() + count,
                          count);
    });
  }
}

TEST(KernelBits, CausalConv) {
  Random random(5);
  for (int round = 0; round < 200; ++round) {
    const std::size_t taps = random.size(2, 5);
    const std::size_t channels = random.size(1, 80);
    const std::size_t tokens = random.size(1, 20);
    const std::size_t begin = random.size(0, channels - 1);
    const std::size_t end = random.size(begin, channels);
    const std::size_t stride = channels + (round % 3 == 2 ? 5 : 0);
    const std::vector<float> weight = random.floats(taps * channels);
    const std::vector<float> x = random.floats(tokens * stride);
    const std::vector<float> bias = random.floats(channels);
    expect_same(random.floats((taps - 1 + tokens) * channels),
                [&](const Kernels& kernels, std::vector<float>& y) {
                  const CausalConv conv{.state = y.data(),
                                        .weight = weight.data(),
                                        .x = x.data(),
                                        .y = y.data() + (taps - 1) * channels,
                                        .channels = channels,
                                        .taps = taps,
                                        .tokens = tokens,
                                        .x_stride = stride,
                                        .bias = round % 2 == 0 ? nullptr : bias.data(),
                                        .silu = round % 4 < 2};
                  kernels.causal_conv(conv, begin, end);
                });
  }
}

TEST(KernelBits, DeltaRule) {
  Random random(6);
  for (std::size_t round = 0; round < 60; ++round) {
    const std::size_t keys = random.size(1, 130);
    const std::size_t values = 8 * random.size(1, 17);
    const DeltaInputs inputs(random, keys, values, random.size(1, 12));
    const std::size_t outputs = inputs.tokens * inputs.value_dim;
    std::vector<float> state = inputs.state;
    std::vector<float> out(outputs);
    inputs.run(plain(), state, out, 0, inputs.tokens);
    for (const Kernels* table : fast_tables()) {
      std::vector<float> fast_state = inputs.state;
      std::vector<float> fast_out(outputs);
      inputs.run(*table, fast_state, fast_out, 0, inputs.tokens);
      EXPECT_TRUE(same_bits(state, fast_state)) << label(*table);
      EXPECT_TRUE(same_bits(out, fast_out)) << label(*table);
    }
  }
}

TEST(KernelBits, Attention) {
  Random random(7);
  for (int round = 0; round < 150; ++round) {
    const std::size_t head_dim = round % 3 == 0 ? random.size(16, 256) : 16 * random.size(1, 16);
    const std::size_t length = random.size(1, 200);
    const PagedHead head(random, length, head_dim, kAllKvTypes[static_cast<std::size_t>(round) % 4]);
    const std::vector<float> q = random.floats(random.size(1, 9) * head_dim, round % 5 == 0 ? 30.0F : 2.0F);
    expect_same(std::vector<float>(q.size()), [&](const Kernels& kernels, std::vector<float>& out) {
      kernels.attention(head.row(q, out, head_dim, length));
    });
  }
}

// A row's bits for 1 to 40 rows, and for every cut of the range of outputs.

/// product(m, y, begin, end) computes the first m of 40 rows.
template <class Product>
void expect_row_invariance(std::size_t outputs, Product product) {
  constexpr std::size_t kRows = 40;
  std::vector<float> whole(kRows * outputs);
  product(kRows, whole, 0, outputs);
  const auto expect = [&](std::size_t m, const std::vector<float>& y, const std::string& what) {
    EXPECT_EQ(std::memcmp(whole.data(), y.data(), m * outputs * sizeof(float)), 0) << m << " rows, " << what;
  };
  for (std::size_t m = 1; m <= kRows; ++m) {
    std::vector<float> y(kRows * outputs);
    product(m, y, 0, outputs);
    expect(m, y, "one range");
    const std::size_t step = m % 5 == 1 ? 1 : 8;  // odd cuts only for some m, to save time
    for (std::size_t cut = step; cut < outputs; cut += step) {
      std::fill(y.begin(), y.end(), 0.0F);
      product(m, y, 0, cut);
      product(m, y, cut, outputs);
      expect(m, y, "cut at " + std::to_string(cut));
    }
    std::fill(y.begin(), y.end(), 0.0F);
    for (std::size_t begin = 0; begin < outputs; begin += 3)
      product(m, y, begin, std::min(outputs, begin + 3));
    expect(m, y, "ranges of 3");
  }
}

TEST(RowInvariance, Matmul) {
  Random random(8);
  for (const Kernels* table : all_tables()) {
    SCOPED_TRACE(label(*table));
    for (const WeightFormat* format : kFloats) {
      for (const std::size_t depth : {64, 77}) {
        const OwnedMatrix w = random.matrix(*format, 43, depth);
        const std::vector<float> x = random.floats(40 * depth);
        expect_row_invariance(
            w.rows, [&](std::size_t m, std::vector<float>& y, std::size_t begin, std::size_t end) {
              table->format(*format).exact.multiply(x.data(), m, w.view(), y.data(), w.rows, begin, end);
            });
      }
    }
  }
}

TEST(RowInvariance, MatmulOfBf16) {
  Random random(9);
  for (const Kernels* table : all_tables()) {
    const FormatKernels& bf16 = table->format(kBF16Format);
    if (!bf16.has_fast()) continue;
    SCOPED_TRACE(label(*table));
    for (const std::size_t depth : {1, 8, 31, 32, 64, 77, 328}) {
      const OwnedMatrix w = random.matrix(kBF16Format, 43, depth);
      const std::vector<float> x = random.floats(40 * depth);
      const RowsForProduct parts(bf16.fast, x, depth);
      expect_row_invariance(w.rows,
                            [&](std::size_t m, std::vector<float>& y, std::size_t begin, std::size_t end) {
                              bf16.fast.multiply(parts.row(0), m, w.view(), y.data(), w.rows, begin, end);
                            });
      // A row's index in the batch does not matter: each row alone, and last after others.
      std::vector<float> all(40 * w.rows);
      bf16.fast.multiply(parts.row(0), 40, w.view(), all.data(), w.rows, 0, w.rows);
      for (std::size_t row = 0; row < 40; ++row) {
        std::vector<float> alone(w.rows);
        bf16.fast.multiply(parts.row(row), 1, w.view(), alone.data(), w.rows, 0, w.rows);
        EXPECT_EQ(std::memcmp(alone.data(), all.data() + row * w.rows, w.rows * sizeof(float)), 0)
            << "row " << row;
      }
    }
  }
}

TEST(Slicing, DeltaRuleAtEveryCut) {
  Random random(10);
  for (const Kernels* table : all_tables()) {
    for (const std::size_t value_dim : {8, 32, 72}) {
      const DeltaInputs inputs(random, 24, value_dim, 40);
      std::vector<float> state = inputs.state;
      std::vector<float> out(inputs.tokens * value_dim);
      inputs.run(*table, state, out, 0, inputs.tokens);
      for (std::size_t cut = 1; cut < inputs.tokens; ++cut) {
        std::vector<float> cut_state = inputs.state;
        std::vector<float> cut_out(out.size());
        inputs.run(*table, cut_state, cut_out, 0, cut);
        inputs.run(*table, cut_state, cut_out, cut, inputs.tokens);
        ASSERT_TRUE(same_bits(state, cut_state)) << label(*table) << ", cut at " << cut;
        ASSERT_TRUE(same_bits(out, cut_out)) << label(*table) << ", cut at " << cut;
      }
    }
  }
}

TEST(Slicing, CausalConvAtEveryCut) {
  Random random(11);
  const std::size_t channels = 21;
  const std::size_t tokens = 17;
  for (const Kernels* table : all_tables()) {
    for (std::size_t taps = 2; taps <= 5; ++taps) {
      const std::vector<float> weight = random.floats(taps * channels);
      const std::vector<float> before = random.floats((taps - 1) * channels);
      const std::vector<float> x = random.floats(tokens * channels);
      const std::vector<float> bias = random.floats(channels);
      const auto run = [&](std::vector<float>& state, std::vector<float>& y, std::size_t begin,
                           std::size_t end) {
        const CausalConv conv{.state = state.data(),
                              .weight = weight.data(),
                              .x = x.data() + begin * channels,
                              .y = y.data() + begin * channels,
                              .channels = channels,
                              .taps = taps,
                              .tokens = end - begin,
                              .bias = taps % 2 == 0 ? nullptr : bias.data(),
                              .silu = taps < 4};
        table->causal_conv(conv, 0, channels);
      };
      std::vector<float> state = before;
      std::vector<float> y(tokens * channels);
      run(state, y, 0, tokens);
      for (std::size_t cut = 1; cut < tokens; ++cut) {
        std::vector<float> cut_state = before;
        std::vector<float> cut_y(tokens * channels);
        run(cut_state, cut_y, 0, cut);
        run(cut_state, cut_y, cut, tokens);
        ASSERT_TRUE(same_bits(state, cut_state)) << label(*table) << ", cut at " << cut;
        ASSERT_TRUE(same_bits(y, cut_y)) << label(*table) << ", cut at " << cut;
      }
    }
  }
}

}  // namespace
}  // namespace reprise::gpu::test
