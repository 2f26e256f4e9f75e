// The kernels of GEMMs with as many outputs as an LM head are bitwise identical to small-m GEMMs, which
// cuda_gemm_test.cc compares with the CPU.

#include <cmath>
#include <cstring>

#include "gpu/cuda/gemm/decode_gemm.h"
#include "gpu/cuda/gemm/gemm.h"
#include "tests/gpu/cuda_rig.h"
#include "tests/gpu/kernel_inputs.h"

namespace reprise::gpu::cuda {
namespace {

using test::from_bf16;
using test::Random;
using test::random_bf16;

constexpr int kOutputs = 102'409;  // a partial tile for every tile size
constexpr int kMax = 64;
constexpr int kFew = 8;

/// Random values repeated with a prime period, so that all rows of a weight differ.
std::vector<Bf16> many_bf16(Random& random, std::size_t count) {
  constexpr std::size_t kPeriod = 1'048'583;
  const std::vector<Bf16> some = random_bf16(random, kPeriod);
  std::vector<Bf16> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = some[i % kPeriod];
  return all;
}

class CudaHeadTest : public test::CudaRig<testing::Test> {
 protected:
  struct Head {
    DeviceBytes data;
    DeviceWeight weight;
  };
  Head head(const std::vector<Bf16>& values, int columns) {
    Head made{.data = upload(values), .weight = {}};
    made.weight = {.format = &kBf16OnDevice, .data = made.data.data(), .rows = kOutputs, .columns = columns};
    return made;
  }
  /// Results of `multiply(first, rows, y)`, a few rows at a time.
  template <class Multiply>
  std::vector<float> by_few(const Multiply& multiply) {
    const DeviceBytes y(static_cast<std::size_t>(kMax) * kOutputs * sizeof(float));
    for (int first = 0; first < kMax; first += kFew) {
      multiply(first, kFew, y.as<float>() + static_cast<std::size_t>(first) * kOutputs);
    }
    return download<float>(y);
  }
  template <class Multiply>
  testing::AssertionResult has_bits(const std::vector<float>& wanted, int m, const Multiply& multiply) {
    const DeviceBytes y = upload(std::vector<float>(static_cast<std::size_t>(m) * kOutputs, -7.0F));
    multiply(y.as<float>());
    const std::vector<float> got = download<float>(y);
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (std::memcmp(&got[i], &wanted[i], sizeof(float)) == 0) continue;
      return testing::AssertionFailure() << m << " rows: row " << i / kOutputs << ", output " << i % kOutputs
                                         << " is " << got[i] << " instead of " << wanted[i];
    }
    return testing::AssertionSuccess();
  }
};

constexpr int kColumns[] = {192, 704, 1024, 1088};
constexpr int kRows[] = {9, 12, 16, 17, 24, 25, 31, 32, 33, 50, 64};

TEST_F(CudaHeadTest, HasTheBitsOfTheProductOfFewRows) {
  Random random(10);
  for (const int k : kColumns) {
    const std::vector<Bf16> x_values = random_bf16(random, static_cast<std::size_t>(kMax) * k);
    const std::vector<Bf16> w_values = many_bf16(random, static_cast<std::size_t>(kOutputs) * k);
    const DeviceBytes x = upload(x_values);
    const Head head = this->head(w_values, k);
    const std::vector<float> wanted = by_few([&](int first, int m, float* y) {
      decode_bf16(x.as<const Bf16>() + static_cast<std::size_t>(first) * k, m, head.weight, y,
                  GemmOutput::kF32, stream_->handle());
    });
    for (const int output : {0, 31, 32, 255, 51'200, kOutputs - 1}) {
      for (const int row : {0, 15, 63}) {
        double sum = 0;
        for (int i = 0; i < k; ++i) {
          sum += static_cast<double>(from_bf16(x_values[static_cast<std::size_t>(row) * k + i])) *
                 static_cast<double>(from_bf16(w_values[static_cast<std::size_t>(output) * k + i]));
        }
        ASSERT_NEAR(wanted[static_cast<std::size_t>(row) * kOutputs + output], sum, 4e-5 * std::sqrt(k));
      }
    }
    for (const int m : kRows) {
      EXPECT_TRUE(has_bits(wanted, m,
                           [&](float* y) {
                             decode_bf16(x.as<const Bf16>(), m, head.weight, y, GemmOutput::kF32,
                                         stream_->handle());
                           }))
          << k << " columns";
      EXPECT_TRUE(has_bits(wanted, m,
                           [&](float* y) {
                             decode_in_tiles(x.as<const Bf16>(), m, head.weight, y, GemmOutput::kF32,
                                             stream_->handle());
                           }))
          << k << " columns, in tiles";
    }
  }
}

TEST_F(CudaHeadTest, OfUnscaledRowsHasTheBitsOfFewOfThem) {
  Random random(11);
  for (const int k : kColumns) {
    const auto elements = static_cast<std::size_t>(kMax) * static_cast<std::size_t>(k);
    const DeviceBytes x = upload(random_bf16(random, elements));
    std::vector<float> of_eights = random.floats(elements / 8);
    for (float& one : of_eights) one = one * one + 1;
    const DeviceBytes squares = upload(of_eights);
    const Head head = this->head(many_bf16(random, static_cast<std::size_t>(kOutputs) * k), k);
    const auto rows_from = [&](int first) {
      return DeferredNormRows{.x = x.as<Bf16>() + static_cast<std::size_t>(first) * k,
                              .squares = squares.as<float>() + static_cast<std::size_t>(first) * k / 8,
                              .eps = 1e-6F};
    };
    const std::vector<float> wanted = by_few([&](int first, int m, float* y) {
      decode_bf16_unscaled(rows_from(first), m, head.weight, y, GemmOutput::kF32, stream_->handle());
    });
    const std::vector<float> plain = by_few([&](int first, int m, float* y) {
      decode_bf16(rows_from(first).x, m, head.weight, y, GemmOutput::kF32, stream_->handle());
    });
    for (const int row : {0, 9, 63}) {
      double sum = 0;
      for (int i = 0; i < k / 8; ++i) sum += of_eights[static_cast<std::size_t>(row) * k / 8 + i];
      const double scale = 1 / std::sqrt(sum / k + 1e-6);
      for (const std::size_t output : {0, 33, kOutputs - 1}) {
        const std::size_t at = static_cast<std::size_t>(row) * kOutputs + output;
        ASSERT_NEAR(wanted[at], plain[at] * scale, 1e-4 + std::abs(plain[at]) * 1e-5) << "row " << row;
      }
    }
    for (const int m : kRows) {
      EXPECT_TRUE(has_bits(wanted, m,
                           [&](float* y) {
                             decode_bf16_unscaled(rows_from(0), m, head.weight, y, GemmOutput::kF32,
                                                  stream_->handle());
                           }))
          << k << " columns";
      EXPECT_TRUE(has_bits(wanted, m,
                           [&](float* y) {
                             decode_in_tiles_unscaled(rows_from(0), m, head.weight, y, GemmOutput::kF32,
                                                      stream_->handle());
                           }))
          << k << " columns, in tiles";
    }
  }
}

}  // namespace
}  // namespace reprise::gpu::cuda
