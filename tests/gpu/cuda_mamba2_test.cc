// Chunked Mamba-2 recurrence on a GPU compared with the plain CPU kernel, and bitwise with itself however
// prompts are cut on the grid and batched.

#include <array>
#include <limits>

#include "gpu/cuda/recurrence/mamba2.h"
#include "tests/gpu/cuda_chunk_rig.h"

namespace reprise::gpu::test {
namespace {

/// With bf16 rows, B and C are representable in bf16, as the chunks round them.
template <class Row>
struct Mamba2Inputs {
  cuda::Mamba2Shape shape;
  std::size_t channels;
  std::size_t step_stride;
  std::vector<float> mixed;
  std::vector<Row> step;
  std::vector<float> dt_bias, decay, skip;
  float dt_max;

  Mamba2Inputs(Random& random, const cuda::Mamba2Shape& of, std::size_t rows, float min_step)
      : shape(of),
        channels(static_cast<std::size_t>(of.channels())),
        step_stride(static_cast<std::size_t>(of.heads) + 3),
        mixed(random.floats(rows * channels)),
        step(as_rows<Row>(random.between(rows * step_stride, min_step, 3.0F))),
        dt_bias(random.floats(heads())),
        decay(random.between(heads(), 0.01F, 4.0F)),
        skip(random.floats(heads())),
        dt_max(of.groups == 1 ? std::numeric_limits<float>::infinity() : 1.5F) {
    const std::vector<float> rounded = widened(as_rows<Row>(mixed));
    for (std::size_t i = 0; i < mixed.size(); ++i) {
      if (i % channels >= static_cast<std::size_t>(shape.inner())) mixed[i] = rounded[i];
    }
  }

  std::size_t heads() const { return static_cast<std::size_t>(shape.heads); }
  std::size_t slot_size() const {
    return static_cast<std::size_t>(shape.inner()) * static_cast<std::size_t>(shape.state_size);
  }

  /// Runs rows [begin, end) on the CPU, updating `state` and y.
  void run(std::vector<float>& state, std::size_t begin, std::size_t end, std::vector<float>& y) const {
    const auto dim = static_cast<std::size_t>(shape.head_dim);
    const auto size = static_cast<std::size_t>(shape.state_size);
    const auto inner = static_cast<std::size_t>(shape.inner());
    const std::vector<float> wide_step = widened(step);
    for (std::size_t head = 0; head < heads(); ++head) {
      const std::size_t group = head / (heads() / static_cast<std::size_t>(shape.groups));
      const float* b = mixed.data() + begin * channels + inner + group * size;
      plain().mamba2({.state = state.data() + head * size * dim,
                      .state_size = size,
                      .head_dim = dim,
                      .tokens = end - begin,
                      .x = mixed.data() + begin * channels + head * dim,
                      .b = b,
                      .c = b + static_cast<std::size_t>(shape.groups) * size,
                      .stride = channels,
                      .step = wide_step.data() + begin * step_stride + head,
                      .step_stride = step_stride,
                      .dt_scale = 1.25F,
                      .dt_bias = dt_bias[head],
                      .dt_min = 0.001F,
                      .dt_max = dt_max,
                      .decay = decay[head],
                      .skip = skip[head],
                      .y = y.data() + begin * inner + head * dim,
                      .y_stride = inner});
    }
  }
};

/// Rows are bf16 or f32.
class CudaMamba2 : public CudaChunks {
 protected:
  /// Makes passes over the inputs from a row on.
  template <class Row>
  auto passes_over(const Mamba2Inputs<Row>& in) {
    return [&in, mixed = upload(in.mixed), step = upload(in.step), dt_bias = upload(in.dt_bias),
            decay = upload(in.decay), skip = upload(in.skip)](std::size_t first, float* y) {
      return cuda::Mamba2Pass<Row>{.mixed = mixed.template as<float>() + first * in.channels,
                                   .step = step.template as<Row>() + first * in.step_stride,
                                   .step_stride = static_cast<int>(in.step_stride),
                                   .dt_bias = dt_bias.template as<float>(),
                                   .decay = decay.template as<float>(),
                                   .skip = skip.template as<float>(),
                                   .dt_scale = 1.25F,
                                   .dt_min = 0.001F,
                                   .dt_max = in.dt_max,
                                   .out = y};
    };
  }
  template <class Row>
  auto launcher(const Mamba2Inputs<Row>& in) {
    return [this, &in, pass_from = passes_over(in)](const Batch& batch, const cuda::SlotExports& exports,
                                                    float* y) {
      const std::size_t bytes = cuda::mamba2_workspace(in.shape, batch.rows, batch.tile_count);
      const DeviceBytes workspace = spoiled(bytes);
      cuda::Mamba2Pass<Row> pass = pass_from(0, y);
      pass.workspace = workspace.data();
      pass.exports = exports;
      cuda::mamba2(in.shape, batch, pass, stream_->handle());
      stream_->wait();  // before the workspace is freed
    };
  }

  template <class Row>
  void prefill_and_decode();
  template <class Row>
  void without_tiles();
};

template <class Row>
void CudaMamba2::prefill_and_decode() {
  Random random(41);
  struct Sizes {
    int heads, head_dim, groups, state_size;
    std::vector<int> prefills;
    float min_step;
  };
  const std::vector<Sizes> cases = {{4, 16, 1, 16, {64, 1, 65}, -8.0F}, {2, 64, 1, 128, {130, 70}, -8.0F},
                                    {2, 48, 2, 64, {65, 64, 3}, -8.0F}, {2, 128, 1, 32, {200}, 2.0F},
                                    {2, 16, 2, 256, {130, 3}, -8.0F},   {40, 32, 2, 128, {70, 129}, -8.0F},
                                    {4, 12, 2, 16, {130, 63}, -8.0F}};  // the last case runs token by token
  for (const Sizes& sizes : cases) {
    SCOPED_TRACE(std::to_string(sizes.heads) + " heads of " + std::to_string(sizes.head_dim) + ", " +
                 std::to_string(sizes.state_size));
    const cuda::Mamba2Shape shape{.heads = sizes.heads,
                                  .head_dim = sizes.head_dim,
                                  .groups = sizes.groups,
                                  .state_size = sizes.state_size,
                                  .state_offset = 0};
    ChunkSequences sequences{
        .prefills = sizes.prefills, .slots = {}, .width = static_cast<std::size_t>(shape.inner())};
    const Mamba2Inputs<Row> in(random, shape, static_cast<std::size_t>(sequences.rows()), sizes.min_step);
    for (std::size_t i = 0; i < sequences.count(); ++i) {
      sequences.slots.push_back(i == 1 ? std::vector<float>(in.slot_size()) : random.floats(in.slot_size()));
    }
    compare(in, sequences, launcher(in));
  }
}
TEST_F(CudaMamba2, InChunks) {
  prefill_and_decode<Bf16>();
}
TEST_F(CudaMamba2, TokenAfterTokenOverF32) {
  prefill_and_decode<float>();
}

template <class Row>
void CudaMamba2::without_tiles() {
  Random random(3);
  for (const auto& [heads, head_dim, groups, state_size] :
       {std::array{4, 16, 1, 16}, {4, 12, 2, 24}, {2, 64, 1, 128}, {3, 8, 3, 64}, {2, 16, 2, 256}}) {
    const cuda::Mamba2Shape shape{
        .heads = heads, .head_dim = head_dim, .groups = groups, .state_size = state_size, .state_offset = 0};
    SCOPED_TRACE(std::to_string(shape.heads) + " heads of " + std::to_string(shape.head_dim) + ", " +
                 std::to_string(shape.state_size));
    ASSERT_TRUE(cuda::mamba2_supports(shape));
    const Mamba2Inputs<Row> in(random, shape, kRows, -8.0F);
    std::vector<float> state = random.floats(in.slot_size());
    const auto inner = static_cast<std::size_t>(shape.inner());
    const auto pass_from = passes_over(in);
    const auto got =
        same_however_cut<float>(state, inner, [&](const Batch& batch, std::size_t first, float* y) {
          cuda::mamba2(shape, batch, pass_from(first, y), stream_->handle());
        });
    std::vector<float> y(kTokens * inner);
    in.run(state, 0, kTokens, y);
    expect_near(got.y, y, 1e-4F, "y");
    expect_near(got.slot, state, 1e-4F, "the state");
  }
}
TEST_F(CudaMamba2, WithoutTiles) {
  without_tiles<Bf16>();
}
TEST_F(CudaMamba2, WithoutTilesOverF32) {
  without_tiles<float>();
}

}  // namespace
}  // namespace reprise::gpu::test
