#pragma once
// Where the blocks of state stores live, and how they are touched: the host's memory or a GPU's.
//
// An address that take() gave may mean nothing to the processor: whoever is not a kernel of that device
// touches a block through its memory alone. What a call has done is done when it returns, for every later
// user of the block.
//
// Threading: one thread at a time. Kernels may work meanwhile on blocks that no call names.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

namespace reprise::gpu {

/// What a copy that looks at what it copies found. The checksum tells damage, not malice.
struct CopyFigures {
  std::uint64_t checksum = 0;
  bool finite = true;  // read as f32; means nothing for other contents
};

/// Memory of the host, until it is destroyed.
class HostBytes {
 public:
  HostBytes() = default;
  HostBytes(std::shared_ptr<std::byte> data, std::size_t size) : data_(std::move(data)), size_(size) {}

  std::span<std::byte> span() const { return {data_.get(), size_}; }
  std::size_t size() const { return size_; }

 private:
  std::shared_ptr<std::byte> data_;  // with what gives it back
  std::size_t size_ = 0;
};

class BlockMemory {
 public:
  static constexpr std::size_t kAlignment = 64;  // of every block; a device may have more

  struct Copy {
    std::byte* to;
    const std::byte* from;
    std::size_t bytes;
  };

  virtual ~BlockMemory() = default;

  /// Uninitialised unless gives_zeros(); null if there is no such block left. `bytes` is above 0.
  virtual std::byte* take(std::size_t bytes) = 0;
  /// Whether blocks of this size are zeros when they are taken.
  virtual bool gives_zeros(std::size_t /*bytes*/) const { return false; }
  /// With the size it was taken with.
  virtual void give(std::byte* block, std::size_t bytes) = 0;

  /// Host memory that copies from and to blocks are fast with, uninitialised. Ends before the BlockMemory
  /// does. Throws std::bad_alloc.
  virtual HostBytes take_host(std::size_t bytes) {
    return {std::shared_ptr<std::byte>(new std::byte[bytes], std::default_delete<std::byte[]>()), bytes};
  }

  virtual void fill(std::byte* to, int value, std::size_t bytes) = 0;
  /// Several blocks of the same size at once.
  virtual void fill_all(std::span<std::byte* const> blocks, int value, std::size_t bytes) {
    for (std::byte* const to : blocks) fill(to, value, bytes);
  }

  /// All of them at once, between blocks that do not overlap, with the figures of what each copied (as many
  /// as copies). Sizes are multiples of 4. Checksums may be compared with those of the same memory alone.
  virtual void copy(std::span<const Copy> copies, std::span<CopyFigures> figures) = 0;
  /// The figures that a copy of it would have.
  virtual CopyFigures look_at(const std::byte* bytes, std::size_t size) = 0;
  /// The same of several blocks of the same size at once, with as many figures.
  virtual void look_at_all(std::span<const std::byte* const> blocks, std::size_t size,
                           std::span<CopyFigures> figures) {
    for (std::size_t i = 0; i < blocks.size(); ++i) figures[i] = look_at(blocks[i], size);
  }

  /// All at once, from blocks to the host.
  virtual void to_host(std::span<const Copy> copies) = 0;
  /// All at once, from the host to blocks.
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

/// Blocks in the memory of this process. Large blocks are mapped one by one, so that the system gives memory when they are
/// first touched and has it back at give(); small ones come from the heap.
///
/// Threading: any thread.
class HostMemory : public BlockMemory {
 public:
  static constexpr std::size_t kMapped = 64 << 10;  // bytes from which a block is a mapping of its own

  using BlockMemory::from_host;
  using BlockMemory::to_host;

  std::byte* take(std::size_t bytes) override;
  bool gives_zeros(std::size_t bytes) const override { return bytes >= kMapped; }
  void give(std::byte* block, std::size_t bytes) override;
  void fill(std::byte* to, int value, std::size_t bytes) override;
  void copy(std::span<const Copy> copies, std::span<CopyFigures> figures) override;
  CopyFigures look_at(const std::byte* bytes, std::size_t size) override;
  void to_host(std::span<const Copy> copies) override;
  void from_host(std::span<const Copy> copies) override;
};

/// The process's, for stores that name no other.
BlockMemory& host_memory();

}  // namespace reprise::gpu
