#pragma once
// One forward pass over a batch: the slices of sequences that take part, as rows of the activations, and what
// all layers need to compute them.
//
// A batch holds at most one slice of a sequence. Rows of a slice stand together, in order; slices of many
// sequences, prefill slices and single decoded tokens alike, stand one after another. The bits of a row do
// not depend on the others.
//
// Threading: made and used by the thread that runs the model; kernels inside run on its team of threads.

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
#include "gpu/state_store.h"
#include "gpu/threads.h"
#include "models/compaction.h"
#include "models/compute_options.h"
#include "models/parts/rope.h"
#include "models/slot_export.h"

namespace reprise::models::cpu {

/// Buffers of a forward pass: they live for one call and are kept for the next. Each begins at a line of the cache, and a
/// large one in a page of its own kind where the system gives them (transparent huge pages, on request): a pass walks
/// through tens of megabytes. One thread hands them out.
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

/// What the weights of a model are brought into order for, while it is loaded.
struct Preparation {
  const gpu::Kernels& kernels;
  gpu::Compute compute;
  gpu::Threads& threads;
  std::set<std::string>* adaptable = nullptr;  // gets the names of matrices that adapters can change
};

struct StepSlice {
  gpu::Sequence* sequence;
  std::size_t first_row;
  std::size_t rows;
  std::size_t stored;   // places of pages that are taken before this slice
  std::size_t logical;  // position of its first token; as `stored`, unless the prompt was compacted
  std::vector<const std::byte*> pages;    // all of the sequence, those reserved for this slice included
  PromptTail* tail = nullptr;             // null: the prompt is not going to be compacted
  std::span<const SlotExport> exports{};  // states to leave on the way (models/cpu/slot_exports.h)
};

class HostAdapter;

/// Rows of slices that chose an adapter.
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
  std::vector<RopeTable> ropes{};       // one for each rope of the model
  float* first_values = nullptr;        // [rows, handed_on()]: what the first layer hands on; null: nothing
  std::vector<AdapterRows> adapters{};  // ascending; rows of none of them have no adapter
};

/// Cosines and sines of a step, one table for each rope that the layers of a model have: those that share a RopeConfig share
/// its table. Filled while a model is loaded; make() by the thread that runs it.
class RopeTables {
 public:
  /// Index of its table in Step::ropes.
  std::size_t add(const std::shared_ptr<const RopeConfig>& rope);

  /// `positions` are those of the step's rows. The tables live in the step's scratch.
  void make(Step& step, std::span<const std::size_t> positions) const;

 private:
  std::vector<std::shared_ptr<const RopeConfig>> ropes_;
};

}  // namespace reprise::models::cpu
