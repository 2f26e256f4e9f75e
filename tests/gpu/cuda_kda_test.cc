// Kimi Delta Attention in chunks on a GPU: against the plain CPU kernels, and against itself, bit by bit, however prompts
// are cut on the grid and batched. Without a GPU all of it is skipped.

#include <cstdio>

#include "gpu/cuda/channel_delta.h"
#include "tests/gpu/cuda_chunk_rig.h"

namespace reprise::gpu::test {
namespace {

constexpr float kUnitEps = 1e-6F;

/// A layer and the rows of sequences through it.
struct KdaInputs {
  cuda::ChannelDeltaShape shape;
  std::size_t heads, dim, size;
  std::size_t beta_stride;
  std::vector<float> q, k, v, f, b;
  std::vector<float> rate, dt_bias;

  KdaInputs(Random& random, const cuda::ChannelDeltaShape& of, std::size_t rows, float least, float most)
      : shape(of),
        heads(static_cast<std::size_t>(of.heads)),
        dim(static_cast<std::size_t>(of.head_dim)),
        size(heads * dim),
        beta_stride(heads + 3),
        q(random.floats(rows * size)),
        k(random.floats(rows * size)),
        v(random.floats(rows * size)),
        f(random.between(rows * size, least, most)),
        b(random.floats(rows * beta_stride, 2.0F)),
        rate(random.between(heads, 0.1F, 3.0F)),
        dt_bias(random.floats(size)) {}

  /// Rows [begin, end) on the CPU: `state` is updated, outputs go to the same rows of y.
  void run(std::vector<float>& state, std::size_t begin, std::size_t end, std::vector<float>& y) const {
    const std::size_t tokens = end - begin;
    std::vector<float> unit_q(tokens * size);
    std::vector<float> unit_k(tokens * size);
    plain().l2_norm(q.data() + begin * size, kUnitEps, 1.0F / std::sqrt(static_cast<float>(dim)),
                    unit_q.data(), tokens * heads, dim, dim);
    plain().l2_norm(k.data() + begin * size, kUnitEps, 1.0F, unit_k.data(), tokens * heads, dim, dim);
    std::vector<float> decay(f.begin() + static_cast<std::ptrdiff_t>(begin * size),
                             f.begin() + static_cast<std::ptrdiff_t>(end * size));
    std::vector<float> beta(b.begin() + static_cast<std::ptrdiff_t>(begin * beta_stride),
                            b.begin() + static_cast<std::ptrdiff_t>(end * beta_stride));
    for (std::size_t row = 0; row < tokens; ++row) {
      plain().channel_gates({.decay = decay.data() + row * size,
                             .beta = beta.data() + row * beta_stride,
                             .rate = rate.data(),
                             .dt_bias = dt_bias.data(),
                             .heads = heads,
                             .size = dim});
    }
    for (std::size_t head = 0; head < heads; ++head) {
      plain().channel_delta_rule({.state = state.data() + head * dim * dim,
                                  .key_dim = dim,
                                  .value_dim = dim,
                                  .tokens = tokens,
                                  .q = unit_q.data() + head * dim,
                                  .k = unit_k.data() + head * dim,
                                  .v = v.data() + begin * size + head * dim,
                                  .decay = decay.data() + head * dim,
                                  .stride = size,
                                  .beta = beta.data() + head,
                                  .beta_stride = beta_stride,
                                  .out = y.data() + begin * size + head * dim});
    }
  }
};

class CudaKda : public CudaChunks {
 protected:
  /// The rule over `in`, for run_batches(): so many times over the same rows, and its time if there are several.
  auto launcher(const KdaInputs& in, int times = 1, bool token_after_token = false) {
    return [this, &in, times, token_after_token, v = upload(in.v), rate = upload(in.rate),
            dt_bias = upload(in.dt_bias)](const Batch& batch, const cuda::SlotExports& exports, float* y) {
      const DeviceBytes used_up[] = {upload(in.q), upload(in.k), upload(in.f), upload(in.b)};
      const std::size_t bytes = cuda::channel_delta_workspace(in.shape, batch.rows, batch.tile_count);
      const DeviceBytes workspace(std::max<std::size_t>(256, bytes));
      cuda::fill(workspace.data(), 0xff, workspace.size(),
                 stream_->handle());  // what was there must not matter
      cuda::Stopwatch watch;
      for (int i = 0; i < times; ++i) {
        if (i == 1) watch.start(stream_->handle());
        cuda::channel_delta(in.shape, batch,
                            {.q = used_up[0].as<float>(),
                             .k = used_up[1].as<float>(),
                             .v = v.as<float>(),
                             .decay = used_up[2].as<float>(),
                             .beta = used_up[3].as<float>(),
                             .beta_stride = static_cast<int>(in.beta_stride),
                             .rate = rate.as<float>(),
                             .dt_bias = dt_bias.as<float>(),
                             .unit_eps = kUnitEps,
                             .token_after_token = token_after_token,
                             .out = y,
                             .workspace = workspace.data(),
                             .exports = times > 1 ? cuda::SlotExports{} : exports},
                            stream_->handle());
      }
      if (times > 1) {
        watch.stop(stream_->handle());
        std::printf("%d heads of %d: %d rows in %.0f us\n", in.shape.heads, in.shape.head_dim, batch.rows,
                    watch.milliseconds() * 1000 / (times - 1));
      }
      stream_->wait();  // before they go
    };
  }

  /// The inputs on the GPU and on the CPU: prefills in every way, then a token each.
  void compare(const KdaInputs& in, const ChunkSequences& sequences, bool token_after_token) {
    const auto launch = launcher(in, 1, token_after_token);
    const ChunkResult prefilled = prefill(sequences, launch);
    if (token_after_token) {  // the same without tiles
      std::vector<Part> whole;
      for (std::size_t i = 0; i < sequences.count(); ++i) whole.push_back({i, 0, sequences.prefills[i]});
      const ChunkResult untiled = run_batches(sequences, {whole}, false, launch);
      EXPECT_TRUE(same_bits(untiled.y, prefilled.y));
      EXPECT_TRUE(untiled.slots == prefilled.slots);
    }
    const ChunkResult decoded = decode(sequences, prefilled, launch);
    std::vector<float> y(prefilled.y.size(), 0.0F);
    std::vector<float> y_of_tokens = y;
    for (std::size_t i = 0; i < sequences.count(); ++i) {
      const std::string what = "sequence " + std::to_string(i);
      const auto first = static_cast<std::size_t>(sequences.first_row(i));
      const auto end = first + static_cast<std::size_t>(sequences.prefills[i]);
      std::vector<float> state = sequences.slots[i];
      std::size_t row = first;
      for (const std::vector<float>& behind : prefilled.behind[i]) {
        in.run(state, row, row + cuda::kGrid, y);
        expect_near(behind, state, 1e-4F, what + ", the state behind a tile");
        row += cuda::kGrid;
      }
      in.run(state, row, end, y);
      expect_near(prefilled.slots[i], state, 1e-4F, what + ", the state");
      in.run(state, end, end + 1, y_of_tokens);
      expect_near(decoded.slots[i], state, 1e-4F, what + ", the state after a token");
    }
    expect_near(prefilled.y, y, 1e-4F, "y");
    expect_near(decoded.y, y_of_tokens, 1e-4F, "y of tokens");
  }

  void prefill_and_decode(bool token_after_token);
};

void CudaKda::prefill_and_decode(bool token_after_token) {
  Random random(42);
  struct Sizes {
    int heads, head_dim;
    std::vector<int> prefills;
    float least, most;  // of what decays are made of
  };
  const std::vector<Sizes> cases = {{4, 16, {64, 1, 65}, -6.0F, 2.0F},  {3, 32, {130, 40}, -9.0F, -4.0F},
                                    {12, 64, {70, 3, 64}, -6.0F, 2.0F}, {2, 128, {200}, -9.0F, -4.0F},
                                    {2, 128, {130, 17}, -6.0F, 6.0F},   {2, 40, {130, 63}, -6.0F, 2.0F}};
  for (const Sizes& sizes : cases) {  // the last: token after token
    SCOPED_TRACE(std::to_string(sizes.heads) + " heads of " + std::to_string(sizes.head_dim) +
                 ", decays from " + std::to_string(sizes.least));
    const cuda::ChannelDeltaShape shape{.heads = sizes.heads, .head_dim = sizes.head_dim, .state_offset = 0};
    ChunkSequences sequences{
        .prefills = sizes.prefills, .slots = {}, .width = static_cast<std::size_t>(shape.size())};
    const KdaInputs in(random, shape, static_cast<std::size_t>(sequences.rows()), sizes.least, sizes.most);
    const std::size_t slot = in.size * in.dim;
    for (std::size_t i = 0; i < sequences.count(); ++i) {
      sequences.slots.push_back(i == 1 ? std::vector<float>(slot) : random.floats(slot));
    }
    compare(in, sequences, token_after_token);
  }
}
TEST_F(CudaKda, InChunks) {
  prefill_and_decode(false);
}
TEST_F(CudaKda, TokenAfterToken) {
  prefill_and_decode(true);
}

TEST_F(CudaKda, InChunksWhereKeysRepeat) {
  Random random(43);
  const cuda::ChannelDeltaShape shape{.heads = 2, .head_dim = 64, .state_offset = 0};
  const ChunkSequences sequences{.prefills = {200},
                                 .slots = {random.floats(2 * 64 * 64)},
                                 .width = static_cast<std::size_t>(shape.size())};
  KdaInputs in(random, shape, static_cast<std::size_t>(sequences.rows()), -12.0F, -8.0F);
  for (std::size_t i = in.size; i < in.k.size(); ++i) in.k[i] = in.k[i - in.size];
  for (float& value : in.b) value = 6.0F;  // beta near one
  compare(in, sequences, false);
}

/// Prints; decides nothing.
TEST_F(CudaKda, Times) {
  Random random(45);
  const cuda::ChannelDeltaShape shape{.heads = 32, .head_dim = 128, .state_offset = 0};
  const KdaInputs in(random, shape, 4097, -9.0F, -4.0F);
  const ChunkSequences sequences{.prefills = {4096},
                                 .slots = {std::vector<float>(in.size * in.dim)},
                                 .width = static_cast<std::size_t>(shape.size())};
  run_batches(sequences, {{{0, 0, 4096}}}, true, launcher(in, 6));
  run_batches(sequences, {{{0, 0, 4096}}}, false, launcher(in, 2));  // token after token
}

}  // namespace
}  // namespace reprise::gpu::test
