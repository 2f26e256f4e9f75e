#pragma once
// A linear layer over the rows of a step: y = x W^T + bias, by the product that the step's kernels have for the
// weight's format in the step's compute setting; and for rows whose sequence chose an adapter that changes the matrix,
// what that adds (models/cpu/host_adapter.h).
//
// Threading: as Step.

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpu/host_weight.h"
#include "models/checkpoint.h"
#include "models/cpu/host_adapter.h"
#include "models/cpu/step.h"

namespace reprise::models::cpu {

/// Rows that go into several linear layers. What their products want of them is prepared once for each form. It
/// stands in the step's scratch from the first use on: of no use once that was reset.
class LinearInput {
 public:
  /// x [rows, the layers' inputs]. `which` rows of the step they are, where they are not all of them.
  LinearInput(const float* x, std::size_t rows, const StepRows& which = {})
      : x_(x), rows_(rows), which_(which) {}

  std::size_t rows() const { return rows_; }
  const float* data() const { return x_; }
  const StepRows& which() const { return which_; }
  /// In this form; from the step's scratch.
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
  /// `name` without its ".weight". A ".bias" beside it is taken where the checkpoint has one.
  /// `order`: kOfModel for who multiplies by weight() himself, and adds no adapter's change. Throws LoadError.
  Linear(const Checkpoint& checkpoint, const std::string& name, ColumnOrder order = ColumnOrder::kAny);
  explicit Linear(gpu::HostWeight weight, std::vector<float> bias = {})
      : weight_(std::move(weight)), bias_(std::move(bias)) {}

  std::size_t inputs() const { return weight_.view().columns; }
  std::size_t outputs() const { return weight_.view().rows; }
  /// Packs the weight where its product wants that; else the first apply() does.
  void prepare(const Preparation& how) const {
    weight_.prepare(how.kernels, how.compute, how.threads);
    if (how.adaptable != nullptr && !name_.empty()) how.adaptable->insert(name_);
  }
  /// What adapters call it, where that is not the checkpoint's name.
  void call(std::string name) { name_ = std::move(name); }
  /// Of the weight's copy in the order that its product reads; 0: none, or not yet.
  std::size_t packed_bytes() const { return weight_.packed_bytes(); }

  /// x [rows, inputs] -> y [rows, outputs]
  void apply(Step& step, const float* x, std::size_t rows, float* y) const;
  /// The same for an input that others share.
  void apply(Step& step, LinearInput& x, float* y) const;

  /// In the exact product's arithmetic, whatever the step's setting is.
  void apply_exactly(Step& step, LinearInput& x, float* y) const;

  /// For who multiplies by it himself: the product in the step's setting, and the weight with its packed copy. The
  /// bias is not in it.
  const gpu::Product& product(const Step& step) const;
  const gpu::WeightView& weight() const { return weight_.view(); }

  /// One row of the weight, widened: an embedding. y [inputs]
  void row(const Step& step, std::size_t index, float* y) const;

 private:
  void apply_in(Step& step, gpu::Compute compute, LinearInput& x, float* y) const;
  void multiply(Step& step, gpu::Compute compute, LinearInput& x, float* y) const;
  /// The same, with x brought into the order of the weight's columns.
  void in_own_order(Step& step, gpu::Compute compute, const LinearInput& x, float* y) const;

  mutable gpu::HostWeight weight_;  // the first product packs it
  std::vector<std::uint32_t>
      column_order_;         // which input stands at each of the weight's columns; empty: its own
  std::vector<float> bias_;  // empty: none
  std::string name_;         // that adapters change it by; empty: none does
};

}  // namespace reprise::models::cpu
