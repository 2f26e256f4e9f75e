#pragma once
// Layers on the GPU (models/parts/layer_spec.h): parts, which read the residual through a norm, and the steps
// that add their outputs to it.
//
// A part reports the memory that a step of a given size needs (workspace()), and apply() takes no more. Kinds
// that a GPU cannot compute are refused by gpu_refusal() and make_part().
//
// Threading: as CudaStep; building by one thread.

#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/kv_budget.h"
#include "gpu/cuda/attention/kv_selection.h"
#include "gpu/cuda/rows/rows.h"
#include "models/cuda/step.h"
#include "models/cuda/weights.h"
#include "models/host_experts.h"
#include "models/parts/layer_spec.h"

namespace reprise::models::cuda {

/// Arguments of a prompt compaction; pointers are to GPU memory.
struct CudaCompaction {
  std::byte* const* pages;  // of the whole prompt
  std::byte* const* into;   // new pages for the selected tokens
  int tokens;               // in the prompt
  gc::QueryRing ring;
  KvBudget budget;
  Workspace& workspace;
  gc::StreamHandle stream;
};

/// The GEMMs of a gated feed-forward part: gate and up in one, then down.
struct GatedProducts {
  const DeviceLinear& in;
  const DeviceLinear& out;
};

class Part {
 public:
  virtual ~Part() = default;
  /// Returns the bytes that apply() takes of the workspace.
  virtual std::size_t workspace(const StepSize& size) const = 0;
  virtual void apply(const CudaStep& step, const PartInput& x, const PartOutput& to) const = 0;
  /// Returns whether, in this step, its first GEMM can normalize the residual itself (PartInput::raw).
  virtual bool takes_raw(const CudaStep& /*step*/) const { return false; }
  /// Returns whether it accepts PartInput::unscaled in decode; defers_norm(): whether it accepts
  /// PartOutput::next.
  virtual bool reads_unscaled() const { return false; }
  virtual bool defers_norm() const { return false; }
  /// Measures its prefill GEMMs (Admission); the last one has this output.
  virtual void admit(const Admission& admission, gc::GemmOutput output) const = 0;
  /// Returns the bytes that compact() takes of the workspace.
  virtual std::size_t compaction_workspace(std::size_t /*tokens*/, const KvBudget& /*budget*/) const {
    return 0;
  }
  /// Selects and copies this layer's KV entries; does nothing if it has none in pages.
  virtual void compact(const CudaCompaction& /*prompt*/) const {}
  /// Returns whether it writes its part of the slots in CudaStep::exports, if it has any. If one part does
  /// not, slices must end at the positions whose states are wanted.
  virtual bool exports_states() const { return true; }
  /// Returns the GEMMs of a gated feed-forward part, which a mixture can then treat as an expert.
  virtual std::optional<GatedProducts> gated_products() const { return std::nullopt; }
  /// Returns the linears that use CudaStep::multiply(), which adapters can therefore change.
  virtual std::vector<const DeviceLinear*> adaptable() const { return {}; }
};

/// Base of parts that implement apply_rows() as a template for rows of f32 (precise) and bf16.
template <class Self>
class PartOfRows : public Part {
 public:
  void apply(const CudaStep& step, const PartInput& x, const PartOutput& to) const final {
    const auto& self = static_cast<const Self&>(*this);
    if (step.size.precise) return self.template apply_rows<float>(step, x, to);
    self.template apply_rows<gc::Bf16>(step, x, to);
  }
};

/// Base of parts of the form y = out(mix(in(x))): two projections, and a mix() that combines rows with the
/// state of their sequences.
class Mixer : public Part {
 public:
  std::size_t workspace(const StepSize& size) const final;
  void apply(const CudaStep& step, const PartInput& x, const PartOutput& to) const final;
  bool takes_raw(const CudaStep& step) const final { return joins() && step.takes_raw(in_); }
  bool reads_unscaled() const final { return joins() && in_.reads_unscaled(); }
  bool defers_norm() const final { return joins() && out_.defers_norm(); }
  void admit(const Admission& admission, gc::GemmOutput output) const final;
  std::vector<const DeviceLinear*> adaptable() const final;

 protected:
  /// How decoded rows are normalized: by separate kernels, or fused into the GEMMs before and after the norm.
  /// Only mixers whose outputs were compared on a GPU use the second.
  enum class Norms { kApart, kInProducts };

  Mixer(DeviceLinear in, DeviceLinear out, Norms norms)
      : in_(std::move(in)), out_(std::move(out)), norms_(norms) {}

  const DeviceLinear& in() const { return in_; }
  const DeviceLinear& out() const { return out_; }

  /// Returns the bytes that mix() takes of the workspace.
  virtual std::size_t mixing_workspace(const StepSize& size) const = 0;
  /// Computes mixed [padded rows, out().weight.columns] from projected [padded rows, in().weight.rows].
  virtual void mix(const CudaStep& step, const gc::Bf16* projected, gc::Bf16* mixed) const = 0;
  virtual void mix(const CudaStep& step, const float* projected, float* mixed) const = 0;

  /// A GEMM inside mix(), and its output type.
  struct InnerProduct {
    const DeviceLinear* linear;
    gc::GemmOutput output;
    bool adapts = true;  // adapters can change it
  };
  virtual std::vector<InnerProduct> inner_products() const { return {}; }

 private:
  template <class Row>
  void apply_rows(const CudaStep& step, const PartInput& x, const PartOutput& to) const;
  bool joins() const { return norms_ == Norms::kInProducts; }

  DeviceLinear in_;
  DeviceLinear out_;
  Norms norms_;
};

/// Base of mixers that implement mix_rows() as a template for rows of f32 (precise) and bf16.
template <class Self>
class MixerOfRows : public Mixer {
 protected:
  using Mixer::Mixer;

 private:
  void mix(const CudaStep& step, const gc::Bf16* projected, gc::Bf16* mixed) const final {
    static_cast<const Self&>(*this).mix_rows(step, projected, mixed);
  }
  void mix(const CudaStep& step, const float* projected, float* mixed) const final {
    static_cast<const Self&>(*this).mix_rows(step, projected, mixed);
  }
};

/// A norm of the residual; the weights are in GPU memory.
struct DeviceNorm {
  const float* weight = nullptr;  // [hidden]
  const float* bias = nullptr;    // [hidden]; null: not centered
  NormKind kind{};

  gc::RowNorm rows() const {
    return {.weight = weight, .offset = kind.offset, .eps = kind.eps, .bias = bias};
  }
  /// Returns whether GEMMs can apply it to decoded rows.
  bool can_use_decoding() const { return bias == nullptr; }
};

/// The norm of the next reader of the residual, for the GEMM that writes its deferred-norm input.
struct NormAhead {
  gc::RowNorm norm;
  float factor;  // on the normalized rows

  gc::DeferredNormOutput into(const gc::DeferredNormRows& rows) const {
    return {.to = rows, .norm = norm, .factor = factor};
  }
};

/// A step that adds to the residual:
///   x += multiplier * norm_after(out * part(in * norm(x)) + out * part(in * norm(x)) + ...)
/// Outputs of late parts are summed in CudaStep::late and added after the last step of their layer. If
/// nothing modifies a part's output, its last GEMM adds to the residual itself; in decode it also writes the
/// deferred-norm input of the next step or the LM head, if that one can read it (defer_norm_for();
/// gpu/cuda/gemm/gemm.h, DeferredNormRows).
struct ResidualStep {
  std::optional<DeviceNorm> norm;
  std::vector<std::unique_ptr<Part>> parts;
  std::vector<PartScale> scales;  // one per part
  std::vector<std::unique_ptr<Part>> late_parts;
  bool begins_late = false;  // first step of a layer with late parts
  bool ends_late = false;    // last step of such a layer
  std::optional<DeviceNorm> norm_after;
  float multiplier = 1;

  /// can_defer_norm(): it can write the deferred-norm input of the next reader in decode.
  /// can_read_unscaled(): it can read such input.
  bool can_defer_norm() const;
  bool can_read_unscaled() const;
  /// Enable both for steps with CudaStep::unscaled. read_unscaled() returns the norm for the writer.
  void defer_norm_for(const NormAhead& next) { left_ = next; }
  NormAhead read_unscaled();

  /// Returns the bytes that apply() takes of the workspace.
  std::size_t workspace(const StepSize& size, std::size_t hidden) const;
  /// x f32 [padded rows, hidden]: the residual.
  void apply(const CudaStep& step, float* x, std::size_t hidden) const;
  void admit(const Admission& admission) const;

  std::size_t compaction_workspace(std::size_t tokens, const KvBudget& budget) const;
  void compact(const CudaCompaction& prompt) const;

 private:
  std::optional<NormAhead> left_;  // norm of the next reader; none: its input is not written
  bool reads_unscaled_ = false;    // the previous step writes its input

  /// Factor on a part's output before it is added.
  float factor(std::size_t part) const {
    return norm_after ? scales[part].out : multiplier * scales[part].out;
  }
  gc::GemmOutput output_of(std::size_t part) const {
    return factor(part) == 1 ? gc::GemmOutput::kAddF32 : gc::GemmOutput::kF32;
  }
  /// Returns factor * norm(x), or factor * x without a norm, as rows [padded rows, hidden] in the workspace.
  PartInput normed(const CudaStep& step, const float* x, std::size_t hidden, float factor) const;
  template <class Row>
  PartInput normed_rows(const CudaStep& step, const float* x, std::size_t hidden, float factor) const;
  /// Returns the inputs of `parts`, then those of `late_parts`; inputs with equal factors share memory.
  std::vector<PartInput> read(const CudaStep& step, const float* x, std::size_t hidden) const;
};

/// Arguments of make_part(); parts add their state and RoPE tables.
struct BuildContext {
  const ModelFiles& files;
  gpu::KvType kv;  // type of KV entries
  WeightStore& weights;
  StateLayout& state;
  RopeTables& ropes;
  std::set<std::string> on_host{};  // names of the mixtures whose experts run on the host
  HostExperts* experts = nullptr;   // computes them; null: none
};

// Creates the part of one layer and uploads its weights. The objects that `context` refers to must outlive the
// part. Throws LoadError, std::bad_alloc.
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

/// Returns the steps of a layer, in order. Throws LoadError, std::bad_alloc.
std::vector<ResidualStep> build_layer(const LayerSpec& spec, BuildContext& context);
DeviceNorm build_norm(const NormSpec& spec, BuildContext& context);

}  // namespace reprise::models::cuda
