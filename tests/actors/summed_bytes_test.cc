// Byte buffers with digests of their pieces: copies are equal, and any change is detected.

#include "actors/tiers/host_tier.h"

#include <gtest/gtest.h>

#include <random>

namespace reprise::actors {
namespace {

constexpr std::size_t kPiece = SummedBytes::kPiece;

std::vector<std::byte> random_bytes(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

TEST(SummedBytesTest, PartsAreCopiedOneBehindTheOther) {
  std::vector<std::byte> all, copy;
  std::vector<SummedBytes> parts;
  for (const std::size_t size : {std::size_t{1}, kPiece, std::size_t{0}, 20 * kPiece + 3}) {
    const std::vector<std::byte> bytes = random_bytes(size, static_cast<unsigned>(size) + 1);
    parts.emplace_back(bytes);
    EXPECT_EQ(parts.back().size(), size);
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  std::vector<const SummedBytes*> pointers;
  for (const SummedBytes& part : parts) pointers.push_back(&part);
  copy.resize(all.size());
  EXPECT_TRUE(copy_compared(pointers, copy));
  EXPECT_EQ(copy, all);
}

TEST(SummedBytesTest, AChangeIsFoundOutWhereverItIs) {
  const SummedBytes part(random_bytes(18 * kPiece + 100, 1));
  const SummedBytes* one = &part;
  std::vector<std::byte> to(part.size());
  for (const std::size_t at : {std::size_t{0}, kPiece, 9 * kPiece + 17, part.size() - 1}) {
    part.contents()[at] ^= std::byte{4};
    EXPECT_FALSE(copy_compared({&one, 1}, to)) << at;
    part.contents()[at] ^= std::byte{4};
    EXPECT_TRUE(copy_compared({&one, 1}, to)) << at;
  }
}

}  // namespace
}  // namespace reprise::actors
