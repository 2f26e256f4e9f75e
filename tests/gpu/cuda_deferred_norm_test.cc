// Deferred RMSNorm: the kernels that output such rows, and the GEMMs that apply the norm when they read them.

#include <cmath>
#include <cstring>
#include <tuple>

#include "gpu/cuda/attention/attention.h"
#include "gpu/cuda/gemm/gemm.h"
#include "gpu/cuda/rows/embedding.h"
#include "gpu/cuda/rows/rows.h"
#include "tests/gpu/cuda_rig.h"
#include "tests/gpu/kernel_inputs.h"

namespace reprise::gpu::cuda {
namespace {

using test::from_bf16;
using test::Random;
using test::random_bf16;

using CudaLeftRowsTest = test::CudaRig<testing::Test>;

// The first GEMM outputs deferred rows, the second applies their norm.
TEST_F(CudaLeftRowsTest, ANormThatIsLeftToTheNextProductIsTheNorm) {
  Random random(12);
  const int most = 130;
  for (const auto& [inner, hidden, half] :
       {std::tuple{72, 32, 24}, {2048, 1024, 3584}, {520, 1056, 512}, {136, 3104, 1600}}) {
    const int n = 2 * half;
    const auto elements = static_cast<std::size_t>(most) * static_cast<std::size_t>(hidden);
    const DeviceBytes w_first = upload(random_bf16(random, static_cast<std::size_t>(hidden) * inner));
    const DeviceBytes w_second = upload(random_bf16(random, static_cast<std::size_t>(n) * hidden));
    const DeviceWeight first{
        .format = &kBf16OnDevice, .data = w_first.data(), .rows = hidden, .columns = inner};
    const DeviceWeight second{
        .format = &kBf16OnDevice, .data = w_second.data(), .rows = n, .columns = hidden};
    const DeviceBytes mixed = upload(random_bf16(random, static_cast<std::size_t>(most) * inner));
    const std::vector<float> before = random.floats(elements);
    const DeviceBytes norm_weight = upload(random.floats(hidden));
    const RowNorm norm{.weight = norm_weight.as<const float>(), .offset = 1.0F, .eps = 1e-6F};
    const DeviceBytes stream = upload(before);
    const DeviceBytes apart = upload(before);
    const DeviceBytes left(elements * sizeof(Bf16));
    const DeviceBytes squares(elements / 8 * sizeof(float));
    const DeviceBytes normed(elements * sizeof(Bf16));
    const DeviceBytes y(static_cast<std::size_t>(most) * n * sizeof(Bf16));
    const DeviceBytes gated(static_cast<std::size_t>(most) * half * sizeof(Bf16));
    const DeviceBytes gated_apart(gated.size());
    const DeferredNormRows rows{.x = left.as<Bf16>(), .squares = squares.as<float>(), .eps = norm.eps};
    const GatedRows to{.y = gated.as<Bf16>(), .act = GateFunction::kSilu, .gate_factor = 1};
    const DeviceBytes wide(static_cast<std::size_t>(most) * n * sizeof(float));
    std::vector<Bf16> of_all;  // input rows of the second GEMM
    std::vector<float> of_all_wide;
    for (const int m : {most, 1, 3, 8, 9, 16, 17, 33, 64, 100}) {
      const auto outputs = static_cast<std::size_t>(m) * static_cast<std::size_t>(n);
      copy_to_device(stream.data(), before.data(), stream.size(), stream_->handle());
      copy_to_device(apart.data(), before.data(), apart.size(), stream_->handle());
      decode_bf16(mixed.as<const Bf16>(), m, first, apart.data(), GemmOutput::kAddF32, stream_->handle());
      decode_bf16_to_residual(mixed.as<const Bf16>(), m, first, stream.as<float>(),
                              {.to = rows, .norm = norm, .factor = 0.75F}, stream_->handle());
      ASSERT_EQ(download<float>(stream), download<float>(apart)) << m << " rows";
      decode_bf16_unscaled(rows, m, second, y.data(), GemmOutput::kBf16, stream_->handle());
      const std::vector<Bf16> got = download<Bf16>(y, outputs);
      decode_bf16_unscaled(rows, m, second, wide.data(), GemmOutput::kF32, stream_->handle());
      const std::vector<float> unrounded = download<float>(wide, outputs);
      std::vector<Bf16> rounded(outputs);
      test::plain().to_bf16(unrounded.data(), rounded.data(), outputs);
      ASSERT_EQ(rounded, got) << m << " rows, f32";
      if (of_all_wide.empty()) of_all_wide = unrounded;
      EXPECT_EQ(std::memcmp(unrounded.data(), of_all_wide.data(), outputs * sizeof(float)), 0)
          << m << " rows, f32";
      norm_for_decode(apart.as<const float>(), m, hidden, norm, 0.75F, normed.as<Bf16>(), stream_->handle());
      decode_bf16(normed.as<const Bf16>(), m, second, y.data(), GemmOutput::kBf16, stream_->handle());
      const std::vector<Bf16> wanted = download<Bf16>(y, outputs);
      for (std::size_t i = 0; i < outputs; ++i) {  // both are rounded, at different points
        const float near =
            0.03F * std::sqrt(static_cast<float>(hidden)) + std::abs(from_bf16(wanted[i])) / 64;
        ASSERT_NEAR(from_bf16(got[i]), from_bf16(wanted[i]), near) << m << " rows";
      }
      if (of_all.empty()) of_all = got;
      EXPECT_EQ(std::memcmp(got.data(), of_all.data(), outputs * sizeof(Bf16)), 0) << m << " rows";
      decode_bf16_unscaled(rows, m, second, y.data(), GemmOutput::kBf16, stream_->handle());
      decode_bf16_unscaled_gated(rows, m, second, to, stream_->handle());
      gate_rows(y.as<const Bf16>(), m, half, to.act, to.gate_factor, gated_apart.as<Bf16>(),
                stream_->handle());
      const auto kept = static_cast<std::size_t>(m) * static_cast<std::size_t>(half);
      EXPECT_EQ(download<Bf16>(gated, kept), download<Bf16>(gated_apart, kept)) << m << " rows, gated";
    }
  }
}

// An embedding's deferred rows must equal those of a GEMM that adds zero to the same residual. Also checks
// the rope table.
TEST_F(CudaLeftRowsTest, AnEmbeddingLeavesWhatAProductWould) {
  Random random(13);
  const int words = 50;
  constexpr int kPairs = 24;
  const DeviceBytes inv_freq = upload(random.floats(kPairs));
  for (const auto& [hidden, factor] : {std::pair{32, 1.0F}, {1024, 1.0F}, {1056, 1.0F}, {2560, 12.5F}}) {
    const DeviceBytes halves = upload(random_bf16(random, static_cast<std::size_t>(words) * hidden));
    const DeviceWeight table{
        .format = &kBf16OnDevice, .data = halves.data(), .rows = words, .columns = hidden};
    constexpr int kInner = 8;
    const DeviceBytes zeros = upload(std::vector<Bf16>(static_cast<std::size_t>(hidden) * kInner));
    const DeviceWeight nothing{
        .format = &kBf16OnDevice, .data = zeros.data(), .rows = hidden, .columns = kInner};
    const DeviceBytes norm_weight = upload(random.floats(hidden));
    const RowNorm norm{.weight = norm_weight.as<const float>(), .offset = 1.0F, .eps = 1e-6F};
    for (const int m : {1, 7, 9, 33, 64}) {
      std::vector<std::int32_t> tokens(static_cast<std::size_t>(m));
      for (int i = 0; i < m; ++i) tokens[static_cast<std::size_t>(i)] = (i * 31 + 49) % words;
      const DeviceBytes on_tokens = upload(tokens);
      const auto elements = static_cast<std::size_t>(m) * static_cast<std::size_t>(hidden);
      const DeviceBytes mixed = upload(random_bf16(random, static_cast<std::size_t>(m) * kInner));
      const DeviceBytes stream(elements * sizeof(float));
      const DeviceBytes apart(stream.size());
      const DeviceBytes left(elements * sizeof(Bf16));
      const DeviceBytes left_apart(left.size());
      const DeviceBytes squares(elements / 8 * sizeof(float));
      const DeviceBytes squares_apart(squares.size());
      const auto next = [&](const DeviceBytes& x, const DeviceBytes& of) {
        return DeferredNormOutput{.to = {.x = x.as<Bf16>(), .squares = of.as<float>(), .eps = norm.eps},
                                  .norm = norm,
                                  .factor = 0.75F};
      };
      const DeviceBytes turns(static_cast<std::size_t>(m) * kPairs * 2 * sizeof(float));
      const DeviceBytes turns_apart(turns.size());
      const auto rope = [&](const DeviceBytes& to) {
        return RopeRows{.positions = on_tokens.as<const std::int32_t>(),
                        .inv_freq = inv_freq.as<const float>(),
                        .pairs = kPairs,
                        .factor = 1.25F,
                        .cosine = to.as<float>(),
                        .sine = to.as<float>() + static_cast<std::size_t>(m) * kPairs};
      };
      embed_bf16_to_residual(on_tokens.as<const std::int32_t>(), m, table, factor, stream.as<float>(),
                             next(left, squares), rope(turns), stream_->handle());
      rope_table(rope(turns_apart), m, stream_->handle());
      embed(on_tokens.as<const std::int32_t>(), m, table, apart.as<float>(), stream_->handle());
      scale(apart.as<float>(), m, hidden, factor, 0, stream_->handle());
      decode_bf16_to_residual(mixed.as<const Bf16>(), m, nothing, apart.as<float>(),
                              next(left_apart, squares_apart), stream_->handle());
      EXPECT_EQ(download<float>(stream), download<float>(apart)) << m << " rows of " << hidden;
      EXPECT_EQ(download<Bf16>(left), download<Bf16>(left_apart)) << m << " rows of " << hidden;
      EXPECT_EQ(download<float>(squares), download<float>(squares_apart)) << m << " rows of " << hidden;
      EXPECT_EQ(download<float>(turns), download<float>(turns_apart)) << m << " rows of " << hidden;
    }
  }
}

TEST_F(CudaLeftRowsTest, SomeOfThemArePicked) {
  Random random(14);
  const int rows = 40;
  const int size = 1056;
  const auto eights = static_cast<std::size_t>(size) / 8;
  const std::vector<Bf16> x = random_bf16(random, rows * static_cast<std::size_t>(size));
  const std::vector<float> squares = random.floats(rows * eights);
  const DeviceBytes on_x = upload(x);
  const DeviceBytes on_squares = upload(squares);
  const std::vector<std::int32_t> picked = {0, 3, 4, 17, 39};
  const DeviceBytes on_picked = upload(picked);
  const DeviceBytes to_x(picked.size() * size * sizeof(Bf16));
  const DeviceBytes to_squares(picked.size() * eights * sizeof(float));
  pick_rows({.x = on_x.as<Bf16>(), .squares = on_squares.as<float>()}, on_picked.as<const std::int32_t>(),
            static_cast<int>(picked.size()), size, {.x = to_x.as<Bf16>(), .squares = to_squares.as<float>()},
            stream_->handle());
  const std::vector<Bf16> got_x = download<Bf16>(to_x);
  const std::vector<float> got_squares = download<float>(to_squares);
  for (std::size_t i = 0; i < picked.size(); ++i) {
    const auto row = static_cast<std::size_t>(picked[i]);
    EXPECT_TRUE(std::equal(x.begin() + row * size, x.begin() + (row + 1) * size, got_x.begin() + i * size));
    EXPECT_TRUE(std::equal(squares.begin() + row * eights, squares.begin() + (row + 1) * eights,
                           got_squares.begin() + i * eights));
  }
}

}  // namespace
}  // namespace reprise::gpu::cuda
