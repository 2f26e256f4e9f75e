// RWKV-7 on a GPU compared with the plain CPU kernels, and bitwise with itself however sequences are sliced
// and batched.

#include "gpu/cuda/recurrence/rwkv.h"
#include "tests/gpu/cuda_scan_rig.h"

namespace reprise::gpu::test {
namespace {

/// Rows are bf16 or f32.
class CudaRwkv : public CudaScan {
 protected:
  template <class Row>
  void token_shifts();
  template <class Row>
  void functions_between_products();
  template <class Row>
  void the_recurrence();
};

template <class Row>
void CudaRwkv::token_shifts() {
  Random random(51);
  constexpr std::size_t kSize = 130;
  for (const std::size_t mixes : {1U, 6U}) {
    SCOPED_TRACE(std::to_string(mixes) + " mixes");
    const std::vector<Row> x = as_rows<Row>(random.floats(kRows * kSize));
    const std::vector<float> mix = random.floats(mixes * kSize);
    const std::vector<float> slot = widened(as_rows<Row>(random.floats(kSize)));
    const DeviceBytes on_x = upload(x);
    const DeviceBytes on_mix = upload(mix);
    // One row of the concatenated tables of all mixes.
    const auto got =
        same_however_cut<Row>(slot, mixes * kSize, [&](const Batch& batch, std::size_t first, Row* y) {
          const std::size_t table = kRows * kSize;
          const DeviceBytes tables = upload(std::vector<Row>(mixes * table));
          cuda::token_shift(batch,
                            cuda::TokenShiftPass<Row>{.x = on_x.as<Row>() + first * kSize,
                                                      .size = static_cast<int>(kSize),
                                                      .mix = on_mix.as<float>(),
                                                      .mixes = static_cast<int>(mixes),
                                                      .y = tables.as<Row>(),
                                                      .table = table,
                                                      .state_offset = 0},
                            stream_->handle());
          const std::vector<Row> made = download<Row>(tables, mixes * table);
          std::vector<Row> rows;
          for (std::size_t row = 0; row < static_cast<std::size_t>(batch.rows); ++row) {
            for (std::size_t m = 0; m < mixes; ++m) {
              const auto from = made.begin() + static_cast<std::ptrdiff_t>(m * table + row * kSize);
              rows.insert(rows.end(), from, from + kSize);
            }
          }
          cuda::copy_to_device(reinterpret_cast<std::byte*>(y), rows.data(), rows.size() * sizeof(Row),
                               stream_->handle());
          stream_->wait();
        });
    std::vector<float> previous = slot;
    const std::vector<float> wide = widened(x);
    std::vector<float> tables(mixes * kTokens * kSize);
    plain().token_shift({.previous = previous.data(),
                         .x = wide.data(),
                         .mix = mix.data(),
                         .y = tables.data(),
                         .size = kSize,
                         .mixes = mixes,
                         .tokens = kTokens,
                         .table = kTokens * kSize},
                        0, kSize);
    std::vector<float> wanted;
    for (std::size_t row = 0; row < kTokens; ++row) {
      for (std::size_t m = 0; m < mixes; ++m) {
        const auto from = tables.begin() + static_cast<std::ptrdiff_t>((m * kTokens + row) * kSize);
        wanted.insert(wanted.end(), from, from + kSize);
      }
    }
    expect_near(widened(got.y), wanted, tolerance_of<Row>(5e-3F, 2e-5F), "y");
    EXPECT_TRUE(same_bits(got.slot, previous));
  }
}
TEST_F(CudaRwkv, TokenShifts) {
  token_shifts<Bf16>();
}
TEST_F(CudaRwkv, TokenShiftsOfF32) {
  token_shifts<float>();
}

template <class Row>
void CudaRwkv::functions_between_products() {
  Random random(52);
  const std::vector<float> x = random.between(7 * 40, -5.0F, 5.0F);
  const DeviceBytes on_x = upload(x);
  for (const auto act :
       {cuda::PairFunction::kNone, cuda::PairFunction::kTanh, cuda::PairFunction::kSigmoid}) {
    const DeviceBytes y(7 * 48 * sizeof(Row));
    cuda::fill(y.data(), 0xff, y.size(), stream_->handle());
    cuda::activate_rows(on_x.as<float>(), 7, 40, act, y.as<Row>(), 48, stream_->handle());
    std::vector<float> made = x;
    if (act == cuda::PairFunction::kTanh) plain().to_tanh(made.data(), made.size());
    if (act == cuda::PairFunction::kSigmoid) plain().to_sigmoid(made.data(), made.size());
    std::vector<float> wanted(7 * 48);
    for (std::size_t i = 0; i < made.size(); ++i) wanted[i / 40 * 48 + i % 40] = made[i];
    expect_near(widened(download<Row>(y, wanted.size())), wanted, tolerance_of<Row>(5e-3F, 2e-5F), "y");
  }
}
TEST_F(CudaRwkv, FunctionsBetweenProducts) {
  functions_between_products<Bf16>();
  functions_between_products<float>();
}

template <class Row>
void CudaRwkv::the_recurrence() {
  Random random(53);
  struct Sizes {
    int heads, head_dim;
    bool is_first;
  };
  for (const Sizes& sizes : {Sizes{2, 64, true}, {2, 64, false}, {3, 8, false}, {2, 40, true}}) {
    SCOPED_TRACE(std::to_string(sizes.heads) + " heads of " + std::to_string(sizes.head_dim));
    const cuda::WkvShape shape{.heads = sizes.heads, .head_dim = sizes.head_dim, .state_offset = 0};
    ASSERT_TRUE(cuda::wkv_supports(shape));
    const auto heads = static_cast<std::size_t>(sizes.heads);
    const auto dim = static_cast<std::size_t>(sizes.head_dim);
    const std::size_t size = heads * dim;
    const auto table = [&] { return random.floats(kRows * size); };
    const std::vector<float> slot = random.floats(size * dim);
    const std::vector<float> r = table(), k = table(), v = table(), decay = table(), rate = table();
    const std::vector<float> gate = table(), mix = table(), first_values = table();
    const std::vector<float> key_scale = random.floats(size), rate_scale = random.floats(size);
    const std::vector<float> bonus = random.floats(size), norm = random.floats(size),
                             norm_bias = random.floats(size);
    const DeviceBytes on_r = upload(r), on_gate = upload(gate), on_mix = upload(mix);
    const DeviceBytes on_key_scale = upload(key_scale), on_rate_scale = upload(rate_scale);
    const DeviceBytes on_bonus = upload(bonus), on_norm = upload(norm), on_norm_bias = upload(norm_bias);
    std::vector<float> handed_on;
    const auto got = same_however_cut<Row>(slot, size, [&](const Batch& batch, std::size_t first, Row* y) {
      const DeviceBytes used_up[] = {upload(decay), upload(rate), upload(k), upload(v)};
      const DeviceBytes on_first = upload(first_values);
      const DeviceBytes key = upload(r), made = upload(r);
      const std::size_t at = first * size;
      cuda::wkv(shape, batch,
                cuda::WkvPass<Row>{.r = on_r.as<float>() + at,
                                   .decay = used_up[0].as<float>() + at,
                                   .rate = used_up[1].as<float>() + at,
                                   .k = used_up[2].as<float>() + at,
                                   .v = used_up[3].as<float>() + at,
                                   .key = key.as<float>() + at,
                                   .mix = sizes.is_first ? nullptr : on_mix.as<float>() + at,
                                   .first = on_first.as<float>() + at,
                                   .key_scale = on_key_scale.as<float>(),
                                   .rate_scale = on_rate_scale.as<float>(),
                                   .norm = on_norm.as<float>(),
                                   .norm_bias = on_norm_bias.as<float>(),
                                   .norm_eps = 64e-5F,
                                   .bonus = on_bonus.as<float>(),
                                   .gate = on_gate.as<float>() + at,
                                   .made = made.as<float>() + at,
                                   .out = y},
                stream_->handle());
      handed_on = download<float>(on_first, kRows * size);
    });
    if (sizes.is_first) {
      EXPECT_TRUE(same_bits(handed_on, v));  // the last run covered all rows
    }

    std::vector<float> state = slot, y(kTokens * size), key(kTokens * size);
    std::vector<float> made_decay = decay, made_rate = rate, made_k = k, made_v = v;
    plain().wkv_gates({.decay = made_decay.data(),
                       .rate = made_rate.data(),
                       .k = made_k.data(),
                       .key = key.data(),
                       .v = made_v.data(),
                       .mix = sizes.is_first ? nullptr : mix.data(),
                       .first = first_values.data(),
                       .key_scale = key_scale.data(),
                       .rate_scale = rate_scale.data(),
                       .rows = kTokens,
                       .heads = heads,
                       .head_dim = dim});
    for (std::size_t head = 0; head < heads; ++head) {
      const std::size_t at = head * dim;
      plain().wkv_rule({.state = state.data() + at * dim,
                        .head_dim = dim,
                        .tokens = kTokens,
                        .r = r.data() + at,
                        .k = made_k.data() + at,
                        .v = made_v.data() + at,
                        .decay = made_decay.data() + at,
                        .key = key.data() + at,
                        .rate = made_rate.data() + at,
                        .stride = size,
                        .out = y.data() + at});
    }
    plain().layer_norm({.x = y.data(),
                        .weight = norm.data(),
                        .bias = norm_bias.data(),
                        .eps = 64e-5F,
                        .y = y.data(),
                        .rows = kTokens * heads,
                        .groups = heads,
                        .size = dim});
    plain().wkv_output({.y = y.data(),
                        .r = r.data(),
                        .k = made_k.data(),
                        .v = made_v.data(),
                        .bonus = bonus.data(),
                        .gate = gate.data(),
                        .rows = kTokens,
                        .heads = heads,
                        .head_dim = dim});
    expect_near(widened(got.y), y, tolerance_of<Row>(1e-2F, 1e-4F), "y");
    expect_near(got.slot, state, 1e-4F, "the state");
  }
}
TEST_F(CudaRwkv, TheRecurrence) {
  the_recurrence<Bf16>();
}
TEST_F(CudaRwkv, TheRecurrenceOfF32) {
  the_recurrence<float>();
}

}  // namespace
}  // namespace reprise::gpu::test
