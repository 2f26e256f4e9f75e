// Mamba-1 and RG-LRU on a GPU, untiled and tiled, and decoding after them, compared with the plain CPU
// kernels and bitwise with themselves (tests/gpu/cuda_tiles_rig.h).

#include <utility>

#include "gpu/cuda/recurrence/rg_lru.h"
#include "gpu/cuda/recurrence/selective_scan.h"
#include "tests/gpu/cuda_tiles_rig.h"

namespace reprise::gpu::test {
namespace {

template <class Row>
struct MambaLayer {
  std::size_t channels, size, step_stride, bc_stride, gate_stride;
  cuda::SelectiveScanShape shape;
  std::vector<float> slot, a, skip, step, bc;
  std::vector<Row> x, gate;

  MambaLayer(Random& random, std::size_t some_channels, std::size_t some_states, std::size_t rows)
      : channels(some_channels),
        size(some_states),
        step_stride(channels + 3),
        bc_stride(2 * size + 5),
        gate_stride(channels + 7),
        shape{.channels = static_cast<int>(channels),
              .state_size = static_cast<int>(size),
              .step_rank = 1,
              .state_offset = 0},
        slot(random.floats((channels + kLanes - 1) / kLanes * kLanes * size)),
        a(random.between(slot.size(), -4.0F, -0.01F)),
        skip(random.floats(channels)),
        step(random.between(rows * step_stride, -12.0F, 4.0F)),
        bc(random.floats(rows * bc_stride)),
        x(as_rows<Row>(random.floats(rows * channels))),
        gate(as_rows<Row>(random.floats(rows * gate_stride))) {
    for (std::size_t i = 0; i < slot.size(); ++i) {  // padding of the last group
      if (i / (size * kLanes) * kLanes + i % kLanes >= channels) slot[i] = a[i] = 0;
    }
  }

  CudaScan::Result<float> run(std::size_t rows) const {
    std::vector<float> dense;  // the CPU's steps have no stride
    for (std::size_t row = 0; row < rows; ++row) {
      const float* from = step.data() + row * step_stride;
      dense.insert(dense.end(), from, from + channels);
    }
    CudaScan::Result<float> result{std::vector<float>(rows * channels), slot};
    const std::vector<float> wide_x = widened(x);
    const std::vector<float> wide_gate = widened(gate);
    plain().selective_scan({.state = result.slot.data(),
                            .a = a.data(),
                            .skip = skip.data(),
                            .channels = channels,
                            .state_size = size,
                            .tokens = rows,
                            .x = wide_x.data(),
                            .step = dense.data(),
                            .b = bc.data(),
                            .c = bc.data() + size,
                            .bc_stride = bc_stride,
                            .gate = wide_gate.data(),
                            .gate_stride = gate_stride,
                            .y = result.y.data()},
                           0, channels);
    return result;
  }
};

/// The initial state is zero.
template <class Row>
struct RgLruLayer {
  std::size_t channels, stride;
  cuda::RgLruShape shape;
  std::vector<float> slot, x, input_gate, recurrence_gate, rate;
  std::vector<Row> branch;

  RgLruLayer(Random& random, std::size_t some_channels, std::size_t rows)
      : channels(some_channels),
        stride(channels + 5),
        shape{.channels = static_cast<int>(channels), .state_offset = 0},
        slot(channels, 0.0F),
        x(random.floats(rows * channels)),
        input_gate(random.floats(rows * channels)),
        recurrence_gate(random.between(rows * channels, -6.0F, 4.0F)),
        rate(random.between(channels, -9.0F, -0.001F)),
        branch(as_rows<Row>(random.floats(rows * stride))) {}

  CudaScan::Result<float> run(std::size_t rows) const {
    CudaScan::Result<float> result{std::vector<float>(rows * channels), slot};
    plain().rg_lru({.state = result.slot.data(),
                    .x = x.data(),
                    .input_gate = input_gate.data(),
                    .recurrence_gate = recurrence_gate.data(),
                    .rate = rate.data(),
                    .out = result.y.data(),
                    .channels = channels,
                    .tokens = rows,
                    .begins = true},
                   0, channels);
    const std::vector<float> wide_branch = widened(branch);
    for (std::size_t row = 0; row < rows; ++row) {
      std::vector<float> gate;
      for (std::size_t i = 0; i < channels; ++i) gate.push_back(wide_branch[row * stride + i]);
      plain().gate_gelu(gate.data(), result.y.data() + row * channels, channels);
    }
    return result;
  }
};

/// Rows are bf16 or f32.
class CudaScanTiles : public CudaTiles {
 protected:
  /// Make passes over the inputs from a row on. Inputs that the kernel overwrites are uploaded again for
  /// each.
  template <class Row>
  auto passes_over(const MambaLayer<Row>& in) {
    std::vector<float> a_of_two = in.a;
    for (float& value : a_of_two) value *= 1.44269504F;
    return [this, &in, a = upload(a_of_two), skip = upload(in.skip), x = upload(in.x), bc = upload(in.bc),
            gate = upload(in.gate)](std::size_t first, Row* y) {
      use_up({&in.step});
      return cuda::SelectiveScanPass<Row>{.a = a.template as<float>(),
                                          .skip = skip.template as<float>(),
                                          .x = x.template as<Row>() + first * in.channels,
                                          .step = used_up_[0].as<float>() + first * in.step_stride,
                                          .step_stride = static_cast<int>(in.step_stride),
                                          .b = bc.template as<float>() + first * in.bc_stride,
                                          .bc_stride = static_cast<int>(in.bc_stride),
                                          .gate = gate.template as<Row>() + first * in.gate_stride,
                                          .gate_stride = static_cast<int>(in.gate_stride),
                                          .out = y};
    };
  }
  template <class Row>
  auto passes_over(const RgLruLayer<Row>& in) {
    return [this, &in, x = upload(in.x), rate = upload(in.rate), branch = upload(in.branch)](
               std::size_t first, Row* y) {
      use_up({&in.input_gate, &in.recurrence_gate});
      return cuda::RgLruPass<Row>{.x = x.template as<float>() + first * in.channels,
                                  .input_gate = used_up_[0].as<float>() + first * in.channels,
                                  .recurrence_gate = used_up_[1].as<float>() + first * in.channels,
                                  .rate = rate.template as<float>(),
                                  .branch = branch.template as<Row>() + first * in.stride,
                                  .branch_stride = static_cast<int>(in.stride),
                                  .out = y};
    };
  }

  /// launch(batch, pass)
  template <class Row, class Inputs, class Launch>
  void without_tiles(const Inputs& in, const Launch& launch) {
    const auto pass_from = passes_over(in);
    const auto got = same_however_cut<Row>(
        in.slot, in.channels,
        [&](const Batch& batch, std::size_t first, Row* y) { launch(batch, pass_from(first, y)); });
    expect_as_on_cpu<Row>(got, in.run(kTokens));
  }
  /// workspace_of(tiles) returns bytes.
  template <class Row, class Inputs, class Workspace, class Launch>
  void in_tiles(const Inputs& in, const Workspace& workspace_of, const Launch& launch) {
    const auto pass_from = passes_over(in);
    const auto got = same_on_the_grid<Row>(
        in.slot, in.channels, [&](const Batch& batch, const SlotExports& exports, std::size_t first, Row* y) {
          const DeviceBytes workspace = spoiled(workspace_of(batch.tile_count));
          auto pass = pass_from(first, y);
          pass.workspace = workspace.data();
          pass.exports = exports;
          launch(batch, pass);
          stream_->wait();  // before the workspace is freed
        });
    expect_as_on_cpu<Row>(got, in.run(kOurs));
  }

  template <class Row>
  void mamba();
  template <class Row>
  void rg_lru();

 private:
  void use_up(std::initializer_list<const std::vector<float>*> values) {
    used_up_.clear();
    for (const auto* one : values) used_up_.push_back(upload(*one));
  }
  template <class Row>
  static void expect_as_on_cpu(const Result<Row>& got, const Result<float>& wanted) {
    expect_near(widened(got.y), wanted.y, tolerance_of<Row>(1e-2F, 1e-4F), "y");
    expect_near(got.slot, wanted.slot, 1e-4F, "the state");
  }

  std::vector<DeviceBytes> used_up_;
};

template <class Row>
void CudaScanTiles::mamba() {
  Random random(41);
  using Sizes = std::pair<std::size_t, std::size_t>;  // channels, and state values per channel
  const auto inputs = [&](const Sizes& sizes, std::size_t rows) {
    MambaLayer<Row> in(random, sizes.first, sizes.second, rows);
    EXPECT_TRUE(cuda::selective_scan_supports(in.shape));
    return in;
  };
  for (const Sizes& sizes : {Sizes{8, 16}, {37, 16}, {24, 3}, {40, 32}, {16, 50}, {9, 100}, {8, 256}}) {
    SCOPED_TRACE(std::to_string(sizes.first) + " channels of " + std::to_string(sizes.second));
    const MambaLayer<Row> in = inputs(sizes, kRows);
    without_tiles<Row>(in, [&](const Batch& batch, const cuda::SelectiveScanPass<Row>& pass) {
      cuda::selective_scan(in.shape, batch, pass, stream_->handle());
    });
  }
  for (const Sizes& sizes : {Sizes{8, 16}, {37, 16}, {300, 16}, {24, 3}, {40, 32}, {21, 17}, {16, 50}}) {
    SCOPED_TRACE(std::to_string(sizes.first) + " channels of " + std::to_string(sizes.second) + ", in tiles");
    const MambaLayer<Row> in = inputs(sizes, kInputs);  // the last case runs token by token
    in_tiles<Row>(
        in, [&](int tiles) { return cuda::selective_scan_workspace(in.shape, tiles); },
        [&](const Batch& batch, const cuda::SelectiveScanPass<Row>& pass) {
          cuda::selective_scan(in.shape, batch, pass, stream_->handle());
        });
  }
}
TEST_F(CudaScanTiles, SelectiveScans) {
  mamba<Bf16>();
}
TEST_F(CudaScanTiles, SelectiveScansOfF32) {
  mamba<float>();
}

template <class Row>
void CudaScanTiles::rg_lru() {
  Random random(42);
  for (const std::size_t channels : {8U, 37U, 130U, 300U}) {
    SCOPED_TRACE(std::to_string(channels) + " channels");
    const RgLruLayer<Row> in(random, channels, kInputs);
    const auto launch = [&](const Batch& batch, const cuda::RgLruPass<Row>& pass) {
      cuda::rg_lru(in.shape, batch, pass, stream_->handle());
    };
    without_tiles<Row>(in, launch);
    in_tiles<Row>(
        in, [&](int tiles) { return cuda::rg_lru_workspace(in.shape, tiles); }, launch);
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
