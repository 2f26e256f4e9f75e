// Attention on a GPU compared with the CPU, and bitwise with itself.
#include <gtest/gtest.h>

#include "gpu/devices.h"
#include "tests/gpu/cuda_attention_rig.h"
#include "tests/require.h"

namespace reprise::gpu::cuda::test {
namespace {

using gpu::test::same_bits;

class CudaAttention : public testing::Test {
 protected:
  void SetUp() override {
    if (list_devices().empty()) REPRISE_SKIP_WITHOUT("gpu", "no GPU");
  }
};

class CudaAttentionShapes : public CudaAttention, public testing::WithParamInterface<AttentionShape> {};

INSTANTIATE_TEST_SUITE_P(Models, CudaAttentionShapes, testing::ValuesIn(all_shapes()), [](const auto& info) {
  return "head_dim_" + std::to_string(info.param.head_dim) + "_" + std::string(name_of(info.param.kv));
});

TEST_P(CudaAttentionShapes, PrefillOfSeveralSequencesIsThatOfTheCpu) {
  Rig rig(GetParam(), 40, 1);
  compare_prefill(rig, {1, 63, 64, 65, 200, 1000});
}

TEST_P(CudaAttentionShapes, DecodeOfSeveralSequencesIsThatOfTheCpu) {
  Rig rig(GetParam(), 40, 2);
  std::vector<Sequence> sequences;
  std::vector<Piece> history;
  std::vector<Piece> last;
  for (const int length : {1, 2, 64, 65, 200, 256, 257, 1000}) sequences.push_back(rig.sequence(length));
  for (const Sequence& sequence : sequences) {
    if (sequence.length > 1) history.push_back({&sequence, 0, sequence.length - 1});
    last.push_back({&sequence, sequence.length - 1, sequence.length});
  }
  rig.prefill(history);
  const std::vector<Bf16> out = rig.decode(last);
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    EXPECT_TRUE(close(out.data() + i * rig.width(), rig.reference(sequences[i], sequences[i].length - 1),
                      rig.width()))
        << "length " << sequences[i].length;
  }
}

TEST_P(CudaAttentionShapes, OnlyThePlacesOfTokensAreWritten) {
  Rig rig(GetParam(), 20, 3);
  const Sequence prefilled = rig.sequence(200);
  const Sequence decoded = rig.sequence(70);
  rig.prefill({{&prefilled, 0, 200}, {&decoded, 0, 68}});
  rig.decode({{&decoded, 68, 69}});
  std::vector<std::byte> pool = rig.pool();
  const std::vector<std::byte> untouched(row_bytes(GetParam()), std::byte{0xff});
  int missed = 0;
  const auto clear = [&](std::size_t offset, std::size_t size) {
    if (std::memcmp(&pool[offset], untouched.data(), size) == 0) ++missed;
    std::memset(&pool[offset], 0xff, size);
  };
  rig.for_tokens(prefilled, 200, clear);
  rig.for_tokens(decoded, 69, clear);
  EXPECT_EQ(missed, 0);
  EXPECT_EQ(std::count(pool.begin(), pool.end(), std::byte{0xff}), static_cast<std::ptrdiff_t>(pool.size()));
}

TEST_P(CudaAttentionShapes, BitsDoNotDependOnHowAPromptIsSliced) {
  Rig rig(GetParam(), 20, 4);
  const Sequence sequence = rig.sequence(200);
  const std::vector<Bf16> whole = rig.prefill({{&sequence, 0, 200}});
  const std::vector<std::byte> pool = rig.pool();
  EXPECT_TRUE(same_bits(rig.prefill({{&sequence, 0, 200}}), whole)) << "twice the same";
  const std::vector<std::vector<int>> cuts = {{64}, {128}, {192}, {64, 128}, {64, 128, 192}};
  for (const std::vector<int>& cut : cuts) {
    rig.forget();
    EXPECT_TRUE(same_bits(rig.prefill_cut(sequence, cut), whole))
        << "first cut at " << cut[0] << " of " << cut.size();
    EXPECT_EQ(std::memcmp(rig.pool().data(), pool.data(), pool.size()), 0);
  }
}

TEST_P(CudaAttentionShapes, BitsOfARowDoNotDependOnLaterOnes) {
  Rig rig(GetParam(), 20, 5);
  const Sequence sequence = rig.sequence(200);
  const std::vector<Bf16> whole = rig.prefill({{&sequence, 0, 200}});
  for (const int length : {1, 17, 64, 100, 199}) {
    rig.forget();
    EXPECT_TRUE(same_bits(rig.prefill({{&sequence, 0, length}}),
                          rows_of(whole, 0, static_cast<std::size_t>(length), rig.width())))
        << "length " << length;
  }
}

TEST_P(CudaAttentionShapes, BitsDoNotDependOnOtherSequences) {
  Rig rig(GetParam(), 60, 6);
  const Sequence own = rig.sequence(321);
  const Sequence longer = rig.sequence(700);
  const Sequence shorter = rig.sequence(30);
  const std::vector<Bf16> alone = rig.prefill({{&own, 0, 320}});
  const std::vector<Bf16> decoded_alone = rig.decode({{&own, 320, 321}});
  rig.forget();
  const std::vector<Bf16> batched = rig.prefill({{&shorter, 0, 29}, {&own, 0, 320}, {&longer, 0, 699}});
  EXPECT_TRUE(same_bits(rows_of(batched, 29, 349, rig.width()), alone));
  const std::vector<Bf16> decoded = rig.decode({{&longer, 699, 700}, {&shorter, 29, 30}, {&own, 320, 321}});
  EXPECT_TRUE(same_bits(rows_of(decoded, 2, 3, rig.width()), decoded_alone));
  EXPECT_TRUE(same_bits(rig.decode({{&longer, 699, 700}, {&shorter, 29, 30}, {&own, 320, 321}}), decoded))
      << "twice the same";
}

TEST_F(CudaAttention, DecodesMoreRowsThanTheWorkspaceHolds) {
  constexpr int kSequences = 1100;
  const AttentionShape shape = shape_of(4, 2, 16, 8, false, false);
  Rig rig(shape, kSequences, 7);
  std::vector<Sequence> sequences;
  std::vector<Piece> pieces;
  for (int i = 0; i < kSequences; ++i) sequences.push_back(rig.sequence(1));
  for (const Sequence& sequence : sequences) pieces.push_back({&sequence, 0, 1});
  constexpr int kMaxLength = 262144;  // partial results of this many splits would exceed 300 MB
  EXPECT_LT(attention_workspace(shape, kSequences, 0, kMaxLength), std::size_t{128} << 20);
  const std::vector<Bf16> out = rig.decode(pieces, kMaxLength);
  EXPECT_TRUE(same_bits(out, rig.decode(pieces)));
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    ASSERT_TRUE(close(out.data() + i * rig.width(), rig.reference(sequences[i], 0), rig.width()));
  }
}

/// Values that are hard to round: NaN, infinities, ties of both signs, zeros, the smallest and the largest.
std::vector<Bf16> hard_rows(std::size_t rows, std::size_t width) {
  constexpr Bf16 kHard[] = {0x0000, 0x8000, 0x3f80, 0xbf80, 0x0001, 0x8001, 0x007f, 0x0080, 0x7f7f, 0xff7f,
                            0x7f80, 0xff80, 0x7fc0, 0x4000, 0xc000, 0x3f81, 0xbf81, 0x4180, 0xc17f, 0x1234};
  Random random(21);
  std::vector<Bf16> all;
  for (std::size_t row = 0; row < rows; ++row) {
    // Few kinds per row, so that most blocks are finite.
    std::vector<Bf16> kinds;
    for (int i = 0; i < 3; ++i) kinds.push_back(kHard[random.size(0, std::size(kHard) - 1)]);
    for (std::size_t i = 0; i < width; ++i) all.push_back(kinds[random.size(0, 2)]);
  }
  return all;
}

TEST_F(CudaAttention, RowsInBlocksHaveTheBitsOfTheCpu) {
  constexpr int kLength = 300;
  for (const KvType kv : {KvType::kInt8, KvType::kInt4}) {
    for (const int head_dim : {16, 32, 64, 128, 256}) {
      SCOPED_TRACE(std::string(name_of(kv)) + ", heads of " + std::to_string(head_dim));
      Rig rig(kept_as(kv, shape_of(4, 2, head_dim, 0, false, false)), 20, 12);
      const auto size = static_cast<std::size_t>(head_dim);
      const Sequence random = rig.sequence(kLength);
      const Sequence hard = rig.sequence_of(hard_rows(kLength, 4 * size));
      rig.prefill({{&random, 0, kLength}, {&hard, 0, kLength}});
      const std::vector<std::byte> pool = rig.pool();
      for (const Sequence& sequence : {random, hard}) {
        const std::size_t stride = sequence.projected->size() / kLength;
        std::size_t index = 0;  // in the order of for_tokens(): by row, head, then K and V
        rig.for_tokens(sequence, kLength, [&](std::size_t at, std::size_t bytes) {
          const std::size_t row = index / 4;
          const std::size_t head = index / 2 % 2;
          const std::size_t column = 4 * size + (index % 2 * 2 + head) * size;  // after four heads of q
          std::vector<float> x;
          for (std::size_t i = 0; i < size; ++i) {
            x.push_back((*sequence.projected)[row * stride + column + i]);
          }
          std::vector<std::byte> wanted(bytes);
          store_quantized_row(kv, x.data(), size, wanted.data());
          EXPECT_EQ(std::memcmp(&pool[at], wanted.data(), bytes), 0) << "row " << row << ", " << index % 4;
          ++index;
        });
        EXPECT_EQ(index, 4U * kLength);
      }
    }
  }
}

// Few tiles use a two-pass kernel, in several rounds if the scores do not fit.
TEST_F(CudaAttention, FewTilesHaveTheBitsOfMany) {
  constexpr int kLength = 6420;
  std::vector<AttentionShape> shapes;
  for (const int head_dim : {16, 32, 128, 256})
    shapes.push_back(shape_of(8, 2, head_dim, head_dim / 4, true, true));
  for (const int head_dim : {16, 64, 256}) {
    for (const KvType kv : {KvType::kInt8, KvType::kInt4}) {
      shapes.push_back(kept_as(kv, shape_of(8, 2, head_dim, head_dim / 4, true, true)));
    }
  }
  for (const AttentionShape& shape : shapes) {
    Rig rig(shape, kLength / kGrid + 1, 11);
    const Sequence sequence = rig.sequence(kLength);
    const std::vector<Bf16> whole = rig.prefill({{&sequence, 0, kLength}});
    for (const int cut : {5696, 6336, 6400}) {
      rig.forget();
      rig.prefill({{&sequence, 0, cut}});
      const std::vector<Bf16> rest = rig.prefill({{&sequence, cut, kLength}});
      EXPECT_TRUE(same_bits(rest, rows_of(whole, static_cast<std::size_t>(cut), kLength, rig.width())))
          << "from " << cut << ", " << testing::PrintToString(shape);
    }
  }
}

TEST_F(CudaAttention, GroupsOfEverySizeShareTheirKeys) {
  for (const int group : {1, 3, 7, 8, 9, 16}) {
    Rig rig(shape_of(2 * group, 2, 64, 32, true, true), 20, 8);
    const Sequence sequence = rig.sequence(301);
    const std::vector<Bf16> out = rig.prefill({{&sequence, 0, 300}});
    const std::vector<Bf16> last = rig.decode({{&sequence, 300, 301}});
    const std::vector<float> wanted = rig.reference(sequence, 0);
    const std::vector<float> wanted_last(wanted.end() - static_cast<std::ptrdiff_t>(rig.width()),
                                         wanted.end());
    EXPECT_TRUE(close(out.data(), {wanted.begin(), wanted.begin() + static_cast<std::ptrdiff_t>(out.size())},
                      rig.width()))
        << "group " << group;
    EXPECT_TRUE(close(last.data(), wanted_last, rig.width())) << "group " << group;
  }
}

TEST_F(CudaAttention, ShapesWithoutAKernelAreRefused) {
  EXPECT_TRUE(attention_supports(shape_of(8, 2, 256, 32, true, true)));
  EXPECT_FALSE(attention_supports(shape_of(8, 2, 96, 32, true, true)));
  EXPECT_FALSE(attention_supports(shape_of(7, 2, 64, 32, true, true)));
  EXPECT_FALSE(attention_supports(shape_of(34, 2, 64, 32, true, true)));
  EXPECT_FALSE(attention_supports(shape_of(8, 2, 64, 33, true, true)));
  EXPECT_TRUE(attention_supports(kept_as(KvType::kInt4, shape_of(8, 2, 16, 8, true, true))));
  EXPECT_FALSE(attention_supports(kept_as(KvType::kF32, shape_of(8, 2, 64, 32, true, true))));
  EXPECT_FALSE(
      attention_supports(with_window(kept_as(KvType::kInt8, shape_of(8, 2, 64, 32, true, true)), 100)));
  EXPECT_FALSE(
      attention_supports(with_window(kept_as(KvType::kF32, shape_of(8, 2, 64, 32, true, true)), 100)));
  EXPECT_TRUE(attention_supports<float>(kept_as(KvType::kF32, shape_of(8, 2, 64, 32, true, true))));
  EXPECT_TRUE(
      attention_supports<float>(with_window(kept_as(KvType::kF32, shape_of(8, 2, 64, 32, true, true)), 100)));
  EXPECT_FALSE(attention_supports<float>(
      with_window(kept_as(KvType::kInt8, shape_of(8, 2, 64, 32, true, true)), 100)));
}

TEST_F(CudaAttention, RopeTableIsThatOfTheCpu) {
  const std::vector<std::int32_t> positions = {0, 1, 77, 4095, 262143};
  const std::vector<float> inv_freq = {1.0F, 0.3F, 0.01F, 1e-7F};
  constexpr float kFactor = 1.25F;
  Stream stream;
  DeviceBytes positions_there(positions.size() * sizeof(positions[0]));
  DeviceBytes inv_freq_there(inv_freq.size() * sizeof(float));
  const std::size_t count = positions.size() * inv_freq.size();
  DeviceBytes table(2 * count * sizeof(float));
  copy_to_device(positions_there.data(), positions.data(), positions_there.size(), stream.handle());
  copy_to_device(inv_freq_there.data(), inv_freq.data(), inv_freq_there.size(), stream.handle());
  rope_table({.positions = positions_there.as<std::int32_t>(),
              .inv_freq = inv_freq_there.as<float>(),
              .pairs = static_cast<int>(inv_freq.size()),
              .factor = kFactor,
              .cosine = table.as<float>(),
              .sine = table.as<float>() + count},
             static_cast<int>(positions.size()), stream.handle());
  std::vector<float> found(2 * count);
  copy_to_host(found.data(), table.data(), table.size(), stream.handle());
  stream.wait();
  for (std::size_t i = 0; i < count; ++i) {
    const float angle = static_cast<float>(positions[i / inv_freq.size()]) * inv_freq[i % inv_freq.size()];
    EXPECT_NEAR(found[i], std::cos(angle) * kFactor, 1e-6F) << i;
    EXPECT_NEAR(found[count + i], std::sin(angle) * kFactor, 1e-6F) << i;
  }
}

}  // namespace
}  // namespace reprise::gpu::cuda::test
