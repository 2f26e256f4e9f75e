// Packed values: unpacking is bit-exact, and rejects everything else.

#include "protocol/snapshots/byte_planes.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace reprise::protocol::snapshots {
namespace {

using Bytes = std::vector<std::byte>;

/// Returns normally distributed floats, or their upper halves.
Bytes floats(std::size_t count, std::size_t width) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  Bytes bytes(count * width);
  for (std::size_t i = 0; i < count; ++i) {
    const float value = normal(random);
    std::memcpy(bytes.data() + i * width, reinterpret_cast<const std::byte*>(&value) + 4 - width, width);
  }
  return bytes;
}

Bytes noise(std::size_t size) {
  std::mt19937 random(9);
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

TEST(BytePlanes, FloatsShrinkAndComeBack) {
  for (const std::size_t width : {2U, 4U}) {
    for (const std::size_t odd : {0U, 1U, 3U}) {
      Bytes plain = floats(40'000, width);
      plain.resize(plain.size() - odd);
      const auto packed = pack_numbers(plain);
      ASSERT_TRUE(packed);
      EXPECT_EQ(static_cast<std::size_t>(packed->front()), width);
      EXPECT_LT(packed->size(), plain.size() * (width == 2 ? 75 : 90) / 100);
      Bytes back(plain.size(), std::byte{0xee});
      ASSERT_TRUE(unpack_numbers(*packed, back));
      EXPECT_EQ(back, plain);
    }
  }
}

TEST(BytePlanes, SmallAndUniformOnesToo) {
  for (const std::size_t size : {64U, 65U, 1000U}) {
    const Bytes plain(size, std::byte{3});
    const auto packed = pack_numbers(plain);
    ASSERT_TRUE(packed) << size;
    Bytes back(size);
    ASSERT_TRUE(unpack_numbers(*packed, back));
    EXPECT_EQ(back, plain);
  }
}

TEST(BytePlanes, WhatDoesNotShrinkIsNotPacked) {
  EXPECT_FALSE(pack_numbers({}));
  EXPECT_FALSE(pack_numbers(noise(1)));
  EXPECT_FALSE(pack_numbers(noise(100'000)));
}

TEST(BytePlanes, WhatWasNotPackedOrIsOfAnotherSizeIsRefused) {
  const Bytes plain = floats(2'000, 2);
  const Bytes packed = *pack_numbers(plain);
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, plain.size() - 1, plain.size() + 1, 2 * plain.size()}) {
    Bytes back(size);
    EXPECT_FALSE(unpack_numbers(packed, back)) << size;
  }
  Bytes back(plain.size());
  for (std::size_t length = 0; length < packed.size(); ++length) {
    EXPECT_FALSE(unpack_numbers(std::span(packed).first(length), back)) << length;
  }
  EXPECT_FALSE(unpack_numbers(noise(3'000), back));
  // Lengths cannot cause reads out of bounds: checked by the sanitizers.
  for (std::size_t at = 0; at < 12; ++at) {
    for (int value = 0; value < 256; ++value) {
      Bytes changed = packed;
      changed[at] = static_cast<std::byte>(value);
      static_cast<void>(unpack_numbers(changed, back));
    }
  }
}

}  // namespace
}  // namespace reprise::protocol::snapshots
