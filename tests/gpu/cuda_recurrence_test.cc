// Block GEMMs and LayerNorm on a GPU compared with the plain CPU kernels.

#include "gpu/cuda/gemm/small_products.h"
#include "gpu/cuda/rows/rows.h"
#include "tests/gpu/cuda_scan_rig.h"

namespace reprise::gpu::test {
namespace {

using CudaRecurrence = CudaScan;

TEST_F(CudaRecurrence, ProductsOfBlocks) {
  Random random(31);
  struct Sizes {
    std::size_t blocks, inputs, outputs;
  };
  for (const Sizes& sizes : {Sizes{4, 16, 16}, {3, 70, 33}, {2, 256, 256}, {1, 5, 300}}) {
    SCOPED_TRACE(std::to_string(sizes.inputs) + " x " + std::to_string(sizes.outputs));
    constexpr std::size_t kMany = 37;
    const std::size_t x_row = sizes.blocks * (sizes.inputs + 3) + 1;
    const std::size_t y_row = sizes.blocks * (sizes.outputs + 2) + 5;
    const std::vector<float> x = random.floats(kMany * x_row);
    const std::vector<float> weight = random.floats(sizes.blocks * sizes.inputs * sizes.outputs);
    const std::vector<float> bias = random.floats(sizes.blocks * sizes.outputs);
    const DeviceBytes on_x = upload(x);
    const DeviceBytes on_weight = upload(weight);
    const DeviceBytes on_bias = upload(bias);
    const auto multiply = [&](int rows, bool biased) {
      const DeviceBytes y = upload(std::vector<float>(kMany * y_row, 7.0F));
      cuda::block_product({.blocks = static_cast<int>(sizes.blocks),
                           .inputs = static_cast<int>(sizes.inputs),
                           .outputs = static_cast<int>(sizes.outputs),
                           .weight = on_weight.as<float>(),
                           .bias = biased ? on_bias.as<float>() : nullptr},
                          rows, cuda::BlockRows<const float>{on_x.as<float>(), x_row, sizes.inputs + 3},
                          cuda::BlockRows<float>{y.as<float>(), y_row, sizes.outputs + 2}, stream_->handle());
      stream_->wait();
      return download<float>(y, kMany * y_row);
    };
    for (const bool biased : {true, false}) {
      std::vector<float> wanted(kMany * y_row, 7.0F);
      for (std::size_t row = 0; row < kMany; ++row) {
        for (std::size_t block = 0; block < sizes.blocks; ++block) {
          for (std::size_t n = 0; n < sizes.outputs; ++n) {
            float sum = biased ? bias[block * sizes.outputs + n] : 0.0F;
            for (std::size_t i = 0; i < sizes.inputs; ++i) {
              sum = std::fma(x[row * x_row + block * (sizes.inputs + 3) + i],
                             weight[(block * sizes.inputs + i) * sizes.outputs + n], sum);
            }
            wanted[row * y_row + block * (sizes.outputs + 2) + n] = sum;
          }
        }
      }
      const std::vector<float> all = multiply(kMany, biased);
      expect_near(all, wanted, 1e-6F, "y");
      for (const std::size_t rows : {1U, 15U, 16U, 17U}) {
        std::vector<float> few = multiply(static_cast<int>(rows), biased);
        few.resize(rows * y_row);
        EXPECT_TRUE(same_bits(few, {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(few.size())}))
            << rows << " rows";
      }
    }
  }
}

TEST_F(CudaRecurrence, LayerNorm) {
  Random random(33);
  for (const std::size_t size : {8U, 64U, 300U, 2560U}) {
    SCOPED_TRACE(size);
    constexpr std::size_t kFew = 3;
    std::vector<float> x = random.floats(kFew * size);
    for (float& value : x) value += 3.0F;  // so that the mean matters
    const std::vector<float> weight = random.floats(size);
    const std::vector<float> bias = random.floats(size);
    const DeviceBytes on_x = upload(x);
    const DeviceBytes on_weight = upload(weight);
    const DeviceBytes on_bias = upload(bias);
    const DeviceBytes y(x.size() * sizeof(Bf16));
    const cuda::RowNorm norm{
        .weight = on_weight.as<float>(), .offset = 0, .eps = 1e-5F, .bias = on_bias.as<float>()};
    cuda::rms_norm(on_x.as<float>(), nullptr, kFew, static_cast<int>(size), norm, 0.5F, y.as<Bf16>(),
                   stream_->handle());
    std::vector<float> wanted(x.size());
    plain().layer_norm({.x = x.data(),
                        .weight = weight.data(),
                        .bias = bias.data(),
                        .eps = 1e-5F,
                        .y = wanted.data(),
                        .rows = kFew,
                        .groups = 1,
                        .size = size});
    for (float& value : wanted) value *= 0.5F;
    expect_near(widened(download<Bf16>(y, x.size())), wanted, 5e-3F, "normed");
    const DeviceBytes sum = upload(x);
    cuda::add_normed_rows(on_x.as<float>(), kFew, static_cast<int>(size), norm, 2.0F, sum.as<float>(),
                          stream_->handle());
    for (std::size_t i = 0; i < x.size(); ++i) wanted[i] = x[i] + 4.0F * wanted[i];
    expect_near(download<float>(sum, x.size()), wanted, 1e-5F, "added");
  }
}

}  // namespace
}  // namespace reprise::gpu::test
