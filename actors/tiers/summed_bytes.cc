#include "actors/tiers/summed_bytes.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/check.h"
#include "base/digest.h"
#include "base/in_parallel.h"

namespace reprise::actors {

SummedBytes::SummedBytes(std::span<const std::byte> contents)
    : bytes_(new std::byte[contents.size()]),  // not filled: the copy does that
      size_(contents.size()),
      sums_((contents.size() + kPiece - 1) / kPiece) {
  in_parallel(sums_.size(), [&](std::size_t i) {
    const auto piece = contents.subspan(i * kPiece, std::min(kPiece, size_ - i * kPiece));
    std::memcpy(bytes_.get() + i * kPiece, piece.data(), piece.size());
    sums_[i] = digest_of(piece);
  });
}

bool copy_compared(std::span<const SummedBytes* const> parts, std::span<std::byte> to) {
  struct Piece {
    std::span<const std::byte> from;
    std::byte* to;
    std::uint64_t sum;
  };
  std::vector<Piece> pieces;
  std::size_t at = 0;
  for (const SummedBytes* part : parts) {
    const std::span<const std::byte> bytes = part->contents();
    REPRISE_CHECK(bytes.size() <= to.size() - at, "the destination is smaller than the copied blocks");
    for (std::size_t i = 0; i < part->sums_.size(); ++i) {
      const std::size_t begin = i * SummedBytes::kPiece;
      const std::size_t count = std::min(SummedBytes::kPiece, bytes.size() - begin);
      pieces.push_back(
          {.from = bytes.subspan(begin, count), .to = to.data() + at + begin, .sum = part->sums_[i]});
    }
    at += bytes.size();
  }
  REPRISE_CHECK(at == to.size(), "the destination is larger than the copied blocks");
  std::atomic<bool> same{true};  // relaxed: the threads' ends publish it
  in_parallel(pieces.size(), [&](std::size_t i) {
    const Piece& piece = pieces[i];
    if (!same.load(std::memory_order_relaxed)) return;
    if (digest_of(piece.from) != piece.sum) return same.store(false, std::memory_order_relaxed);
    std::memcpy(piece.to, piece.from.data(), piece.from.size());
  });
  return same.load(std::memory_order_relaxed);
}

}  // namespace reprise::actors
