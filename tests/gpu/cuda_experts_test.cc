// MoE on a GPU: the router compared with the CPU's, routed rows with their definition, and the GEMM of each
// routed row bitwise with that of its expert alone.

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include "gpu/cuda/experts/experts.h"
#include "gpu/cuda/gemm/gemm.h"
#include "gpu/cuda/memory/stream.h"
#include "tests/gpu/cuda_rig.h"
#include "tests/gpu/kernel_inputs.h"

namespace reprise::gpu::cuda {
namespace {

using test::Random;

class CudaExperts : public test::CudaRig<testing::Test> {
 protected:
  std::vector<Bf16> halves(std::size_t count) { return test::random_bf16(random_, count); }

  Random random_{3};
};

RouterShape shape_of(int routed, int experts, int chosen) {
  return {.routed = routed,
          .experts = experts,
          .chosen = chosen,
          .normalized = true,
          .scores = RouterScores::kSoftmax,
          .groups = 1,
          .chosen_groups = 1,
          .epsilon = 0,
          .scale = 1};
}

TEST_F(CudaExperts, AreChosenAsOnTheCpu) {
  constexpr int kRows = 70;
  std::vector<RouterShape> shapes = {shape_of(8, 8, 2), shape_of(256, 256, 8), shape_of(1000, 1000, 32),
                                     shape_of(20, 16, 3)};
  shapes.push_back(shape_of(64, 64, 6));
  shapes.back().scores = RouterScores::kSigmoid;
  shapes.back().groups = 8;
  shapes.back().chosen_groups = 3;
  shapes.back().epsilon = 1e-20F;
  shapes.back().scale = 2.5F;
  shapes.push_back(shape_of(40, 40, 5));
  shapes.back().normalized = false;
  for (const RouterShape& shape : shapes) {
    for (const bool has_bias : {false, true}) {
      const auto routed = static_cast<std::size_t>(shape.routed);
      std::vector<float> logits = random_.floats(kRows * routed);
      logits[5] = logits[1];  // a tie: the lower index wins
      const std::vector<float> bias = random_.floats(routed);
      const DeviceBytes on_logits = upload(logits);
      const DeviceBytes on_bias = upload(bias);
      const DeviceBytes memory(RoutedRows::bytes(kRows, shape));
      const RoutedRows routed_rows = RoutedRows::in(memory.data(), kRows, shape);
      route_rows(shape, on_logits.as<const float>(), shape.routed,
                 has_bias ? on_bias.as<const float>() : nullptr, kRows, routed_rows, stream_->handle());
      const auto count = static_cast<std::size_t>(shape.chosen);
      const auto chosen = download<std::int32_t>(routed_rows.chosen, kRows * count);
      const auto weights = download<float>(routed_rows.weights, kRows * count);
      for (std::size_t row = 0; row < kRows; ++row) {
        std::vector<std::uint32_t> expected(count);
        std::vector<float> expected_weights(count);
        std::vector<float> scratch(2 * routed + static_cast<std::size_t>(shape.groups));
        test::plain().route_experts({.logits = logits.data() + row * routed,
                                     .experts = routed,
                                     .chosen = count,
                                     .normalized = shape.normalized,
                                     .scores = shape.scores,
                                     .bias = has_bias ? bias.data() : nullptr,
                                     .groups = static_cast<std::size_t>(shape.groups),
                                     .chosen_groups = static_cast<std::size_t>(shape.chosen_groups),
                                     .epsilon = shape.epsilon,
                                     .scale = shape.scale,
                                     .scratch = scratch.data(),
                                     .expert = expected.data(),
                                     .weight = expected_weights.data()});
        for (std::size_t i = 0; i < count; ++i) {
          ASSERT_EQ(static_cast<std::uint32_t>(chosen[row * count + i]), expected[i])
              << "row " << row << " of " << shape.routed << " experts";
          ASSERT_NEAR(weights[row * count + i], expected_weights[i], 1e-5F * shape.scale);
        }
      }
    }
  }
}

TEST_F(CudaExperts, FewRowsAreRoutedAndPlacedAsMany) {
  for (const RouterShape& shape : {shape_of(8, 8, 2), shape_of(256, 256, 8), shape_of(14, 9, 6)}) {
    for (const int rows : {1, 2, 3}) {
      const DeviceBytes logits = upload(random_.floats(static_cast<std::size_t>(rows * shape.routed)));
      const DeviceBytes memory(RoutedRows::bytes(rows, shape));
      const DeviceBytes other(RoutedRows::bytes(rows, shape));
      const RoutedRows a = RoutedRows::in(memory.data(), rows, shape);
      const RoutedRows b = RoutedRows::in(other.data(), rows, shape);
      route_and_sort(shape, logits.as<const float>(), shape.routed, nullptr, rows, a, stream_->handle());
      route_rows(shape, logits.as<const float>(), shape.routed, nullptr, rows, b, stream_->handle());
      sort_rows(shape, rows, b, stream_->handle());
      const auto same = [&](const std::int32_t* ours, const std::int32_t* theirs, int count) {
        return download<std::int32_t>(ours, static_cast<std::size_t>(count)) ==
               download<std::int32_t>(theirs, static_cast<std::size_t>(count));
      };
      const int choices = rows * shape.chosen;
      EXPECT_TRUE(same(a.chosen, b.chosen, choices));
      EXPECT_TRUE(same(a.routed_row, b.routed_row, choices));
      ASSERT_TRUE(same(a.tile_count, b.tile_count, 1));
      const int routed_rows = download<std::int32_t>(b.first + shape.experts, 1).front();
      const int tiles = download<std::int32_t>(a.tile_count, 1).front();
      EXPECT_TRUE(same(a.row_at, b.row_at, routed_rows));
      EXPECT_EQ(download<ExpertTile>(a.tile_at, static_cast<std::size_t>(tiles)),
                download<ExpertTile>(b.tile_at, static_cast<std::size_t>(tiles)));
    }
  }
}

TEST_F(CudaExperts, RowsThatAreNoNumbersChooseSomeAllTheSame) {
  const RouterShape shape = shape_of(12, 12, 4);
  const DeviceBytes logits = upload(std::vector<float>(24, std::numeric_limits<float>::quiet_NaN()));
  const DeviceBytes memory(RoutedRows::bytes(2, shape));
  const RoutedRows routed_rows = RoutedRows::in(memory.data(), 2, shape);
  route_rows(shape, logits.as<const float>(), 12, nullptr, 2, routed_rows, stream_->handle());
  EXPECT_EQ(download<std::int32_t>(routed_rows.chosen, 8),
            (std::vector<std::int32_t>{0, 1, 2, 3, 0, 1, 2, 3}));
}

/// Ascending and distinct within a row.
std::vector<std::int32_t> choices(Random& random, int rows, const RouterShape& shape) {
  std::vector<std::int32_t> out;
  for (int row = 0; row < rows; ++row) {
    std::vector<std::int32_t> own;
    while (static_cast<int>(own.size()) < shape.chosen) {
      // Some experts are chosen by nearly all rows, some by none.
      const auto expert = static_cast<std::int32_t>(
          random.coin() ? random.size(0, 2) : random.size(0, static_cast<std::size_t>(shape.routed) - 2));
      if (std::find(own.begin(), own.end(), expert) == own.end()) own.push_back(expert);
    }
    std::sort(own.begin(), own.end());
    out.insert(out.end(), own.begin(), own.end());
  }
  return out;
}

TEST_F(CudaExperts, PlacesProductsAndSumsAreThoseOfEachRow) {
  constexpr int kColumns = 128;
  constexpr int kInner = 24;
  const RouterShape shape = shape_of(14, 12, 3);  // two zero experts
  const auto per_row = static_cast<std::size_t>(shape.chosen);
  const std::vector<Bf16> all = halves(static_cast<std::size_t>(shape.experts) * 2 * kInner * kColumns);
  const DeviceBytes on_all = upload(all);
  const ExpertWeights weights{
      .one = {.format = &kBf16OnDevice, .data = on_all.data(), .rows = 2 * kInner, .columns = kColumns},
      .bytes = kBf16OnDevice.bytes(2 * kInner, kColumns)};
  for (const int rows : {1, 5, 63, 64, 200}) {
    SCOPED_TRACE(rows);
    const std::vector<std::int32_t> chosen = choices(random_, rows, shape);
    const std::vector<float> own_weights = random_.floats(chosen.size());
    const DeviceBytes memory(RoutedRows::bytes(rows, shape));
    const RoutedRows routed_rows = RoutedRows::in(memory.data(), rows, shape);
    ASSERT_EQ(routed_rows.tile_rows, rows * 3 >= 16 * 12 ? 64 : 8);
    copy_to_device(reinterpret_cast<std::byte*>(routed_rows.chosen), chosen.data(), chosen.size() * 4,
                   stream_->handle());
    copy_to_device(reinterpret_cast<std::byte*>(routed_rows.weights), own_weights.data(), chosen.size() * 4,
                   stream_->handle());
    sort_rows(shape, rows, routed_rows, stream_->handle());
    const auto routed_row = download<std::int32_t>(routed_rows.routed_row, chosen.size());
    const auto row_at = download<std::int32_t>(routed_rows.row_at, chosen.size());
    std::int32_t next = 0;
    for (int expert = 0; expert < shape.experts; ++expert) {
      for (std::size_t i = 0; i < chosen.size(); ++i) {
        if (chosen[i] != expert) continue;
        ASSERT_EQ(routed_row[i], next);
        ASSERT_EQ(row_at[static_cast<std::size_t>(next)], static_cast<std::int32_t>(i / per_row));
        ++next;
      }
    }
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      ASSERT_EQ(routed_row[i] == -1, chosen[i] >= shape.experts);
    }

    const DeviceBytes x = upload(halves(static_cast<std::size_t>(rows) * kColumns));
    const DeviceBytes y(chosen.size() * 2 * kInner * sizeof(float));
    const DeviceBytes gated(chosen.size() * kInner * sizeof(Bf16));
    experts_product(x.as<const Bf16>(), false, weights, routed_rows, y.data(), GemmOutput::kF32,
                    stream_->handle());
    const GatedRows to{.y = gated.as<Bf16>(), .act = GateFunction::kSilu, .gate_factor = 1};
    experts_gated(x.as<const Bf16>(), weights, routed_rows, to, stream_->handle());
    const auto got = download<float>(y.data(), chosen.size() * 2 * kInner);
    const auto got_gated = download<Bf16>(gated.data(), chosen.size() * kInner);
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      if (routed_row[i] < 0) continue;
      DeviceWeight own = weights.one;
      own.data = on_all.data() + static_cast<std::size_t>(chosen[i]) * weights.bytes;
      const Bf16* row = x.as<const Bf16>() + i / per_row * kColumns;
      const DeviceBytes one(2 * kInner * sizeof(float));
      const DeviceBytes one_gated(kInner * sizeof(Bf16));
      decode_gemm(row, 1, own, one.data(), GemmOutput::kF32, stream_->handle());
      own.format->fused->gated(row, 1, own, {one_gated.as<Bf16>(), GateFunction::kSilu, 1},
                               stream_->handle());
      const auto at = static_cast<std::size_t>(routed_row[i]);
      const auto expected = download<float>(one.data(), 2 * kInner);
      const auto expected_gated = download<Bf16>(one_gated.data(), kInner);
      ASSERT_EQ(std::memcmp(got.data() + at * 2 * kInner, expected.data(), expected.size() * 4), 0) << i;
      ASSERT_EQ(std::memcmp(got_gated.data() + at * kInner, expected_gated.data(), 2 * kInner), 0) << i;
    }

    // The sum, with outputs as wide as x so that zero experts return x.
    const std::vector<float> outputs = random_.floats(chosen.size() * kColumns);
    const DeviceBytes on_outputs = upload(outputs);
    const auto before = random_.floats(static_cast<std::size_t>(rows) * kColumns);
    const DeviceBytes sums = upload(before);
    sum_experts(shape, routed_rows,
                ExpertSum<Bf16>{.outputs = on_outputs.as<const float>(),
                                .zero = x.as<const Bf16>(),
                                .shared = {},
                                .y = sums.as<float>(),
                                .adds = true},
                rows, kColumns, stream_->handle());
    const auto got_sums = download<float>(sums.data(), before.size());
    const auto on_host = download<Bf16>(x.data(), before.size());
    for (std::size_t i = 0; i < before.size(); ++i) {
      const std::size_t row = i / kColumns;
      float total = 0;
      for (std::size_t j = 0; j < per_row; ++j) {
        const std::int32_t at = routed_row[row * per_row + j];
        const float made = at < 0 ? test::from_bf16(on_host[i])
                                  : outputs[static_cast<std::size_t>(at) * kColumns + i % kColumns];
        total = std::fma(own_weights[row * per_row + j], made, total);
      }
      ASSERT_EQ(got_sums[i], before[i] + total) << i;
    }
  }
}

TEST_F(CudaExperts, ASharedExpertIsMultipliedWithTheChosenOnes) {
  constexpr int kColumns = 256;
  constexpr int kRows = 48;
  const RouterShape shape = shape_of(10, 10, 3);
  const DeviceBytes all = upload(halves(static_cast<std::size_t>(shape.experts) * kRows * kColumns));
  const DeviceBytes shared = upload(halves(static_cast<std::size_t>(kRows) * kColumns));
  const ExpertWeights weights{
      .one = {.format = &kBf16OnDevice, .data = all.data(), .rows = kRows, .columns = kColumns},
      .bytes = kBf16OnDevice.bytes(kRows, kColumns)};
  DeviceWeight alone = weights.one;
  alone.data = shared.data();
  for (const int rows : {1, 2}) {
    const DeviceBytes logits = upload(random_.floats(static_cast<std::size_t>(rows) * 10));
    const DeviceBytes memory(RoutedRows::bytes(rows, shape));
    const RoutedRows routed_rows = RoutedRows::in(memory.data(), rows, shape);
    ASSERT_TRUE(routed_rows.are_few());
    route_and_sort(shape, logits.as<const float>(), 10, nullptr, rows, routed_rows, stream_->handle());
    const DeviceBytes x = upload(halves(static_cast<std::size_t>(rows) * kColumns));
    const auto chosen = static_cast<std::size_t>(rows) * 3 * kRows;
    const auto of_all = static_cast<std::size_t>(rows) * kRows;
    const DeviceBytes apart(chosen * sizeof(float));
    const DeviceBytes wanted(of_all * sizeof(float));
    const DeviceBytes together((chosen + of_all) * sizeof(float));
    experts_product(x.as<const Bf16>(), false, weights, routed_rows, apart.data(), GemmOutput::kF32,
                    stream_->handle());
    decode_gemm(x.as<const Bf16>(), rows, alone, wanted.data(), GemmOutput::kF32, stream_->handle());
    ExpertWeights with_shared = weights;
    with_shared.shared = shared.data();
    experts_product(x.as<const Bf16>(), false, with_shared, routed_rows, together.data(), GemmOutput::kF32,
                    stream_->handle());
    EXPECT_TRUE(
        test::same_bits(download<float>(together.data(), chosen), download<float>(apart.data(), chosen)));
    EXPECT_TRUE(test::same_bits(download<float>(together.as<const float>() + chosen, of_all),
                                download<float>(wanted.data(), of_all)));
  }
}

}  // namespace
}  // namespace reprise::gpu::cuda
