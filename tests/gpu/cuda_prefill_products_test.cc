// Prefill GEMMs with wgmma compared with other GEMMs; their bits depend neither on the number of rows nor on
// the tile size.

#include <cmath>

#include "gpu/cuda/gemm/prefill_products.h"
#include "gpu/cuda/rows/rows.h"
#include "tests/gpu/cuda_rig.h"
#include "tests/gpu/kernel_inputs.h"
#include "tests/require.h"

namespace reprise::gpu::cuda {
namespace {

using test::Random;
using test::random_bf16;

struct WeightSizes {
  int outputs;
  int columns;
};

std::size_t elements_of(int rows, int columns) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
}

class CudaPrefillProducts : public test::CudaRig<testing::Test> {
 protected:
  // With 1,024 outputs, each kind of tile is used.
  static constexpr WeightSizes kHalved[] = {{1024, 2048}, {1024, 3584}, {128, 128}, {384, 1280}, {640, 512}};
  static constexpr int kMax = 2048;  // rows

  void SetUp() override {
    CudaRig::SetUp();
    if (stream_ && !can_use_split_k(1024, 1024)) {
      REPRISE_SKIP_WITHOUT("sm90",
                           "products by warpgroups want compute capability 9.0 and its shared memory");
    }
  }

  PrefillWeight weight(const DeviceBytes& rows, const WeightSizes& sizes, bool is_constant = true) {
    return {.rows = rows.as<const Bf16>(),
            .outputs = sizes.outputs,
            .columns = sizes.columns,
            .is_constant = is_constant};
  }
  DeviceBytes random_weight(const WeightSizes& sizes) {
    return upload(random_bf16(random_, elements_of(sizes.outputs, sizes.columns)));
  }
  std::vector<float> sums_from(const DeviceBytes& x, int first, int m, const PrefillWeight& w) {
    const DeviceBytes y(elements_of(m, w.outputs) * sizeof(float));
    fill(y.data(), 0, y.size(), stream_->handle());
    add_split_k(x.as<const Bf16>() + elements_of(first, w.columns), m, w, y.as<float>(), stream_->handle());
    return download<float>(y);
  }

  Random random_{21};
};

TEST_F(CudaPrefillProducts, HalvesAreAddedToWhatIsThere) {
  for (const WeightSizes& sizes : kHalved) {
    ASSERT_TRUE(can_use_split_k(sizes.outputs, sizes.columns));
    const DeviceBytes w = random_weight(sizes);
    const DeviceWeight decoded{
        .format = &kBf16OnDevice, .data = w.data(), .rows = sizes.outputs, .columns = sizes.columns};
    for (const int m : {64, 192, 512, 1024}) {
      const DeviceBytes x = upload(random_bf16(random_, elements_of(m, sizes.columns)));
      const std::size_t count = elements_of(m, sizes.outputs);
      const DeviceBytes wanted(count * sizeof(float));
      const DeviceBytes y(count * sizeof(float));
      fill(y.data(), 0, y.size(), stream_->handle());
      decode_gemm(x.as<const Bf16>(), m, decoded, wanted.data(), GemmOutput::kF32, stream_->handle());
      const std::vector<float> expected = download<float>(wanted);
      add_split_k(x.as<const Bf16>(), m, weight(w, sizes), y.as<float>(), stream_->handle());
      const std::vector<float> once = download<float>(y);
      add_split_k(x.as<const Bf16>(), m, weight(w, sizes, false), y.as<float>(), stream_->handle());
      const std::vector<float> twice = download<float>(y);
      const double tolerance = 4e-5 * std::sqrt(sizes.columns);
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_NEAR(once[i], expected[i], tolerance)
            << m << " x " << sizes.outputs << " x " << sizes.columns << " at " << i;
        ASSERT_EQ(twice[i], once[i] + once[i]) << i;
      }
    }
  }
}

TEST_F(CudaPrefillProducts, SplitKRowsDoNotDependOnTheNumberOfRows) {
  for (const WeightSizes& sizes : kHalved) {
    const DeviceBytes w = random_weight(sizes);
    const DeviceBytes x = upload(random_bf16(random_, elements_of(kMax, sizes.columns)));
    const std::vector<float> all = sums_from(x, 0, kMax, weight(w, sizes));
    for (const auto& [first, m] : {std::pair{0, 64},
                                   {64, 64},
                                   {128, 128},
                                   {64, 192},
                                   {0, 256},
                                   {256, 320},
                                   {512, 512},
                                   {64, 960},
                                   {1024, 1024}}) {
      const std::vector<float> some = sums_from(x, first, m, weight(w, sizes));
      const auto from = all.begin() + static_cast<std::ptrdiff_t>(elements_of(first, sizes.outputs));
      ASSERT_TRUE(std::equal(some.begin(), some.end(), from))
          << m << " rows of " << sizes.outputs << " x " << sizes.columns << " from " << first;
    }
  }
}

TEST_F(CudaPrefillProducts, GatesOnTheWayHaveTheBitsOfThoseBehind) {
  for (const WeightSizes& sizes :
       {WeightSizes{7168, 1024}, {48, 64}, {1024, 1088}, {3200, 2112}, {272, 40}}) {
    ASSERT_TRUE(can_use_gated_prefill(sizes.outputs, sizes.columns));
    const int half = sizes.outputs / 2;
    const DeviceBytes w = random_weight(sizes);
    const DeviceWeight whole{
        .format = &kBf16OnDevice, .data = w.data(), .rows = sizes.outputs, .columns = sizes.columns};
    PrefillGemm gemm;
    gemm.admit(std::span(&whole, 1), GemmOutput::kBf16, kMaxGatedRows);
    for (const int m : {64, 128, 192, 256, 320, 512, 1216}) {
      const DeviceBytes x = upload(random_bf16(random_, elements_of(m, sizes.columns)));
      const DeviceBytes y(elements_of(m, sizes.outputs) * sizeof(Bf16));
      const DeviceBytes gated(elements_of(m, half) * sizeof(Bf16));
      const DeviceBytes separate(gated.size());
      gemm.multiply(x.as<const Bf16>(), m, whole, y.data(), GemmOutput::kBf16, stream_->handle());
      for (const GateFunction act : {GateFunction::kSilu, GateFunction::kGelu}) {
        gate_rows(y.as<const Bf16>(), m, half, act, 0.5F, separate.as<Bf16>(), stream_->handle());
        multiply_gated_prefill(x.as<const Bf16>(), m, weight(w, sizes, act == GateFunction::kSilu),
                               GatedRows{.y = gated.as<Bf16>(), .act = act, .gate_factor = 0.5F},
                               stream_->handle());
        ASSERT_EQ(download<Bf16>(gated), download<Bf16>(separate))
            << m << " rows of " << sizes.outputs << " x " << sizes.columns;
      }
    }
  }
}

TEST_F(CudaPrefillProducts, GatesAreTakenOnTheWayOfAdmittedProductsAlone) {
  const WeightSizes sizes{512, 256};
  const DeviceBytes w = random_weight(sizes);
  const DeviceWeight whole{
      .format = &kBf16OnDevice, .data = w.data(), .rows = sizes.outputs, .columns = sizes.columns};
  PrefillGemm gemm;
  EXPECT_FALSE(gemm.gates(std::span(&whole, 1), 64));
  ASSERT_TRUE(gemm.admit(std::span(&whole, 1), GemmOutput::kBf16, 2 * kMaxGatedRows));
  EXPECT_TRUE(gemm.gates(std::span(&whole, 1), 64));
  EXPECT_TRUE(gemm.gates(std::span(&whole, 1), kMaxGatedRows));
  EXPECT_FALSE(gemm.gates(std::span(&whole, 1), kMaxGatedRows + 1));
}

}  // namespace
}  // namespace reprise::gpu::cuda
