#pragma once
// SummedBytes: a copy of bytes that can be proven to be what they were: digests of their pieces are kept with them.
// Large ones are copied, and compared, by several threads at once.
//
// Threading: a plain value, of one thread; the threads that help with a copy have ended when it returns.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace reprise::actors {

class SummedBytes {
 public:
  static constexpr std::size_t kPiece = 256 << 10;  // stays in a core's cache between digest and copy

  SummedBytes() = default;
  /// Throws std::bad_alloc.
  explicit SummedBytes(std::span<const std::byte> contents);

  std::size_t size() const { return size_; }
  /// As they are now. Nobody writes to them but tests of what follows.
  std::span<std::byte> contents() const { return {bytes_.get(), size_}; }

 private:
  friend bool copy_compared(std::span<const SummedBytes* const> parts, std::span<std::byte> to);

  std::unique_ptr<std::byte[]> bytes_;
  std::size_t size_ = 0;
  std::vector<std::uint64_t> sums_;  // of the pieces, in their order
};

/// One behind the other, into as many bytes as they are together. False: some are not what they were.
[[nodiscard]] bool copy_compared(std::span<const SummedBytes* const> parts, std::span<std::byte> to);

}  // namespace reprise::actors
