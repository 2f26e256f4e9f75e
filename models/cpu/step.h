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
#include <span>
#include <string>
#include <vector>

#include "gpu/kernels.h"
#include "gpu/state_store.h"
#include "gpu/threads.h"
#include "models/compaction.h"
#include "models/compute_options.h"
#include "models/cpu/scratch.h"
#include "models/layers/rope.h"
#include "models/slot_export.h"

namespace reprise::models {

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

}  // namespace reprise::models
