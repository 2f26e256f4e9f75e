#pragma once
// An adapter (models/adapters/adapter.h) on the CPU, and what it adds to the products of a step.
//
//   y = y + scale * (x A^T) B^T     for the rows of sequences that chose it
//
// Exactness: by the exact products, in f32 arithmetic whatever the step's setting is, and one fused multiply-add for
// each output. So a row depends on its own x and adapter alone, and rows without an adapter are not touched.
//
// Threading: as Step.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>

#include "gpu/host_weight.h"
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

  /// It shares the matrices, which are not copied.
  explicit HostAdapter(const Adapter& adapter);

  /// By the name of the matrix; null: it does not change that.
  Change* find(const std::string& name) const {
    const auto found = changes_.find(name);
    return found == changes_.end() ? nullptr : &found->second;
  }

 private:
  mutable std::unordered_map<std::string, Change> changes_;  // the first product prepares a weight
};

/// Which rows of a step some rows are: all of them, some that stand together, or any, ascending.
struct StepRows {
  enum class Kind : std::uint8_t { kAll, kTogether, kListed };

  static StepRows together(std::size_t first) { return {.kind = Kind::kTogether, .first = first}; }
  /// The list must live as long as this.
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

/// Adds to y [rows, outputs] what the step's adapters change in the product with the matrix of this name.
void add_changes(Step& step, const std::string& matrix, const ChangedInput& input, float* y);

}  // namespace reprise::models::cpu
