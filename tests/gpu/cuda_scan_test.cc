// Recurrences and convolutions on a GPU: against the plain CPU kernels, and against themselves, bit by bit, however
// sequences are cut and batched. Without a GPU all of it is skipped.

#include <limits>
#include <utility>

#include "gpu/cuda/causal_conv.h"
#include "gpu/cuda/mamba2.h"
#include "gpu/cuda/selective_scan.h"
#include "tests/gpu/cuda_scan_rig.h"

namespace reprise::gpu::test {
namespace {

/// Of rows of bf16 and of f32.
class CudaScans : public CudaScan {
 protected:
  template <class Row, class Y>
  void convolutions();
  template <class Row>
  void selective_scans();
  template <class Row>
  void inputs_of_scans();
  template <class Row>
  void the_recurrence_of_mamba2();
  template <class Row>
  void gates_and_norms_of_mamba2();
};

template <class Row, class Y>
void CudaScans::convolutions() {
  Random random(1);
  constexpr std::size_t kChannels = 37;
  constexpr std::size_t kStride = 50;
  const std::vector<Row> x = as_rows<Row>(random.floats(kRows * kStride));
  const std::vector<float> wide = widened(x);
  const DeviceBytes on_x = upload(x);
  for (const std::size_t taps : {1U, 2U, 4U, 5U}) {
    for (const bool silu : {true, false}) {
      SCOPED_TRACE(std::to_string(taps) + (silu ? " taps, silu" : " taps"));
      const std::vector<float> weight = random.floats(taps * kChannels);
      const std::vector<float> bias = random.floats(kChannels);
      const std::vector<float> slot = random.floats((taps - 1) * kChannels);
      const DeviceBytes on_weight = upload(weight);
      const DeviceBytes on_bias = upload(bias);
      const auto got = same_however_cut<Y>(slot, kChannels, [&](const Batch& batch, std::size_t first, Y* y) {
        cuda::causal_conv({.channels = static_cast<int>(kChannels),
                           .taps = static_cast<int>(taps),
                           .silu = silu,
                           .state_offset = 0},
                          batch,
                          cuda::CausalConvPass<Row>{.x = on_x.as<Row>() + first * kStride,
                                                    .stride = static_cast<int>(kStride),
                                                    .weight = on_weight.as<float>(),
                                                    .bias = silu ? on_bias.as<float>() : nullptr},
                          y, stream_->handle());
      });
      std::vector<float> state = slot;
      std::vector<float> y(kTokens * kChannels);
      plain().causal_conv({.state = state.data(),
                           .weight = weight.data(),
                           .x = wide.data(),
                           .y = y.data(),
                           .channels = kChannels,
                           .taps = taps,
                           .tokens = kTokens,
                           .x_stride = kStride,
                           .bias = silu ? bias.data() : nullptr,
                           .silu = silu},
                          0, kChannels);
      expect_near(widened(got.y), y, tolerance_of<Y>(5e-3F, 1e-5F), "y");
      EXPECT_TRUE(same_bits(got.slot, state));
    }
  }
}
TEST_F(CudaScans, Convolutions) {
  convolutions<Bf16, float>();
  convolutions<Bf16, Bf16>();
}
TEST_F(CudaScans, ConvolutionsOfF32) {
  convolutions<float, float>();
}

template <class Row>
void CudaScans::selective_scans() {
  Random random(2);
  for (const auto& [channels, size] : {std::pair<std::size_t, std::size_t>{8, 16},
                                       {37, 16},
                                       {24, 3},
                                       {40, 32},
                                       {16, 50},
                                       {9, 100},
                                       {8, 256}}) {
    SCOPED_TRACE(std::to_string(channels) + " channels of " + std::to_string(size));
    const std::size_t numbers = (channels + kLanes - 1) / kLanes * kLanes * size;
    std::vector<float> slot = random.floats(numbers);
    std::vector<float> a = random.between(numbers, -4.0F, -0.01F);
    for (std::size_t i = 0; i < numbers; ++i) {  // what fills up the last group
      if (i / (size * kLanes) * kLanes + i % kLanes >= channels) slot[i] = a[i] = 0;
    }
    std::vector<float> a_of_two = a;
    for (float& value : a_of_two) value *= 1.44269504F;
    const std::vector<float> skip = random.floats(channels);
    const std::vector<Row> x = as_rows<Row>(random.floats(kRows * channels));
    const std::vector<float> step = random.between(kRows * (channels + 3), -12.0F, 4.0F);
    const std::vector<float> bc = random.floats(kRows * (2 * size + 5));
    const std::vector<Row> gate = as_rows<Row>(random.floats(kRows * (channels + 7)));
    const DeviceBytes on_a = upload(a_of_two);
    const DeviceBytes on_skip = upload(skip);
    const DeviceBytes on_x = upload(x);
    const DeviceBytes on_step = upload(step);
    const DeviceBytes on_bc = upload(bc);
    const DeviceBytes on_gate = upload(gate);
    const cuda::SelectiveScanShape shape{.channels = static_cast<int>(channels),
                                         .state_size = static_cast<int>(size),
                                         .step_rank = 1,
                                         .state_offset = 0};
    ASSERT_TRUE(cuda::selective_scan_supports(shape));
    const auto got =
        same_however_cut<Row>(slot, channels, [&](const Batch& batch, std::size_t first, Row* y) {
          cuda::selective_scan(
              shape, batch,
              cuda::SelectiveScanPass<Row>{.a = on_a.as<float>(),
                                           .skip = on_skip.as<float>(),
                                           .x = on_x.as<Row>() + first * channels,
                                           .step = on_step.as<float>() + first * (channels + 3),
                                           .step_stride = static_cast<int>(channels + 3),
                                           .b = on_bc.as<float>() + first * (2 * size + 5),
                                           .bc_stride = static_cast<int>(2 * size + 5),
                                           .gate = on_gate.as<Row>() + first * (channels + 7),
                                           .gate_stride = static_cast<int>(channels + 7),
                                           .out = y},
              stream_->handle());
        });
    std::vector<float> dense;  // the CPU has steps without a stride
    for (std::size_t row = 0; row < kTokens; ++row) {
      const float* from = step.data() + row * (channels + 3);
      dense.insert(dense.end(), from, from + channels);
    }
    std::vector<float> y(kTokens * channels);
    const std::vector<float> wide_x = widened(x);
    const std::vector<float> wide_gate = widened(gate);
    plain().selective_scan({.state = slot.data(),
                            .a = a.data(),
                            .skip = skip.data(),
                            .channels = channels,
                            .state_size = size,
                            .tokens = kTokens,
                            .x = wide_x.data(),
                            .step = dense.data(),
                            .b = bc.data(),
                            .c = bc.data() + size,
                            .bc_stride = 2 * size + 5,
                            .gate = wide_gate.data(),
                            .gate_stride = channels + 7,
                            .y = y.data()},
                           0, channels);
    expect_near(widened(got.y), y, tolerance_of<Row>(1e-2F, 1e-4F), "y");
    expect_near(got.slot, slot, 1e-4F, "the state");
  }
}
TEST_F(CudaScans, SelectiveScans) {
  selective_scans<Bf16>();
}
TEST_F(CudaScans, SelectiveScansOfF32) {
  selective_scans<float>();
}

template <class Row>
void CudaScans::inputs_of_scans() {
  Random random(5);
  constexpr std::size_t kRank = 37;
  constexpr std::size_t kSize = 16;
  constexpr std::size_t kStride = kRank + 2 * kSize + 3;
  constexpr std::size_t kLowStride = 48;
  constexpr std::size_t kFew = 5;  // rows
  const std::vector<float> x = random.floats(kFew * kStride);
  const std::vector<float> weights[] = {random.floats(kRank), random.floats(kSize), random.floats(kSize)};
  const DeviceBytes on_weights[] = {upload(weights[0]), upload(weights[1]), upload(weights[2])};
  for (const bool normed : {true, false}) {
    const DeviceBytes on_x = upload(x);
    const DeviceBytes low(kFew * kLowStride * sizeof(Row));
    cuda::fill(low.data(), 0xff, low.size(), stream_->handle());
    cuda::ScanNormWeights norms{};
    if (normed) {
      norms = {.dt = on_weights[0].as<float>(),
               .b = on_weights[1].as<float>(),
               .c = on_weights[2].as<float>(),
               .offset = 1,
               .eps = 1e-5F};
    }
    cuda::separate_scan_inputs({.channels = 8,
                                .state_size = static_cast<int>(kSize),
                                .step_rank = static_cast<int>(kRank),
                                .state_offset = 0},
                               norms, static_cast<int>(kFew), on_x.as<float>(), static_cast<int>(kStride),
                               low.as<Row>(), static_cast<int>(kLowStride), stream_->handle());
    std::vector<float> wanted = x;
    std::vector<float> wanted_low(kFew * kLowStride);
    for (std::size_t row = 0; row < kFew; ++row) {
      float* own = wanted.data() + row * kStride;
      float* of_low = wanted_low.data() + row * kLowStride;
      std::copy(own, own + kRank, of_low);
      if (!normed) continue;
      plain().rms_norm(of_low, weights[0].data(), 1.0F, 1e-5F, of_low, 1, kRank, kRank);
      float* b = own + kRank;
      float* c = b + kSize;
      plain().rms_norm(b, weights[1].data(), 1.0F, 1e-5F, b, 1, kSize, kSize);
      plain().rms_norm(c, weights[2].data(), 1.0F, 1e-5F, c, 1, kSize, kSize);
    }
    expect_near(download<float>(on_x, x.size()), wanted, 1e-5F, "B and C");
    expect_near(widened(download<Row>(low, wanted_low.size())), wanted_low, tolerance_of<Row>(5e-3F, 1e-5F),
                "dt");
  }
}
TEST_F(CudaScans, InputsOfSelectiveScans) {
  inputs_of_scans<Bf16>();
  inputs_of_scans<float>();
}

template <class Row>
void CudaScans::the_recurrence_of_mamba2() {
  Random random(3);
  struct Sizes {
    int heads, head_dim, groups, state_size;
  };
  for (const Sizes& sizes :
       {Sizes{4, 16, 1, 16}, {4, 12, 2, 24}, {2, 64, 1, 128}, {3, 8, 3, 64}, {2, 16, 2, 256}}) {
    SCOPED_TRACE(std::to_string(sizes.heads) + " heads of " + std::to_string(sizes.head_dim) + ", " +
                 std::to_string(sizes.state_size));
    const cuda::SsdShape shape{.heads = sizes.heads,
                               .head_dim = sizes.head_dim,
                               .groups = sizes.groups,
                               .state_size = sizes.state_size,
                               .state_offset = 0};
    ASSERT_TRUE(cuda::ssd_supports(shape));
    const auto heads = static_cast<std::size_t>(sizes.heads);
    const auto dim = static_cast<std::size_t>(sizes.head_dim);
    const auto size = static_cast<std::size_t>(sizes.state_size);
    const auto channels = static_cast<std::size_t>(shape.channels());
    const std::size_t inner = heads * dim;
    const std::size_t step_stride = heads + 3;
    const std::vector<float> slot = random.floats(heads * size * dim);
    const std::vector<float> mixed = random.floats(kRows * channels);
    const std::vector<Row> step = as_rows<Row>(random.between(kRows * step_stride, -8.0F, 3.0F));
    const std::vector<float> wide_step = widened(step);
    const std::vector<float> dt_bias = random.floats(heads);
    const std::vector<float> decay = random.between(heads, 0.01F, 4.0F);
    const std::vector<float> skip = random.floats(heads);
    const DeviceBytes on_mixed = upload(mixed);
    const DeviceBytes on_step = upload(step);
    const DeviceBytes on_dt_bias = upload(dt_bias);
    const DeviceBytes on_decay = upload(decay);
    const DeviceBytes on_skip = upload(skip);
    const float most = sizes.groups == 1 ? std::numeric_limits<float>::infinity() : 1.5F;
    const auto got =
        same_however_cut<float>(slot, inner, [&](const Batch& batch, std::size_t first, float* y) {
          cuda::ssd(shape, batch,
                    cuda::SsdPass<Row>{.mixed = on_mixed.as<float>() + first * channels,
                                       .step = on_step.as<Row>() + first * step_stride,
                                       .step_stride = static_cast<int>(step_stride),
                                       .dt_bias = on_dt_bias.as<float>(),
                                       .decay = on_decay.as<float>(),
                                       .skip = on_skip.as<float>(),
                                       .dt_scale = 1.25F,
                                       .dt_min = 0.001F,
                                       .dt_max = most,
                                       .out = y},
                    stream_->handle());
        });
    std::vector<float> state = slot;
    std::vector<float> y(kTokens * inner);
    for (std::size_t head = 0; head < heads; ++head) {
      const std::size_t group = head / (heads / static_cast<std::size_t>(sizes.groups));
      const float* b = mixed.data() + inner + group * size;
      plain().ssd({.state = state.data() + head * size * dim,
                   .state_size = size,
                   .head_dim = dim,
                   .tokens = kTokens,
                   .x = mixed.data() + head * dim,
                   .b = b,
                   .c = b + static_cast<std::size_t>(sizes.groups) * size,
                   .stride = channels,
                   .step = wide_step.data() + head,
                   .step_stride = step_stride,
                   .dt_scale = 1.25F,
                   .dt_bias = dt_bias[head],
                   .dt_min = 0.001F,
                   .dt_max = most,
                   .decay = decay[head],
                   .skip = skip[head],
                   .y = y.data() + head * dim,
                   .y_stride = inner});
    }
    expect_near(got.y, y, 1e-4F, "y");
    expect_near(got.slot, state, 1e-4F, "the state");
  }
}
TEST_F(CudaScans, TheRecurrenceOfMamba2) {
  the_recurrence_of_mamba2<Bf16>();
}
TEST_F(CudaScans, TheRecurrenceOfMamba2OverF32) {
  the_recurrence_of_mamba2<float>();
}

template <class Row>
void CudaScans::gates_and_norms_of_mamba2() {
  Random random(4);
  constexpr std::size_t kSize = 40;
  constexpr std::size_t kGroups = 3;
  constexpr std::size_t kStride = kGroups * kSize + 11;
  constexpr std::size_t kFew = 6;  // rows
  const std::vector<float> y = random.floats(kFew * kGroups * kSize);
  const std::vector<Row> z = as_rows<Row>(random.floats(kFew * kStride));
  const std::vector<float> wide_z = widened(z);
  const std::vector<float> norm = random.floats(kGroups * kSize);
  const DeviceBytes on_y = upload(y);
  const DeviceBytes on_z = upload(z);
  const DeviceBytes on_norm = upload(norm);
  const DeviceBytes out(y.size() * sizeof(Row));
  for (const auto gating :
       {cuda::SsdGating::kGateThenNorm, cuda::SsdGating::kNormThenGate, cuda::SsdGating::kGateAlone}) {
    cuda::gate_ssd(kFew, kGroups, kSize,
                   cuda::SsdGatePass<Row>{.y = on_y.as<float>(),
                                          .z = on_z.as<Row>(),
                                          .z_stride = static_cast<int>(kStride),
                                          .z_scale = 0.75F,
                                          .norm = on_norm.as<float>(),
                                          .norm_offset = 0,
                                          .norm_eps = 1e-5F,
                                          .gating = gating,
                                          .out = out.as<Row>()},
                   stream_->handle());
    std::vector<float> wanted = y;
    for (std::size_t row = 0; row < kFew; ++row) {
      for (std::size_t group = 0; group < kGroups; ++group) {
        float* part = wanted.data() + (row * kGroups + group) * kSize;
        std::vector<float> gate;
        for (std::size_t i = 0; i < kSize; ++i) {
          gate.push_back(0.75F * wide_z[row * kStride + group * kSize + i]);
        }
        const auto normalise = [&] {
          plain().rms_norm(part, norm.data() + group * kSize, 0.0F, 1e-5F, part, 1, kSize, kSize);
        };
        if (gating == cuda::SsdGating::kNormThenGate) normalise();
        plain().gate_silu(gate.data(), part, kSize);
        if (gating == cuda::SsdGating::kGateThenNorm) normalise();
      }
    }
    expect_near(widened(download<Row>(out, y.size())), wanted, tolerance_of<Row>(5e-3F, 2e-5F), "gated");
  }
}
TEST_F(CudaScans, GatesAndNormsOfMamba2) {
  gates_and_norms_of_mamba2<Bf16>();
  gates_and_norms_of_mamba2<float>();
}

}  // namespace
}  // namespace reprise::gpu::test
