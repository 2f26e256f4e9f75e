#pragma once
// What a layer consists of on the CPU: parts, which make something of the rows of a step, and the steps that
// add it to the residual stream. What is built, and in which arrangement, a description says
// (models/parts/layer_spec.h); which class computes a kind of part, its make_part() alone knows.
//
// A part that looks along the sequence declares its state when it is built (StateLayout) and finds it in the
// step's slices by the offsets it was given; it updates the state of each slice by exactly the slice's rows.
// Nothing else of the engine knows what the state is.
//
// Threading: as Step; building by one thread.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/kv_budget.h"
#include "models/checkpoint.h"
#include "models/cpu/step.h"
#include "models/parts/layer_spec.h"
#include "traces/trace.h"

namespace reprise::models::cpu {

/// A prompt's pages and fewer of them, for the parts that choose among its tokens.
struct CompactionStep {
  gpu::Threads& threads;
  const PromptTail& tail;
  const KvBudget& budget;
  std::vector<const std::byte*> from;
  std::vector<std::byte*> into;
  std::uint32_t tokens;  // of the prompt
};

class Part {
 public:
  virtual ~Part() = default;
  /// x, y [step.rows, hidden]
  virtual void apply(Step& step, const float* x, float* y) const = 0;
  /// Brings its weights into the order that products read them in, while the model is loaded. What is left out is
  /// done by the first apply().
  virtual void prepare(const Preparation&) const {}
  /// Writes what it keeps of the prompt's tokens; nothing where it keeps nothing in pages.
  virtual void compact(const CompactionStep&) const {}
  /// What a profiler calls its work.
  virtual const traces::ZoneSite& site() const = 0;
};

/// What parts are built from, while a model is loaded: they declare their state and the tables that they need.
struct BuildContext {
  const Checkpoint& checkpoint;
  const ComputeOptions& options;
  StateLayout& state;
  RopeTables& ropes;
};

// Each kind of part in the file of its name. What `context` refers to must outlive the part. Throws LoadError.
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

/// y = x / rms(x) * (offset + weight), on rows.
class RmsNorm {
 public:
  RmsNorm(std::vector<float> weight, const NormKind& kind) : weight_(std::move(weight)), kind_(kind) {}
  /// From `spec.name`.weight.
  RmsNorm(const Checkpoint& checkpoint, const NormSpec& spec);

  /// x, y [rows, size]; they may be the same.
  void apply(Step& step, const float* x, std::size_t rows, float* y) const;
  /// The same on the calling thread alone.
  void apply_here(const gpu::Kernels& kernels, const float* x, std::size_t rows, float* y) const;

  const std::vector<float>& weight() const { return weight_; }
  const NormKind& kind() const { return kind_; }

 private:
  std::vector<float> weight_;  // [size]
  NormKind kind_;
};

/// A norm of the residual stream, of either kind.
class Norm {
 public:
  /// From `spec.name`.weight and, if it is centred, `spec.name`.bias.
  Norm(const Checkpoint& checkpoint, const NormSpec& spec);

  /// x, y [rows, size]; they may be the same.
  void apply(Step& step, const float* x, std::size_t rows, float* y) const;

 private:
  RmsNorm rms_;              // its weight is the other's as well
  std::vector<float> bias_;  // [size]; empty: not centred
};

/// x += multiplier * norm_after(sum of the parts of norm(x)), each part's input and output scaled
struct ResidualStep {
  std::optional<Norm> norm;
  std::vector<std::unique_ptr<Part>> parts;
  std::vector<PartScale> scales;  // of the parts
  std::vector<std::unique_ptr<Part>> late_parts;
  std::optional<Norm> norm_after;
  float multiplier = 1;

  /// x [step.rows, hidden]; late [step.rows, hidden]: what late parts make is added to it. Of no use without them.
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
