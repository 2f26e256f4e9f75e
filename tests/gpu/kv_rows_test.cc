// Block-quantized keys and values: error bounds of dequantized rows.

#include "gpu/state/kv_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace reprise::gpu {
namespace {

std::vector<float> stored(KvType kv, const std::vector<float>& row) {
  std::vector<std::byte> bytes(kv_row_bytes(kv, row.size()) + 1, std::byte{0x5a});
  store_quantized_row(kv, row.data(), row.size(), bytes.data());
  EXPECT_EQ(bytes.back(), std::byte{0x5a}) << "behind the row";
  std::vector<float> back(row.size());
  load_quantized_row(kv, bytes.data(), row.size(), back.data());
  return back;
}

float farthest(const std::vector<float>& row, std::size_t block) {
  float most = 0;
  for (std::size_t i = block * kKvBlock; i < std::min(row.size(), (block + 1) * kKvBlock); ++i) {
    most = std::max(most, std::abs(row[i]));
  }
  return most;
}

class KvRows : public testing::TestWithParam<KvType> {
 protected:
  bool is_int8() const { return GetParam() == KvType::kInt8; }
};

TEST_P(KvRows, WhatComesBackIsNear) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (const std::size_t size : {1U, 31U, 32U, 33U, 64U, 100U, 256U}) {
    for (const float scale : {1.0F, 1e-20F, 1e20F}) {
      std::vector<float> row(size);
      for (float& value : row) value = scale * normal(random);
      const std::vector<float> back = stored(GetParam(), row);
      for (std::size_t i = 0; i < size; ++i) {
        // Half a step, where a step is 1/127 (int8) or 1/8 (int4) of the largest magnitude, rounded to bf16.
        // At int4's largest positive value the error may be a whole step.
        const float step = farthest(row, i / kKvBlock) * (is_int8() ? 1.01F / 127 : 1.01F / 8);
        ASSERT_LE(std::abs(back[i] - row[i]), (is_int8() ? 0.51F : 1.01F) * step) << size << " " << i;
      }
    }
  }
}

TEST_P(KvRows, WholeNumbersOfAStepComeBackAsTheyWere) {
  std::vector<float> row(2 * kKvBlock);
  for (std::size_t i = 0; i < row.size(); ++i)
    row[i] = 0.25F * static_cast<float>(static_cast<int>(i % 15) - 7);
  row[0] = row[kKvBlock] = is_int8() ? -0.25F * 127 : -0.25F * 8;
  EXPECT_EQ(stored(GetParam(), row), row);
  EXPECT_EQ(stored(GetParam(), std::vector<float>(40, 0.0F)), std::vector<float>(40, 0.0F));
}

TEST_P(KvRows, ABlockWithoutFiniteNumbersIsNoNumber) {
  for (const float wrong : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    std::vector<float> row(3 * kKvBlock, 1.0F);
    row[40] = wrong;
    const std::vector<float> back = stored(GetParam(), row);
    for (std::size_t i = 0; i < row.size(); ++i) EXPECT_EQ(std::isnan(back[i]), i / kKvBlock == 1) << i;
  }
}

TEST(KvRowBytes, AreWhatALayoutCounts) {
  EXPECT_EQ(kv_row_bytes(KvType::kF32, 128), 512U);
  EXPECT_EQ(kv_row_bytes(KvType::kBF16, 128), 256U);
  EXPECT_EQ(kv_row_bytes(KvType::kInt8, 128), 136U);
  EXPECT_EQ(kv_row_bytes(KvType::kInt4, 128), 72U);
  EXPECT_EQ(kv_row_bytes(KvType::kInt4, 33), 36U);
  for (const KvType kv : {KvType::kF32, KvType::kBF16, KvType::kInt8, KvType::kInt4}) {
    EXPECT_EQ(kv_named(name_of(kv)), kv);
  }
  EXPECT_EQ(kv_named("int5"), std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(, KvRows, testing::Values(KvType::kInt8, KvType::kInt4),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace reprise::gpu
