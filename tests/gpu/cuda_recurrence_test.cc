// RG-LRU, Kimi Delta Attention, products of blocks and LayerNorm on a GPU: against the plain CPU kernels, and against themselves, bit by
// bit, however sequences are cut and batched. Without a GPU all of it is skipped.

#include "gpu/cuda/block_product.h"
#include "gpu/cuda/channel_delta.h"
#include "gpu/cuda/rg_lru.h"
#include "gpu/cuda/rows.h"
#include "tests/gpu/cuda_scan_rig.h"

namespace reprise::gpu::test {
namespace {

class CudaRecurrence : public CudaScan {
 protected:
  /// Of rows of bf16 and of f32.
  template <class Row>
  void rg_lru();
  template <class Row>
  void kimi_delta_attention();
};

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

template <class Row>
void CudaRecurrence::rg_lru() {
  Random random(32);
  for (const std::size_t channels : {8U, 37U, 130U}) {
    SCOPED_TRACE(std::to_string(channels) + " channels");
    const std::size_t stride = channels + 5;
    const std::vector<float> slot(channels, 0.0F);  // a sequence begins with zeros
    const std::vector<float> x = random.floats(kRows * channels);
    const std::vector<float> input_gate = random.floats(kRows * channels);
    const std::vector<float> recurrence_gate = random.between(kRows * channels, -6.0F, 4.0F);
    const std::vector<float> rate = random.between(channels, -9.0F, -0.001F);
    const std::vector<Row> branch = as_rows<Row>(random.floats(kRows * stride));
    const std::vector<float> wide_branch = widened(branch);
    const DeviceBytes on_x = upload(x);
    const DeviceBytes on_rate = upload(rate);
    const DeviceBytes on_branch = upload(branch);
    const auto got =
        same_however_cut<Row>(slot, channels, [&](const Batch& batch, std::size_t first, Row* y) {
          const DeviceBytes gates[] = {upload(input_gate), upload(recurrence_gate)};  // they are used up
          cuda::rg_lru({.channels = static_cast<int>(channels), .state_offset = 0}, batch,
                       cuda::RgLruPass<Row>{.x = on_x.as<float>() + first * channels,
                                            .input_gate = gates[0].as<float>() + first * channels,
                                            .recurrence_gate = gates[1].as<float>() + first * channels,
                                            .rate = on_rate.as<float>(),
                                            .branch = on_branch.as<Row>() + first * stride,
                                            .branch_stride = static_cast<int>(stride),
                                            .out = y},
                       stream_->handle());
          stream_->wait();  // before the gates go
        });
    std::vector<float> state = slot;
    std::vector<float> y(kTokens * channels);
    plain().rg_lru({.state = state.data(),
                    .x = x.data(),
                    .input_gate = input_gate.data(),
                    .recurrence_gate = recurrence_gate.data(),
                    .rate = rate.data(),
                    .out = y.data(),
                    .channels = channels,
                    .tokens = kTokens,
                    .begins = true},
                   0, channels);
    for (std::size_t row = 0; row < kTokens; ++row) {
      std::vector<float> gate;
      for (std::size_t i = 0; i < channels; ++i) gate.push_back(wide_branch[row * stride + i]);
      plain().gate_gelu(gate.data(), y.data() + row * channels, channels);
    }
    expect_near(widened(got.y), y, tolerance_of<Row>(1e-2F, 1e-4F), "y");
    expect_near(got.slot, state, 1e-4F, "the state");
  }
}
TEST_F(CudaRecurrence, RgLru) {
  rg_lru<Bf16>();
}
TEST_F(CudaRecurrence, RgLruOfF32) {
  rg_lru<float>();
}

TEST_F(CudaRecurrence, LayerNorm) {
  Random random(33);
  for (const std::size_t size : {8U, 64U, 300U, 2560U}) {
    SCOPED_TRACE(size);
    constexpr std::size_t kFew = 3;
    std::vector<float> x = random.floats(kFew * size);
    for (float& value : x) value += 3.0F;  // so that the mean counts
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

template <class Row>
void CudaRecurrence::kimi_delta_attention() {
  Random random(34);
  struct Sizes {
    int heads, head_dim;
  };
  for (const Sizes& sizes : {Sizes{4, 16}, {3, 8}, {2, 40}, {2, 128}}) {
    SCOPED_TRACE(std::to_string(sizes.heads) + " heads of " + std::to_string(sizes.head_dim));
    const cuda::ChannelDeltaShape shape{.heads = sizes.heads, .head_dim = sizes.head_dim, .state_offset = 0};
    ASSERT_TRUE(cuda::channel_delta_supports(shape));
    const auto heads = static_cast<std::size_t>(sizes.heads);
    const auto dim = static_cast<std::size_t>(sizes.head_dim);
    const std::size_t size = heads * dim;
    const std::size_t beta_stride = heads + 3;
    const std::vector<float> slot = random.floats(size * dim);
    const std::vector<float> q = random.floats(kRows * size);
    const std::vector<float> k = random.floats(kRows * size);
    const std::vector<float> v = random.floats(kRows * size);
    const std::vector<float> f = random.between(kRows * size, -6.0F, 2.0F);
    const std::vector<float> b = random.floats(kRows * beta_stride);
    const std::vector<float> rate = random.between(heads, 0.1F, 3.0F);
    const std::vector<float> dt_bias = random.floats(size);
    const DeviceBytes on_v = upload(v);
    const DeviceBytes on_rate = upload(rate);
    const DeviceBytes on_dt_bias = upload(dt_bias);
    const auto got =
        same_however_cut<float>(slot, size, [&](const Batch& batch, std::size_t first, float* y) {
          const DeviceBytes used_up[] = {upload(q), upload(k), upload(f), upload(b)};
          cuda::channel_delta(shape, batch,
                              {.q = used_up[0].as<float>() + first * size,
                               .k = used_up[1].as<float>() + first * size,
                               .v = on_v.as<float>() + first * size,
                               .decay = used_up[2].as<float>() + first * size,
                               .beta = used_up[3].as<float>() + first * beta_stride,
                               .beta_stride = static_cast<int>(beta_stride),
                               .rate = on_rate.as<float>(),
                               .dt_bias = on_dt_bias.as<float>(),
                               .unit_eps = 1e-6F,
                               .out = y},
                              stream_->handle());
          stream_->wait();  // before they go
        });
    std::vector<float> state = slot;
    std::vector<float> y(kTokens * size);
    std::vector<float> unit_q = q;
    std::vector<float> unit_k = k;
    std::vector<float> decay = f;
    std::vector<float> beta;
    plain().l2_norm(q.data(), 1e-6F, 1.0F / std::sqrt(static_cast<float>(dim)), unit_q.data(), kRows * heads,
                    dim, dim);
    plain().l2_norm(k.data(), 1e-6F, 1.0F, unit_k.data(), kRows * heads, dim, dim);
    for (std::size_t row = 0; row < kTokens; ++row) {
      std::vector<float> of_row(b.begin() + static_cast<std::ptrdiff_t>(row * beta_stride),
                                b.begin() + static_cast<std::ptrdiff_t>(row * beta_stride + heads));
      plain().channel_gates({.decay = decay.data() + row * size,
                             .beta = of_row.data(),
                             .rate = rate.data(),
                             .dt_bias = dt_bias.data(),
                             .heads = heads,
                             .size = dim});
      beta.insert(beta.end(), of_row.begin(), of_row.end());
    }
    for (std::size_t head = 0; head < heads; ++head) {
      plain().channel_delta_rule({.state = state.data() + head * dim * dim,
                                  .key_dim = dim,
                                  .value_dim = dim,
                                  .tokens = kTokens,
                                  .q = unit_q.data() + head * dim,
                                  .k = unit_k.data() + head * dim,
                                  .v = v.data() + head * dim,
                                  .decay = decay.data() + head * dim,
                                  .stride = size,
                                  .beta = beta.data() + head,
                                  .beta_stride = heads,
                                  .out = y.data() + head * dim});
    }
    expect_near(got.y, y, 1e-4F, "y");
    expect_near(got.slot, state, 1e-4F, "the state");

    const std::size_t gate_stride = size + 8;
    const std::vector<Row> gate = as_rows<Row>(random.floats(kTokens * gate_stride));
    const std::vector<float> wide_gate = widened(gate);
    const std::vector<float> norm = random.floats(dim);
    const DeviceBytes on_y = upload(y);
    const DeviceBytes on_gate = upload(gate);
    const DeviceBytes on_norm = upload(norm);
    const DeviceBytes out(y.size() * sizeof(Row));
    cuda::gate_channel_delta(shape, kTokens,
                             cuda::ChannelDeltaGate<Row>{.y = on_y.as<float>(),
                                                         .gate = on_gate.as<Row>(),
                                                         .gate_stride = static_cast<int>(gate_stride),
                                                         .norm = on_norm.as<float>(),
                                                         .norm_offset = 1,
                                                         .norm_eps = 1e-5F,
                                                         .out = out.as<Row>()},
                             stream_->handle());
    for (std::size_t row = 0; row < kTokens; ++row) {
      float* own = y.data() + row * size;
      std::vector<float> wide;
      for (std::size_t i = 0; i < size; ++i) wide.push_back(wide_gate[row * gate_stride + i]);
      plain().rms_norm(own, norm.data(), 1.0F, 1e-5F, own, heads, dim, dim);
      plain().gate_sigmoid(wide.data(), own, size);
    }
    expect_near(widened(download<Row>(out, y.size())), y, tolerance_of<Row>(5e-3F, 2e-5F), "gated");
  }
}
TEST_F(CudaRecurrence, KimiDeltaAttention) {
  kimi_delta_attention<Bf16>();
}
TEST_F(CudaRecurrence, KimiDeltaAttentionWithAGateOfF32) {
  kimi_delta_attention<float>();
}

}  // namespace
}  // namespace reprise::gpu::test
