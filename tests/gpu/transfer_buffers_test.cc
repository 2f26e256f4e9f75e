// Transfer buffers for states: preallocated within a bound, lent in parts, with the heap as fallback.

#include "gpu/state/transfer_buffers.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace reprise::gpu {
namespace {

constexpr std::size_t kOne = TransferBuffers::kStep;

/// Counts the blocks it makes; the blocks are real because tests write to them.
struct Maker {
  std::size_t made = 0;
  std::size_t live = 0;
  bool empty = false;
  std::byte* last = nullptr;
  std::size_t last_bytes = 0;

  TransferBuffers::Make function() {
    return [this](std::size_t bytes) -> std::shared_ptr<std::byte> {
      if (empty) return nullptr;
      ++made;
      ++live;
      last = new std::byte[bytes];
      last_bytes = bytes;
      return {last, [this](std::byte* block) {
                --live;
                delete[] block;
              }};
    };
  }
};

/// True if `bytes` are in the only block made.
bool is_within(const Maker& maker, const HostBytes& bytes) {
  return bytes.span().data() >= maker.last &&
         bytes.span().data() + bytes.size() <= maker.last + maker.last_bytes;
}

TEST(TransferBuffersTest, WhatWasPreparedIsLentInPartsAndAgain) {
  Maker maker;
  TransferBuffers buffers(maker.function(), 8 * kOne);
  buffers.prepare(2 * kOne);
  const std::byte* first = nullptr;
  {
    const HostBytes a = buffers.take(kOne - 5), b = buffers.take(kOne);
    EXPECT_EQ(a.size(), kOne - 5);
    EXPECT_TRUE(is_within(maker, a));
    EXPECT_TRUE(is_within(maker, b));
    EXPECT_TRUE(a.span().data() + a.size() <= b.span().data() ||
                b.span().data() + b.size() <= a.span().data());
    first = a.span().data();
  }
  const HostBytes again = buffers.take(2 * kOne);
  EXPECT_EQ(again.span().data(), first);
  EXPECT_EQ(maker.made, 1U);
  EXPECT_EQ(buffers.made_bytes(), 2 * kOne);
}

TEST(TransferBuffersTest, WhatWasNotPreparedIsTheHeaps) {
  Maker maker;
  TransferBuffers buffers(maker.function(), 2 * kOne);
  buffers.take(kOne).span().back() = std::byte{1};
  EXPECT_EQ(maker.made, 0U) << "who takes does not wait until something is made";
  buffers.prepare(kOne);
  const HostBytes a = buffers.take(kOne), b = buffers.take(1);
  EXPECT_TRUE(is_within(maker, a));
  EXPECT_FALSE(is_within(maker, b));
  b.span().back() = std::byte{1};
  EXPECT_EQ(buffers.take(0).size(), 0U);
}

TEST(TransferBuffersTest, NoMoreIsMadeThanTheBoundHas) {
  Maker maker;
  TransferBuffers buffers(maker.function(), 2 * kOne + 1000);
  buffers.prepare(100 * kOne);
  EXPECT_LE(buffers.made_bytes(), 2 * kOne + 1000);
  EXPECT_GT(buffers.made_bytes(), 2 * kOne);
  buffers.prepare(100 * kOne);
  EXPECT_EQ(maker.made, 1U) << "as much as there can be is there";
}

TEST(TransferBuffersTest, WhatIsNotLentMakesRoomForALargerOne) {
  Maker maker;
  TransferBuffers buffers(maker.function(), 4 * kOne);
  buffers.prepare(kOne);
  buffers.prepare(2 * kOne);
  EXPECT_EQ(maker.live, 2U);
  {
    const HostBytes lent = buffers.take(1);
    buffers.prepare(4 * kOne);
    EXPECT_EQ(maker.live, 1U) << "one is lent, and there is no room beside it";
  }
  buffers.prepare(4 * kOne);
  EXPECT_EQ(maker.live, 1U);
  EXPECT_EQ(buffers.made_bytes(), 4 * kOne);
  EXPECT_TRUE(is_within(maker, buffers.take(4 * kOne)));
}

TEST(TransferBuffersTest, WhatIsLargeEnoughIsNotMadeAgain) {
  Maker maker;
  TransferBuffers buffers(maker.function(), 4 * kOne);
  buffers.prepare(2 * kOne);
  buffers.prepare(2 * kOne);
  buffers.prepare(1);
  EXPECT_EQ(maker.made, 1U);
}

TEST(TransferBuffersTest, WhereThereIsNoneItIsNotAskedForAgain) {
  Maker maker;
  maker.empty = true;
  TransferBuffers buffers(maker.function(), 4 * kOne);
  buffers.prepare(kOne);
  buffers.take(kOne).span().front() = std::byte{1};
  maker.empty = false;
  buffers.prepare(kOne);
  EXPECT_EQ(maker.made, 0U);
  EXPECT_EQ(buffers.made_bytes(), 0U);
  EXPECT_EQ(take_transfer(nullptr, 10).size(), 10U);
}

TEST(TransferBuffersTest, NobodyWaitsForWhatIsBeingMade) {
  TransferBuffers* lender = nullptr;
  std::size_t lent = 0;
  const auto make = [&](std::size_t bytes) -> std::shared_ptr<std::byte> {
    lent += lender->take(100).size();  // would never return
    return {new std::byte[bytes], std::default_delete<std::byte[]>()};
  };
  TransferBuffers buffers(make, 4 * kOne);
  lender = &buffers;
  buffers.prepare(kOne);
  EXPECT_EQ(lent, 100U);
}

TEST(TransferBuffersTest, ABufferMayOutliveThem) {
  Maker maker;
  auto buffers = std::make_optional<TransferBuffers>(maker.function(), 4 * kOne);
  buffers->prepare(kOne);
  {
    const HostBytes lent = buffers->take(kOne);
    buffers.reset();
    lent.span().front() = std::byte{1};
    EXPECT_EQ(maker.live, 1U);
  }
  EXPECT_EQ(maker.live, 0U);
}

}  // namespace
}  // namespace reprise::gpu
