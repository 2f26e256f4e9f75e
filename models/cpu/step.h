#pragma once
// One forward pass over a batch: the slices of sequences that take part, as rows of the activations, and what
// all layers need to compute them.
//
// A batch holds at most one slice of a sequence. Rows of a slice stand together, in order; slices of many
// sequences, prefill slices and single decoded tokens alike, stand one after another. The bits of a row do
// not depend on the others.
//
// Threading: made and used by the thread that runs the model; kernels inside run on its team of threads.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "gpu/kernels.h"
#include "gpu/state_store.h"
#include "gpu/threads.h"
#include "models/compute_options.h"
#include "models/layers/rope.h"

namespace reprise::models {

/// Buffers that live for one call and are kept for the next.
class Scratch {
 public:
  /// Uninitialised, valid until reset().
  float* floats(std::size_t count) { return reinterpret_cast<float*>(bytes(count * sizeof(float))); }
  std::byte* bytes(std::size_t size) {
    if (next_ == blocks_.size()) blocks_.emplace_back();
    Block& block = blocks_[next_++];
    if (block.size < size) {
      block.memory = std::make_unique<std::byte[]>(size);
      block.size = size;
    }
    return block.memory.get();
  }

  /// What was handed out since the mark may be handed out again.
  std::size_t mark() const { return next_; }
  void reset(std::size_t mark = 0) { next_ = mark; }

 private:
  struct Block {
    std::unique_ptr<std::byte[]> memory;
    std::size_t size = 0;
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
  std::size_t stored;                   // tokens before this slice
  std::vector<const std::byte*> pages;  // all of the sequence, those reserved for this slice included
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

}  // namespace reprise::models
