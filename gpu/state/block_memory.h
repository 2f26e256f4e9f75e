#pragma once
// Memory for the blocks of state stores, on the host or on a GPU.
//
// take() may return a device address. Only kernels of that device may dereference it; all other code goes
// through the BlockMemory. Calls are synchronous: their effect is visible to every later user of the block.
//
// Threading: one thread at a time. Kernels may run meanwhile on blocks that no call names.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

namespace reprise::gpu {

/// Results of a checked copy. The checksum detects corruption, not tampering.
struct CopyFigures {
  std::uint64_t checksum = 0;
  bool finite = true;  // no inf or NaN when read as f32; meaningless for other contents
};

/// A buffer in host memory with shared ownership.
class HostBytes {
 public:
  HostBytes() = default;
  HostBytes(std::shared_ptr<std::byte> data, std::size_t size) : data_(std::move(data)), size_(size) {}

  std::span<std::byte> span() const { return {data_.get(), size_}; }
  std::size_t size() const { return size_; }

 private:
  std::shared_ptr<std::byte> data_;  // its deleter frees the memory
  std::size_t size_ = 0;
};

class BlockMemory {
 public:
  static constexpr std::size_t kAlignment = 64;  // minimum for every block

  struct Copy {
    std::byte* to;
    const std::byte* from;
    std::size_t bytes;
  };

  virtual ~BlockMemory() = default;

  /// Returns an uninitialized block (zeroed if gives_zeros()), or null if none is left. Requires: bytes > 0.
  virtual std::byte* take(std::size_t bytes) = 0;
  /// True if blocks of this size are zeroed when taken.
  virtual bool gives_zeros(std::size_t /*bytes*/) const { return false; }
  /// Frees a block; `bytes` as it was taken.
  virtual void give(std::byte* block, std::size_t bytes) = 0;

  /// Returns uninitialized host memory of the kind that this device copies fastest (pinned for a GPU). Must
  /// not outlive the BlockMemory. Throws std::bad_alloc.
  virtual HostBytes take_host(std::size_t bytes) {
    return {std::shared_ptr<std::byte>(new std::byte[bytes], std::default_delete<std::byte[]>()), bytes};
  }

  virtual void fill(std::byte* to, int value, std::size_t bytes) = 0;
  virtual void fill_all(std::span<std::byte* const> blocks, int value, std::size_t bytes) {
    for (std::byte* const to : blocks) fill(to, value, bytes);
  }

  /// Copies between blocks that do not overlap, all copies at once, and writes one CopyFigures per copy.
  /// Sizes are multiples of 4. Checksums are comparable only within one BlockMemory.
  virtual void copy(std::span<const Copy> copies, std::span<CopyFigures> figures) = 0;
  /// Returns the figures that copy() would report for these bytes.
  virtual CopyFigures look_at(const std::byte* bytes, std::size_t size) = 0;
  /// As look_at(), for several blocks of the same size; one CopyFigures per block.
  virtual void look_at_all(std::span<const std::byte* const> blocks, std::size_t size,
                           std::span<CopyFigures> figures) {
    for (std::size_t i = 0; i < blocks.size(); ++i) figures[i] = look_at(blocks[i], size);
  }

  /// Copies from blocks to the host, all copies at once.
  virtual void to_host(std::span<const Copy> copies) = 0;
  /// Copies from the host to blocks, all copies at once.
  virtual void from_host(std::span<const Copy> copies) = 0;

  void to_host(std::byte* to, const std::byte* from, std::size_t bytes) {
    const Copy copy{.to = to, .from = from, .bytes = bytes};
    to_host({&copy, 1});
  }
  void from_host(std::byte* to, const std::byte* from, std::size_t bytes) {
    const Copy copy{.to = to, .from = from, .bytes = bytes};
    from_host({&copy, 1});
  }
};

/// Blocks in host memory. Large blocks are separate mmap mappings, whose pages are allocated at first touch
/// and returned to the system by give(); small ones come from the heap. Thread-safe.
class HostMemory : public BlockMemory {
 public:
  static constexpr std::size_t kMapped = 64 << 10;  // bytes; blocks of at least this size are mapped

  using BlockMemory::from_host;
  using BlockMemory::to_host;

  std::byte* take(std::size_t bytes) override;
  bool gives_zeros(std::size_t bytes) const override { return bytes >= kMapped; }
  void give(std::byte* block, std::size_t bytes) override;
  void fill(std::byte* to, int value, std::size_t bytes) override;
  void copy(std::span<const Copy> copies, std::span<CopyFigures> figures) override;
  CopyFigures look_at(const std::byte* bytes, std::size_t size) override;
  /// Large blocks are read by several threads, which live for this call.
  void look_at_all(std::span<const std::byte* const> blocks, std::size_t size,
                   std::span<CopyFigures> figures) override;
  void to_host(std::span<const Copy> copies) override;
  void from_host(std::span<const Copy> copies) override;
};

/// The process-wide HostMemory, the default of stores.
BlockMemory& host_memory();

}  // namespace reprise::gpu
