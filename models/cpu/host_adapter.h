#pragma once
// A LoRA adapter (models/adapters/adapter.h) on the CPU, and its contribution to the GEMMs of a step.
//
//   y = y + scale * (x A^T) B^T     for the rows of sequences with the adapter
//
// Exactness: the two GEMMs use the exact f32 kernels, whatever the step's compute setting, and one fused
// multiply-add per output. So a row depends only on its own x and adapter, and rows without an adapter are
// unchanged.
//
// Threading: as Step.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>

#include "gpu/weights/host_weight.h"
#include "models/adapters/adapter.h"
#include "models/cpu/step.h"

namespace reprise::models::cpu {

class HostAdapter {
 public:
  struct Change {
    gpu::HostWeight a;  // [rank, inputs]
    gpu::HostWeight b;  // [outputs, rank]
    float scale;
  };

  /// Shares the adapter's matrices without copying them.
  explicit HostAdapter(const Adapter& adapter);

  /// Returns the change to a matrix, or null if there is none.
  Change* find(const std::string& name) const {
    const auto found = changes_.find(name);
    return found == changes_.end() ? nullptr : &found->second;
  }

 private:
  mutable std::unordered_map<std::string, Change> changes_;  // mutable: the first GEMM packs a weight
};

/// Maps rows of an input to rows of the step: all, a consecutive range, or an ascending list.
struct StepRows {
  enum class Kind : std::uint8_t { kAll, kTogether, kListed };

  static StepRows together(std::size_t first) { return {.kind = Kind::kTogether, .first = first}; }
  /// `rows` must outlive the result.
  static StepRows listed(std::span<const std::size_t> rows) { return {.kind = Kind::kListed, .list = rows}; }

  Kind kind = Kind::kAll;
  std::size_t first = 0;
  std::span<const std::size_t> list{};
};

struct ChangedInput {
  const float* x;  // [rows, inputs]
  std::size_t rows;
  StepRows which;
};

/// Adds to y [rows, outputs] the changes that the step's adapters make to the GEMM with the matrix of this
/// name.
void add_changes(Step& step, const std::string& matrix, const ChangedInput& input, float* y);

}  // namespace reprise::models::cpu
