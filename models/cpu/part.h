#pragma once
// Layers on the CPU: parts, which compute on the rows of a step, and the steps that add their outputs to the
// residual, built from the model's description (models/parts/layer_spec.h).
//
// A stateful part declares its state when it is built (StateLayout), finds it in the step's slices by the
// returned offsets, and advances the state of each slice by exactly the slice's rows. Nothing else in the
// engine interprets the state.
//
// Threading: as Step; building by one thread.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/kv_budget.h"
#include "models/cpu/step.h"
#include "models/model_files.h"
#include "models/parts/layer_spec.h"
#include "traces/trace.h"

namespace reprise::models::cpu {

/// Arguments of a prompt compaction, for parts that select among its tokens.
struct CompactionStep {
  gpu::Threads& threads;
  const PromptTail& tail;
  const KvBudget& budget;
  std::vector<const std::byte*> from;  // pages of the whole prompt
  std::vector<std::byte*> into;        // new pages for the selected tokens
  std::uint32_t tokens;                // in the prompt
};

class Part {
 public:
  virtual ~Part() = default;
  /// Computes y from x, both [step.rows, hidden].
  virtual void apply(Step& step, const float* x, float* y) const = 0;
  /// Packs the weights while the model is loaded. apply() packs those that were left out.
  virtual void prepare(const Preparation&) const {}
  /// Selects and copies this layer's KV entries; does nothing if it has none in pages.
  virtual void compact(const CompactionStep&) const {}
  /// Its name in profiles.
  virtual const traces::ZoneSite& site() const = 0;
};

/// Arguments of make_part(); parts add their state and RoPE tables.
struct BuildContext {
  const ModelFiles& files;
  const ComputeOptions& options;
  StateLayout& state;
  RopeTables& ropes;
};

// Creates the part of one layer from its model files. The objects that `context` refers to must outlive the part.
// Throws LoadError.
std::unique_ptr<Part> make_part(const AttentionSpec& spec, BuildContext& context);
std::unique_ptr<Part> make_part(const SwiGluSpec& spec, BuildContext& context);
std::unique_ptr<Part> make_part(const MlpSpec& spec, BuildContext& context);
std::unique_ptr<Part> make_part(const MoeSpec& spec, BuildContext& context);
std::unique_ptr<Part> make_part(const GatedDeltaNetSpec& spec, BuildContext& context);
std::unique_ptr<Part> make_part(const SelectiveScanSpec& spec, BuildContext& context);
std::unique_ptr<Part> make_part(const Mamba2Spec& spec, BuildContext& context);
std::unique_ptr<Part> make_part(const RgLruSpec& spec, BuildContext& context);
std::unique_ptr<Part> make_part(const TimeMixSpec& spec, BuildContext& context);
std::unique_ptr<Part> make_part(const ChannelMixSpec& spec, BuildContext& context);
std::unique_ptr<Part> make_part(const KdaSpec& spec, BuildContext& context);
std::unique_ptr<Part> make_part(const MlaSpec& spec, BuildContext& context);

/// RMSNorm of rows: y = x / rms(x) * (offset + weight).
class RmsNorm {
 public:
  RmsNorm(std::vector<float> weight, const NormKind& kind) : weight_(std::move(weight)), kind_(kind) {}
  /// Loads `spec.name`.weight. Throws LoadError.
  RmsNorm(const ModelFiles& files, const NormSpec& spec);

  /// x, y [rows, size]; y may alias x.
  void apply(Step& step, const float* x, std::size_t rows, float* y) const;
  /// As apply(), on the calling thread only.
  void apply_here(const gpu::Kernels& kernels, const float* x, std::size_t rows, float* y) const;

  const std::vector<float>& weight() const { return weight_; }
  const NormKind& kind() const { return kind_; }

 private:
  std::vector<float> weight_;  // [size]
  NormKind kind_;
};

/// RMSNorm or LayerNorm of the residual.
class Norm {
 public:
  /// Loads `spec.name`.weight and, if centered, `spec.name`.bias. Throws LoadError.
  Norm(const ModelFiles& files, const NormSpec& spec);

  /// x, y [rows, size]; y may alias x.
  void apply(Step& step, const float* x, std::size_t rows, float* y) const;

 private:
  RmsNorm rms_;              // if centered, only its weight and kind are used
  std::vector<float> bias_;  // [size]; empty: not centered
};

/// Computes x += multiplier * norm_after(sum of the parts of norm(x)), with scaled inputs and outputs of the
/// parts (ResidualSpec).
struct ResidualStep {
  std::optional<Norm> norm;
  std::vector<std::unique_ptr<Part>> parts;
  std::vector<PartScale> scales;  // one per part
  std::vector<std::unique_ptr<Part>> late_parts;
  std::optional<Norm> norm_after;
  float multiplier = 1;

  /// x [step.rows, hidden] is the residual. Outputs of late parts are added to late [step.rows, hidden],
  /// which is unused without them.
  void apply(Step& step, float* x, float* late, std::size_t hidden) const;

 private:
  static void apply_part(const Part& part, const PartScale& scale, Step& step, const float* x,
                         std::size_t count, float* y);
};

struct Layer {
  std::vector<ResidualStep> steps;

  /// x [step.rows, hidden]
  void apply(Step& step, float* x, std::size_t hidden) const;
  void prepare(const Preparation& how) const {
    for (const ResidualStep& one : steps) {
      for (const std::unique_ptr<Part>& part : one.parts) part->prepare(how);
      for (const std::unique_ptr<Part>& part : one.late_parts) part->prepare(how);
    }
  }
  void compact(const CompactionStep& step) const {
    for (const ResidualStep& one : steps) {
      for (const std::unique_ptr<Part>& part : one.parts) part->compact(step);
      for (const std::unique_ptr<Part>& part : one.late_parts) part->compact(step);
    }
  }
};

/// Throws LoadError.
Layer build_layer(const LayerSpec& spec, BuildContext& context);

}  // namespace reprise::models::cpu
