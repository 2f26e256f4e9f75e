// Chunked Kimi Delta Attention on a GPU compared with the plain CPU kernels, and bitwise with itself however
// prompts are cut on the grid and batched.

#include "gpu/cuda/recurrence/kda.h"
#include "tests/gpu/cuda_chunk_rig.h"

namespace reprise::gpu::test {
namespace {

constexpr float kUnitEps = 1e-6F;

struct KdaInputs {
  cuda::KdaShape shape;
  std::size_t heads, dim, size;
  std::size_t beta_stride;
  std::vector<float> q, k, v, f, b;
  std::vector<float> rate, dt_bias;

  KdaInputs(Random& random, const cuda::KdaShape& of, std::size_t rows, float least, float most)
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

  /// Runs rows [begin, end) on the CPU, updating `state` and y.
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
      plain().kda_rule({.state = state.data() + head * dim * dim,
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
  /// Makes passes over the inputs from a row on. Inputs that the kernel overwrites are uploaded again for
  /// each.
  auto passes_over(const KdaInputs& in) {
    return [this, &in, v = upload(in.v), rate = upload(in.rate), dt_bias = upload(in.dt_bias)](
               std::size_t first, float* y) {
      used_up_.clear();
      for (const auto* values : {&in.q, &in.k, &in.f, &in.b}) used_up_.push_back(upload(*values));
      return cuda::KdaPass{.q = used_up_[0].as<float>() + first * in.size,
                           .k = used_up_[1].as<float>() + first * in.size,
                           .v = v.as<float>() + first * in.size,
                           .decay = used_up_[2].as<float>() + first * in.size,
                           .beta = used_up_[3].as<float>() + first * in.beta_stride,
                           .beta_stride = static_cast<int>(in.beta_stride),
                           .rate = rate.as<float>(),
                           .dt_bias = dt_bias.as<float>(),
                           .unit_eps = kUnitEps,
                           .out = y};
    };
  }
  /// The launch function for run_batches().
  auto launcher(const KdaInputs& in, bool token_after_token) {
    return [this, &in, token_after_token, pass_from = passes_over(in)](
               const Batch& batch, const cuda::SlotExports& exports, float* y) {
      const std::size_t bytes = cuda::kda_workspace(in.shape, batch.rows, batch.tile_count);
      const DeviceBytes workspace = spoiled(bytes);
      cuda::KdaPass pass = pass_from(0, y);
      pass.token_after_token = token_after_token;
      pass.workspace = workspace.data();
      pass.exports = exports;
      cuda::kda(in.shape, batch, pass, stream_->handle());
      stream_->wait();  // before the buffers are freed
    };
  }

  void in_chunks(const KdaInputs& in, const ChunkSequences& sequences, bool token_after_token) {
    const auto launch = launcher(in, token_after_token);
    const ChunkResult prefilled = compare(in, sequences, launch);
    if (!token_after_token) return;
    std::vector<Part> whole;  // the same without tiles
    for (std::size_t i = 0; i < sequences.count(); ++i) whole.push_back({i, 0, sequences.prefills[i]});
    const ChunkResult untiled = run_batches(sequences, {whole}, false, launch);
    EXPECT_TRUE(same_bits(untiled.y, prefilled.y));
    EXPECT_TRUE(untiled.slots == prefilled.slots);
  }

  void prefill_and_decode(bool token_after_token);
  /// Row: bf16 or f32.
  template <class Row>
  void gates_and_norms();

 private:
  std::vector<DeviceBytes> used_up_;
};

void CudaKda::prefill_and_decode(bool token_after_token) {
  Random random(42);
  struct Sizes {
    int heads, head_dim;
    std::vector<int> prefills;
    float least, most;  // range of the values that decays are computed from
  };
  const std::vector<Sizes> cases = {{4, 16, {64, 1, 65}, -6.0F, 2.0F},  {3, 32, {130, 40}, -9.0F, -4.0F},
                                    {12, 64, {70, 3, 64}, -6.0F, 2.0F}, {2, 128, {200}, -9.0F, -4.0F},
                                    {2, 128, {130, 17}, -6.0F, 6.0F},   {2, 40, {130, 63}, -6.0F, 2.0F}};
  for (const Sizes& sizes : cases) {  // the last case runs token by token
    SCOPED_TRACE(std::to_string(sizes.heads) + " heads of " + std::to_string(sizes.head_dim) +
                 ", decays from " + std::to_string(sizes.least));
    const cuda::KdaShape shape{.heads = sizes.heads, .head_dim = sizes.head_dim, .state_offset = 0};
    ChunkSequences sequences{
        .prefills = sizes.prefills, .slots = {}, .width = static_cast<std::size_t>(shape.size())};
    const KdaInputs in(random, shape, static_cast<std::size_t>(sequences.rows()), sizes.least, sizes.most);
    const std::size_t slot = in.size * in.dim;
    for (std::size_t i = 0; i < sequences.count(); ++i) {
      sequences.slots.push_back(i == 1 ? std::vector<float>(slot) : random.floats(slot));
    }
    in_chunks(in, sequences, token_after_token);
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
  const cuda::KdaShape shape{.heads = 2, .head_dim = 64, .state_offset = 0};
  const ChunkSequences sequences{.prefills = {200},
                                 .slots = {random.floats(2 * 64 * 64)},
                                 .width = static_cast<std::size_t>(shape.size())};
  KdaInputs in(random, shape, static_cast<std::size_t>(sequences.rows()), -12.0F, -8.0F);
  for (std::size_t i = in.size; i < in.k.size(); ++i) in.k[i] = in.k[i - in.size];
  for (float& value : in.b) value = 6.0F;  // beta near one
  in_chunks(in, sequences, false);
}

TEST_F(CudaKda, WithoutTiles) {
  Random random(34);
  for (const auto& [heads, head_dim] : {std::pair{4, 16}, {3, 8}, {2, 40}, {2, 128}}) {
    SCOPED_TRACE(std::to_string(heads) + " heads of " + std::to_string(head_dim));
    const cuda::KdaShape shape{.heads = heads, .head_dim = head_dim, .state_offset = 0};
    ASSERT_TRUE(cuda::kda_supports(shape));
    const KdaInputs in(random, shape, kRows, -6.0F, 2.0F);
    std::vector<float> state = random.floats(in.size * in.dim);
    const auto pass_from = passes_over(in);
    const auto got =
        same_however_cut<float>(state, in.size, [&](const Batch& batch, std::size_t first, float* y) {
          cuda::kda(shape, batch, pass_from(first, y), stream_->handle());
        });
    std::vector<float> y(kTokens * in.size);
    in.run(state, 0, kTokens, y);
    expect_near(got.y, y, 1e-4F, "y");
    expect_near(got.slot, state, 1e-4F, "the state");
  }
}

template <class Row>
void CudaKda::gates_and_norms() {
  Random random(35);
  for (const auto& [heads, dim] : {std::pair<std::size_t, std::size_t>{4, 16}, {3, 8}, {2, 40}, {2, 128}}) {
    SCOPED_TRACE(std::to_string(heads) + " heads of " + std::to_string(dim));
    const std::size_t size = heads * dim;
    const std::size_t gate_stride = size + 8;
    std::vector<float> y = random.floats(kTokens * size);
    const std::vector<Row> gate = as_rows<Row>(random.floats(kTokens * gate_stride));
    const std::vector<float> wide_gate = widened(gate);
    const std::vector<float> norm = random.floats(dim);
    const DeviceBytes on_y = upload(y);
    const DeviceBytes on_gate = upload(gate);
    const DeviceBytes on_norm = upload(norm);
    const DeviceBytes out(y.size() * sizeof(Row));
    cuda::gate_kda({.heads = static_cast<int>(heads), .head_dim = static_cast<int>(dim), .state_offset = 0},
                   kTokens,
                   cuda::KdaGate<Row>{.y = on_y.as<float>(),
                                      .gate = on_gate.as<Row>(),
                                      .gate_stride = static_cast<int>(gate_stride),
                                      .norm = on_norm.as<float>(),
                                      .norm_offset = 1,
                                      .norm_eps = 1e-5F,
                                      .out = out.as<Row>()},
                   stream_->handle());
    for (std::size_t row = 0; row < kTokens; ++row) {
      float* own = y.data() + row * size;
      plain().rms_norm(own, norm.data(), 1.0F, 1e-5F, own, heads, dim, dim);
      std::vector<float> wide(wide_gate.begin() + static_cast<std::ptrdiff_t>(row * gate_stride),
                              wide_gate.begin() + static_cast<std::ptrdiff_t>(row * gate_stride + size));
      plain().gate_sigmoid(wide.data(), own, size);
    }
    expect_near(widened(download<Row>(out, y.size())), y, tolerance_of<Row>(5e-3F, 2e-5F), "gated");
  }
}
TEST_F(CudaKda, GatesAndNorms) {
  gates_and_norms<Bf16>();
}
TEST_F(CudaKda, GatesAndNormsOfF32) {
  gates_and_norms<float>();
}

}  // namespace
}  // namespace reprise::gpu::test
