#pragma once
// A linear layer: y = x W^T + bias for the rows of a step, with the GEMM that the step's kernels have for the
// weight's format and compute setting. For sequences with an adapter that changes the matrix, adds its change
// (models/cpu/host_adapter.h).
//
// Threading: as Step.

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpu/weights/host_weight.h"
#include "models/cpu/host_adapter.h"
#include "models/cpu/step.h"
#include "models/model_files.h"

namespace reprise::models::cpu {

/// Input shared by several linear layers. Each activation form that their GEMMs need is prepared once, in the
/// step's scratch memory; invalid after that is reset.
class LinearInput {
 public:
  /// x [rows, inputs of the layers]. `which` says which rows of the step these are, if not all.
  LinearInput(const float* x, std::size_t rows, const StepRows& which = {})
      : x_(x), rows_(rows), which_(which) {}

  std::size_t rows() const { return rows_; }
  const float* data() const { return x_; }
  const StepRows& which() const { return which_; }
  const void* as(const gpu::ActivationForm& form, Step& step, std::size_t columns);

 private:
  const float* x_;
  std::size_t rows_;
  StepRows which_;
  std::vector<std::pair<const gpu::ActivationForm*, const void*>> prepared_;
};

class Linear {
 public:
  Linear() = default;
  /// Loads `name`.weight and, if the model files have it, `name`.bias. `order`: use kOfModel if the caller
  /// multiplies by weight() itself; adapters then have no effect. Throws LoadError.
  Linear(const ModelFiles& files, const std::string& name, ColumnOrder order = ColumnOrder::kAny);
  explicit Linear(gpu::HostWeight weight, std::vector<float> bias = {})
      : weight_(std::move(weight)), bias_(std::move(bias)) {}

  std::size_t inputs() const { return weight_.view().columns; }
  std::size_t outputs() const { return weight_.view().rows; }
  /// Packs the weight if its GEMM needs that; otherwise the first apply() does.
  void prepare(const Preparation& how) const {
    weight_.prepare(how.kernels, how.compute, how.threads);
    if (how.adaptable != nullptr && !name_.empty()) how.adaptable->insert(name_);
  }
  /// Sets the name by which adapters refer to it, if it differs from the name in the model files.
  void call(std::string name) { name_ = std::move(name); }
  /// Bytes of the packed copy of the weight; 0: none, or not packed yet.
  std::size_t packed_bytes() const { return weight_.packed_bytes(); }

  /// x [rows, inputs] -> y [rows, outputs]
  void apply(Step& step, const float* x, std::size_t rows, float* y) const;
  void apply(Step& step, LinearInput& x, float* y) const;

  /// As apply(), but with the exact f32 GEMM whatever the step's compute setting.
  void apply_exactly(Step& step, LinearInput& x, float* y) const;

  /// The GEMM in the step's compute setting, and the weight with its packed copy, for callers that multiply
  /// themselves. They exclude the bias.
  const gpu::Product& product(const Step& step) const;
  const gpu::WeightView& weight() const { return weight_.view(); }

  /// Writes one row of the weight as f32 to y [inputs]: an embedding lookup.
  void row(const Step& step, std::size_t index, float* y) const;

 private:
  void apply_in(Step& step, gpu::Compute compute, LinearInput& x, float* y) const;
  void multiply(Step& step, gpu::Compute compute, LinearInput& x, float* y) const;
  /// As multiply(), after permuting x into the order of the weight's columns.
  void in_own_order(Step& step, gpu::Compute compute, const LinearInput& x, float* y) const;

  mutable gpu::HostWeight weight_;           // mutable: the first GEMM packs it
  std::vector<std::uint32_t> column_order_;  // input of each of the weight's columns; empty: the identity
  std::vector<float> bias_;                  // empty: none
  std::string name_;                         // the name used by adapters; empty: not adaptable
};

}  // namespace reprise::models::cpu
