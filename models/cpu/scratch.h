#pragma once
// Buffers of a forward pass: they live for one call and are kept for the next.
//
// Each begins at a line of the cache, and a large one in a page of its own kind where the system gives them
// (transparent huge pages, on request): a pass walks through tens of megabytes.
//
// Threading: one thread hands them out; what is in them is whose they are.

#include <sys/mman.h>

#include <cstddef>
#include <memory>
#include <new>
#include <vector>

namespace reprise::models {

class Scratch {
 public:
  /// Uninitialised, valid until reset().
  float* floats(std::size_t count) { return reinterpret_cast<float*>(bytes(count * sizeof(float))); }
  std::byte* bytes(std::size_t size) {
    if (next_ == blocks_.size()) blocks_.emplace_back();
    Block& block = blocks_[next_++];
    if (block.size < size) block = Block(size);
    return block.memory.get();
  }

  /// What was handed out since the mark may be handed out again.
  std::size_t mark() const { return next_; }
  void reset(std::size_t mark = 0) { next_ = mark; }

 private:
  static constexpr std::size_t kLine = 64;
  static constexpr std::size_t kLargePage = std::size_t{2} << 20;

  struct Free {
    std::align_val_t alignment;
    Free() : Free(kLine) {}
    explicit Free(std::size_t aligned) : alignment(std::align_val_t{aligned}) {}
    void operator()(std::byte* memory) const { ::operator delete[](memory, alignment); }
  };

  struct Block {
    std::unique_ptr<std::byte[], Free> memory;
    std::size_t size = 0;

    Block() = default;
    explicit Block(std::size_t wanted) : size(wanted) {
      const Free free(wanted < kLargePage ? kLine : kLargePage);
      memory = {static_cast<std::byte*>(::operator new[](wanted, free.alignment)), free};
#if defined(MADV_HUGEPAGE)
      if (wanted >= kLargePage) madvise(memory.get(), wanted / kLargePage * kLargePage, MADV_HUGEPAGE);
#endif
    }
  };

  std::vector<Block> blocks_;
  std::size_t next_ = 0;
};

}  // namespace reprise::models
