// Kernels around recurrences on a GPU (convolutions, inputs, gates) compared with the plain CPU kernels, and
// bitwise with themselves however sequences are sliced and batched.

#include "gpu/cuda/recurrence/causal_conv.h"
#include "gpu/cuda/recurrence/mamba2.h"
#include "gpu/cuda/recurrence/selective_scan.h"
#include "tests/gpu/cuda_scan_rig.h"

namespace reprise::gpu::test {
namespace {

/// Rows are bf16 or f32.
class CudaScans : public CudaScan {
 protected:
  template <class Row, class Y>
  void convolutions();
  template <class Row>
  void inputs_of_scans();
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
  for (const auto gating : {cuda::Mamba2Gating::kGateThenNorm, cuda::Mamba2Gating::kNormThenGate,
                            cuda::Mamba2Gating::kGateAlone}) {
    cuda::gate_mamba2(kFew, kGroups, kSize,
                      cuda::Mamba2GatePass<Row>{.y = on_y.as<float>(),
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
        const auto normalize = [&] {
          plain().rms_norm(part, norm.data() + group * kSize, 0.0F, 1e-5F, part, 1, kSize, kSize);
        };
        if (gating == cuda::Mamba2Gating::kNormThenGate) normalize();
        plain().gate_silu(gate.data(), part, kSize);
        if (gating == cuda::Mamba2Gating::kGateThenNorm) normalize();
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
