// Attention with f32 rows on a GPU compared with the CPU, and bitwise with itself: with and without a window,
// prefilled or decoded.
#include <gtest/gtest.h>

#include "gpu/devices.h"
#include "tests/gpu/cuda_attention_rig.h"
#include "tests/require.h"

namespace reprise::gpu::cuda::test {
namespace {

using gpu::test::same_bits;

class CudaPreciseAttention : public testing::TestWithParam<AttentionShape> {
 protected:
  void SetUp() override {
    if (list_devices().empty()) REPRISE_SKIP_WITHOUT("gpu", "no GPU");
    ASSERT_TRUE(attention_supports<float>(GetParam()));
  }
};

constexpr KvType kPreciseKvTypes[] = {KvType::kF32, KvType::kBF16, KvType::kInt8, KvType::kInt4};

/// Shapes of models, and with 1, 6 and 16 query heads per key/value head.
std::vector<AttentionShape> precise_shapes() {
  std::vector<AttentionShape> shapes = all_shapes(kPreciseKvTypes);
  std::vector<AttentionShape> others = {shape_of(3, 3, 64, 32, true, false),
                                        shape_of(12, 2, 32, 0, false, false),
                                        shape_of(16, 1, 128, 13, true, true)};
  for (AttentionShape& shape : others) shape.score_multiplier = 1.5F;
  for (const AttentionShape& shape : kept_as_each(kPreciseKvTypes, others)) shapes.push_back(shape);
  return shapes;
}

INSTANTIATE_TEST_SUITE_P(Models, CudaPreciseAttention, testing::ValuesIn(precise_shapes()),
                         [](const auto& info) {
                           return std::to_string(info.param.heads) + "_heads_of_" +
                                  std::to_string(info.param.head_dim) + "_" +
                                  std::string(name_of(info.param.kv));
                         });

TEST_P(CudaPreciseAttention, IsThatOfTheCpu) {
  Rig<float> rig(GetParam(), 40, 31);
  std::vector<Sequence> sequences;
  std::vector<Piece> prompts;
  std::vector<Piece> last;
  for (const int length : {2, 65, 200, 513}) sequences.push_back(rig.sequence(length));
  for (const Sequence& sequence : sequences) {
    prompts.push_back({&sequence, 0, sequence.length - 1});
    last.push_back({&sequence, sequence.length - 1, sequence.length});
  }
  const std::vector<float> prefilled = rig.prefill(prompts);
  const std::vector<float> decoded = rig.decode(last);
  // Rounding may differ from the CPU's by one step.
  std::vector<std::byte> pool;
  if (GetParam().kv != KvType::kF32) pool = rig.pool();
  std::size_t row = 0;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const std::vector<float> wanted = rig.reference(sequences[i], 0, pool);
    const auto edge = wanted.end() - static_cast<std::ptrdiff_t>(rig.width());
    EXPECT_TRUE(close(prefilled.data() + row * rig.width(), {wanted.begin(), edge}, rig.width()))
        << "prefill, length " << sequences[i].length;
    EXPECT_TRUE(close(decoded.data() + i * rig.width(), {edge, wanted.end()}, rig.width()))
        << "decode, length " << sequences[i].length;
    row += static_cast<std::size_t>(sequences[i].length) - 1;
  }
}

TEST_P(CudaPreciseAttention, BitsDependNeitherOnCutsNorOnThePhase) {
  Rig<float> rig(GetParam(), 20, 32);
  const Sequence sequence = rig.sequence(330);
  const std::vector<float> whole = rig.prefill({{&sequence, 0, sequence.length}});
  const std::vector<std::byte> pool = rig.pool();
  const std::vector<std::vector<int>> cuts = {{64}, {320}, {64, 128, 256}};
  for (const std::vector<int>& cut : cuts) {
    rig.forget();
    EXPECT_TRUE(same_bits(rig.prefill_cut(sequence, cut), whole))
        << "first cut at " << cut[0] << " of " << cut.size();
    EXPECT_EQ(std::memcmp(rig.pool().data(), pool.data(), pool.size()), 0);
  }
  for (const int prefilled : {0, 64, 300}) {
    rig.forget();
    EXPECT_TRUE(same_bits(rig.decode_from(sequence, prefilled), whole)) << "decoded from " << prefilled;
    EXPECT_EQ(std::memcmp(rig.pool().data(), pool.data(), pool.size()), 0);
  }
}

TEST_P(CudaPreciseAttention, BitsDoNotDependOnOtherRows) {
  Rig<float> rig(GetParam(), 60, 33);
  const Sequence own = rig.sequence(321);
  const Sequence longer = rig.sequence(700);
  const Sequence shorter = rig.sequence(30);
  const std::vector<float> alone = rig.prefill({{&own, 0, 320}});
  const std::vector<float> decoded_alone = rig.decode({{&own, 320, 321}});
  rig.forget();
  const std::vector<float> batched = rig.prefill({{&shorter, 0, 29}, {&own, 0, 320}, {&longer, 0, 699}}, 15);
  EXPECT_TRUE(same_bits(rows_of(batched, 29, 349, rig.width()), alone));
  const std::vector<float> decoded = rig.decode({{&longer, 699, 700}, {&shorter, 29, 30}, {&own, 320, 321}});
  EXPECT_TRUE(same_bits(rows_of(decoded, 2, 3, rig.width()), decoded_alone));
}

/// Rings in f32 and in bf16.
class CudaPreciseWindow : public CudaPreciseAttention {};

std::string name_of_window(const testing::TestParamInfo<AttentionShape>& info) {
  return "head_dim_" + std::to_string(info.param.head_dim) + "_window_" + std::to_string(info.param.window);
}
INSTANTIATE_TEST_SUITE_P(InF32, CudaPreciseWindow, testing::ValuesIn(shapes_with_windows(KvType::kF32)),
                         name_of_window);
INSTANTIATE_TEST_SUITE_P(InBf16, CudaPreciseWindow, testing::ValuesIn(shapes_with_windows()), name_of_window);

TEST_P(CudaPreciseWindow, IsThatOfTheCpu) {
  constexpr double kRoundedKeys = 5e-3;  // some keys round differently from the CPU's
  Rig<float> rig(GetParam(), 40, 34);
  compare_prefill(rig, {1, 64, 65, 200, 777},
                  GetParam().kv == KvType::kF32 ? kUsualBound<float> : kRoundedKeys);
}

TEST_P(CudaPreciseWindow, BitsAndRingDependOnNeitherSlicingNorPhase) {
  Rig<float> rig(GetParam(), 20, 35);
  const Sequence sequence = rig.sequence(500);
  const std::vector<float> whole = rig.prefill({{&sequence, 0, sequence.length}});
  const std::vector<std::byte> ring = rig.ring(sequence);
  const std::vector<std::vector<int>> cuts = {{64}, {448}, {128, 192}, {64, 128, 192, 256, 320, 384, 448}};
  for (const std::vector<int>& cut : cuts) {
    rig.forget();
    EXPECT_TRUE(same_bits(rig.prefill_cut(sequence, cut), whole))
        << "first cut at " << cut[0] << " of " << cut.size();
    EXPECT_EQ(rig.ring(sequence), ring) << "first cut at " << cut[0] << " of " << cut.size();
  }
  for (const int prefilled : {0, 64, 450}) {
    rig.forget();
    EXPECT_TRUE(same_bits(rig.decode_from(sequence, prefilled), whole)) << "decoded from " << prefilled;
    EXPECT_EQ(rig.ring(sequence), ring) << "decoded from " << prefilled;
  }
}

TEST_P(CudaPreciseWindow, RingsInsideASliceAreThoseOfSlicesThatEndThere) {
  constexpr int kBegin = 128;
  Rig<float> rig(GetParam(), 60, 36);
  const Sequence sequence = rig.sequence(500);
  const Sequence other = rig.sequence(70);
  const Sequence shorter = rig.twin(sequence);
  const Sequence early = rig.twin(sequence);
  const Sequence late = rig.twin(sequence);
  rig.prefill({{&sequence, 0, kBegin}});
  rig.want_ring(2, early);  // after the two tiles of the other sequence
  rig.want_ring(6, late);
  rig.prefill({{&other, 0, other.length}, {&sequence, kBegin, sequence.length}});
  rig.prefill({{&shorter, 0, kBegin + kGrid}});
  EXPECT_EQ(rig.ring(early), rig.ring(shorter));
  rig.prefill({{&shorter, kBegin + kGrid, kBegin + 5 * kGrid}});
  EXPECT_EQ(rig.ring(late), rig.ring(shorter));
}

}  // namespace
}  // namespace reprise::gpu::cuda::test
