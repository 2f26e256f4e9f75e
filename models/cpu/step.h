#pragma once
// A forward pass over a batch: the slices of sequences, as rows of the activations, and what layers need to
// compute them.
//
// A batch holds at most one slice per sequence. The rows of a slice are consecutive and in order; slices, of
// prefills and of single decoded tokens alike, follow each other. The bits of a row do not depend on the
// others.
//
// Threading: created and used by the thread that runs the model; kernels run on its thread pool.

#include <sys/mman.h>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "gpu/kernels.h"
#include "gpu/state/state_store.h"
#include "gpu/threads.h"
#include "models/compaction.h"
#include "models/compute_options.h"
#include "models/parts/rope.h"
#include "models/slot_export.h"

namespace reprise::models::cpu {

/// Scratch buffers of a forward pass, reused by the next one: aligned to cache lines, large ones to 2 MiB
/// with transparent huge pages requested, since a pass touches tens of megabytes. Used by one thread.
class Scratch {
 public:
  /// Returns uninitialized memory, valid until reset() to an earlier mark.
  float* floats(std::size_t count) { return reinterpret_cast<float*>(bytes(count * sizeof(float))); }
  std::byte* bytes(std::size_t size) {
    if (next_ == blocks_.size()) blocks_.emplace_back();
    Block& block = blocks_[next_++];
    if (block.size < size) block = Block(size);
    return block.memory.get();
  }

  /// reset(mark()) releases all buffers allocated since mark().
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

/// Arguments for packing weights while a model is loaded.
struct Preparation {
  const gpu::Kernels& kernels;
  gpu::Compute compute;
  gpu::Threads& threads;
  std::set<std::string>* adaptable = nullptr;  // collects the names of matrices that adapters can change
};

struct StepSlice {
  gpu::Sequence* sequence;
  std::size_t first_row;
  std::size_t rows;
  std::size_t stored;   // KV entries in the pages before this slice
  std::size_t logical;  // position of its first token; equals `stored` unless the prompt was compacted
  std::vector<const std::byte*> pages;  // all pages of the sequence, including those reserved for this slice
  PromptTail* tail = nullptr;           // null: the prompt will not be compacted
  std::span<const SlotExport> exports{};  // states to save inside the slice (models/cpu/slot_exports.h)
};

class HostAdapter;

/// Rows of a sequence with an adapter.
struct AdapterRows {
  const HostAdapter* adapter;
  std::size_t first_row;
  std::size_t rows;
};

struct Step {
  const gpu::Kernels& kernels;
  gpu::Threads& threads;
  const ComputeOptions& options;
  Scratch& scratch;

  std::vector<StepSlice> slices{};
  std::size_t rows = 0;
  std::vector<RopeTable> ropes{};  // one per RoPE configuration of the model
  float* first_values = nullptr;  // [rows, handed_on()]: output of the first layer for later ones; null: none
  std::vector<AdapterRows> adapters{};  // ascending; other rows have no adapter
};

/// Cosine and sine tables of a step, one per RopeConfig. Parts add theirs while a model is loaded; the thread
/// that runs the model calls make().
class RopeTables {
 public:
  /// Returns the index of the table in Step::ropes.
  std::size_t add(const std::shared_ptr<const RopeConfig>& rope);

  /// `positions` [step.rows]. The tables are in the step's scratch memory.
  void make(Step& step, std::span<const std::size_t> positions) const;

 private:
  std::vector<std::shared_ptr<const RopeConfig>> ropes_;
};

}  // namespace reprise::models::cpu
