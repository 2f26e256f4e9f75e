// Prefills in tiles of Mamba-1 and RG-LRU on a GPU, and decode after them: against the plain CPU kernels, and against
// themselves, bit by bit (tests/gpu/cuda_tiles_rig.h). Without a GPU all of it is skipped.

#include <utility>

#include "gpu/cuda/rg_lru.h"
#include "gpu/cuda/selective_scan.h"
#include "tests/gpu/cuda_tiles_rig.h"

namespace reprise::gpu::test {
namespace {

/// Of rows of bf16 and of f32.
class CudaScanTiles : public CudaTiles {
 protected:
  template <class Row>
  void selective_scans();
  template <class Row>
  void rg_lru();
};

template <class Row>
void CudaScanTiles::selective_scans() {
  Random random(41);
  for (const auto& [channels, size] : {std::pair<std::size_t, std::size_t>{8, 16},
                                       {37, 16},
                                       {300, 16},
                                       {24, 3},
                                       {40, 32},
                                       {21, 17},
                                       {16, 50}}) {  // the last: token after token
    SCOPED_TRACE(std::to_string(channels) + " channels of " + std::to_string(size));
    const cuda::SelectiveScanShape shape{.channels = static_cast<int>(channels),
                                         .state_size = static_cast<int>(size),
                                         .step_rank = 1,
                                         .state_offset = 0};
    ASSERT_TRUE(cuda::selective_scan_supports(shape));
    const std::size_t numbers = (channels + kLanes - 1) / kLanes * kLanes * size;
    std::vector<float> slot = random.floats(numbers);
    std::vector<float> a = random.between(numbers, -4.0F, -0.01F);
    for (std::size_t i = 0; i < numbers; ++i) {  // what fills up the last group
      if (i / (size * kLanes) * kLanes + i % kLanes >= channels) slot[i] = a[i] = 0;
    }
    std::vector<float> a_of_two = a;
    for (float& value : a_of_two) value *= 1.44269504F;
    const std::size_t step_stride = channels + 3;
    const std::size_t bc_stride = 2 * size + 5;
    const std::size_t gate_stride = channels + 7;
    const std::vector<float> skip = random.floats(channels);
    const std::vector<Row> x = as_rows<Row>(random.floats(kInputs * channels));
    const std::vector<float> step = random.between(kInputs * step_stride, -12.0F, 4.0F);
    const std::vector<float> bc = random.floats(kInputs * bc_stride);
    const std::vector<Row> gate = as_rows<Row>(random.floats(kInputs * gate_stride));
    const DeviceBytes on_a = upload(a_of_two);
    const DeviceBytes on_skip = upload(skip);
    const DeviceBytes on_x = upload(x);
    const DeviceBytes on_bc = upload(bc);
    const DeviceBytes on_gate = upload(gate);
    const auto got = same_on_the_grid<Row>(
        slot, channels, [&](const Batch& batch, const SlotExports& exports, std::size_t first, Row* y) {
          const DeviceBytes on_step = upload(step);  // used up
          const DeviceBytes workspace = spoiled(cuda::selective_scan_workspace(shape, batch.tile_count));
          cuda::selective_scan(shape, batch,
                               cuda::SelectiveScanPass<Row>{.a = on_a.as<float>(),
                                                            .skip = on_skip.as<float>(),
                                                            .x = on_x.as<Row>() + first * channels,
                                                            .step = on_step.as<float>() + first * step_stride,
                                                            .step_stride = static_cast<int>(step_stride),
                                                            .b = on_bc.as<float>() + first * bc_stride,
                                                            .bc_stride = static_cast<int>(bc_stride),
                                                            .gate = on_gate.as<Row>() + first * gate_stride,
                                                            .gate_stride = static_cast<int>(gate_stride),
                                                            .out = y,
                                                            .workspace = workspace.data(),
                                                            .exports = exports},
                               stream_->handle());
          stream_->wait();  // before these go
        });
    std::vector<float> dense;  // the CPU has steps without a stride
    for (std::size_t row = 0; row < kOurs; ++row) {
      const float* from = step.data() + row * step_stride;
      dense.insert(dense.end(), from, from + channels);
    }
    std::vector<float> y(kOurs * channels);
    const std::vector<float> wide_x = widened(x);
    const std::vector<float> wide_gate = widened(gate);
    plain().selective_scan({.state = slot.data(),
                            .a = a.data(),
                            .skip = skip.data(),
                            .channels = channels,
                            .state_size = size,
                            .tokens = kOurs,
                            .x = wide_x.data(),
                            .step = dense.data(),
                            .b = bc.data(),
                            .c = bc.data() + size,
                            .bc_stride = bc_stride,
                            .gate = wide_gate.data(),
                            .gate_stride = gate_stride,
                            .y = y.data()},
                           0, channels);
    expect_near(widened(got.y), y, tolerance_of<Row>(1e-2F, 1e-4F), "y");
    expect_near(got.slot, slot, 1e-4F, "the state");
  }
}
TEST_F(CudaScanTiles, SelectiveScans) {
  selective_scans<Bf16>();
}
TEST_F(CudaScanTiles, SelectiveScansOfF32) {
  selective_scans<float>();
}

template <class Row>
void CudaScanTiles::rg_lru() {
  Random random(42);
  for (const std::size_t channels : {8U, 37U, 300U}) {
    SCOPED_TRACE(std::to_string(channels) + " channels");
    const cuda::RgLruShape shape{.channels = static_cast<int>(channels), .state_offset = 0};
    const std::size_t stride = channels + 5;
    const std::vector<float> slot(channels, 0.0F);  // a sequence begins with zeros
    const std::vector<float> x = random.floats(kInputs * channels);
    const std::vector<float> input_gate = random.floats(kInputs * channels);
    const std::vector<float> recurrence_gate = random.between(kInputs * channels, -6.0F, 4.0F);
    const std::vector<float> rate = random.between(channels, -9.0F, -0.001F);
    const std::vector<Row> branch = as_rows<Row>(random.floats(kInputs * stride));
    const DeviceBytes on_x = upload(x);
    const DeviceBytes on_rate = upload(rate);
    const std::vector<float> wide_branch = widened(branch);
    const DeviceBytes on_branch = upload(branch);
    const auto got = same_on_the_grid<Row>(
        slot, channels, [&](const Batch& batch, const SlotExports& exports, std::size_t first, Row* y) {
          const DeviceBytes gates[] = {upload(input_gate), upload(recurrence_gate)};  // they are used up
          const DeviceBytes workspace = spoiled(cuda::rg_lru_workspace(shape, batch.tile_count));
          cuda::rg_lru(shape, batch,
                       cuda::RgLruPass<Row>{.x = on_x.as<float>() + first * channels,
                                            .input_gate = gates[0].as<float>() + first * channels,
                                            .recurrence_gate = gates[1].as<float>() + first * channels,
                                            .rate = on_rate.as<float>(),
                                            .branch = on_branch.as<Row>() + first * stride,
                                            .branch_stride = static_cast<int>(stride),
                                            .out = y,
                                            .workspace = workspace.data(),
                                            .exports = exports},
                       stream_->handle());
          stream_->wait();  // before these go
        });
    std::vector<float> state = slot;
    std::vector<float> y(kOurs * channels);
    plain().rg_lru({.state = state.data(),
                    .x = x.data(),
                    .input_gate = input_gate.data(),
                    .recurrence_gate = recurrence_gate.data(),
                    .rate = rate.data(),
                    .out = y.data(),
                    .channels = channels,
                    .tokens = kOurs,
                    .begins = true},
                   0, channels);
    for (std::size_t row = 0; row < kOurs; ++row) {
      std::vector<float> gate;
      for (std::size_t i = 0; i < channels; ++i) gate.push_back(wide_branch[row * stride + i]);
      plain().gate_gelu(gate.data(), y.data() + row * channels, channels);
    }
    expect_near(widened(got.y), y, tolerance_of<Row>(1e-2F, 1e-4F), "y");
    expect_near(got.slot, state, 1e-4F, "the state");
  }
}
TEST_F(CudaScanTiles, RgLru) {
  rg_lru<Bf16>();
}
TEST_F(CudaScanTiles, RgLruOfF32) {
  rg_lru<float>();
}

}  // namespace
}  // namespace reprise::gpu::test
