// Buffers for states on their way to a device: kept for the next, within a bound, and the heap beyond it.

#include "gpu/transfer_buffers.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace reprise::gpu {
namespace {

constexpr std::size_t kOne = TransferBuffers::kStep;

/// Counts what it makes; the blocks are real, for they are written to.
struct Maker {
  std::size_t made = 0;
  std::size_t live = 0;
  bool empty = false;

  TransferBuffers::Make function() {
    return [this](std::size_t bytes) -> std::shared_ptr<std::byte> {
      if (empty) return nullptr;
      ++made;
      ++live;
      return {new std::byte[bytes], [this](std::byte* block) {
                --live;
                delete[] block;
              }};
    };
  }
};

TEST(TransferBuffersTest, WhatComesBackIsLentAgain) {
  Maker maker;
  TransferBuffers buffers(maker.function(), 8 * kOne);
  std::byte* first = nullptr;
  {
    const HostBytes lent = buffers.take(kOne - 5);
    EXPECT_EQ(lent.size(), kOne - 5);
    first = lent.span().data();
    lent.span().front() = lent.span().back() = std::byte{1};
  }
  const HostBytes again = buffers.take(kOne / 2 + 1);
  EXPECT_EQ(again.span().data(), first);
  EXPECT_EQ(maker.made, 1U);
  EXPECT_EQ(buffers.made_bytes(), kOne);
}

TEST(TransferBuffersTest, BeyondTheBoundItIsTheHeaps) {
  Maker maker;
  TransferBuffers buffers(maker.function(), 2 * kOne);
  const HostBytes a = buffers.take(kOne), b = buffers.take(kOne), c = buffers.take(kOne);
  EXPECT_EQ(maker.made, 2U);
  EXPECT_EQ(c.size(), kOne);
  c.span().back() = std::byte{1};
  EXPECT_EQ(buffers.made_bytes(), 2 * kOne);
}

TEST(TransferBuffersTest, KeptOnesMakeRoomForALargerOne) {
  Maker maker;
  TransferBuffers buffers(maker.function(), 4 * kOne);
  { const HostBytes a = buffers.take(kOne), b = buffers.take(kOne), c = buffers.take(kOne); }
  const HostBytes large = buffers.take(4 * kOne);
  EXPECT_EQ(maker.made, 4U);
  EXPECT_EQ(maker.live, 1U) << "the small ones were given back";
  EXPECT_EQ(buffers.made_bytes(), 4 * kOne);
}

TEST(TransferBuffersTest, WhatIsPreparedIsLent) {
  Maker maker;
  TransferBuffers buffers(maker.function(), 4 * kOne);
  buffers.prepare(2 * kOne);
  buffers.prepare(2 * kOne);
  EXPECT_EQ(maker.made, 1U);
  const HostBytes lent = buffers.take(2 * kOne);
  EXPECT_EQ(maker.made, 1U);
}

TEST(TransferBuffersTest, WhereThereIsNoneItIsNotAskedForAgain) {
  Maker maker;
  maker.empty = true;
  TransferBuffers buffers(maker.function(), 4 * kOne);
  buffers.take(kOne).span().front() = std::byte{1};
  maker.empty = false;
  buffers.take(kOne).span().front() = std::byte{1};
  EXPECT_EQ(maker.made, 0U);
  EXPECT_EQ(take_transfer(nullptr, 10).size(), 10U);
}

TEST(TransferBuffersTest, ABufferMayOutliveThem) {
  Maker maker;
  auto buffers = std::make_optional<TransferBuffers>(maker.function(), 4 * kOne);
  {
    const HostBytes lent = buffers->take(kOne);
    buffers.reset();
    lent.span().front() = std::byte{1};
  }
  EXPECT_EQ(maker.live, 0U);
}

}  // namespace
}  // namespace reprise::gpu
