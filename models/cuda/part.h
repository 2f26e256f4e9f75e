#pragma once
// What a layer consists of on the GPU (models/parts/layer_spec.h): parts, which read the residual stream, and the steps that
// add what they make to it.
//
// A part tells how much memory a step of a size needs (workspace) and takes no more than that (apply). What is not computed
// on a GPU, gpu_refusal() and the make_part() of its kind refuse by name.
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
#include "gpu/cuda/kv_selection.h"
#include "gpu/cuda/rows.h"
#include "models/cuda/step.h"
#include "models/cuda/weights.h"
#include "models/host_experts.h"
#include "models/parts/layer_spec.h"

namespace reprise::models::cuda {

/// A prompt that becomes shorter: all of it, on the GPU.
struct CudaCompaction {
  std::byte* const* pages;
  std::byte* const* into;
  int tokens;
  gc::QueryRing ring;
  KvBudget budget;
  Workspace& workspace;
  gc::StreamHandle stream;
};

/// The products of a feed-forward part with a gate: gate and up in one, and what follows them.
struct GatedProducts {
  const DeviceLinear& in;
  const DeviceLinear& out;
};

class Part {
 public:
  virtual ~Part() = default;
  virtual std::size_t workspace(const StepSize& size) const = 0;
  virtual void apply(const CudaStep& step, const PartInput& x, const PartOutput& to) const = 0;
  /// Whether the step's rows can be given to it before their norm is taken.
  virtual bool takes_raw(const CudaStep& /*step*/) const { return false; }
  /// Whether it can be given PartInput::unscaled in decoding, and a PartOutput::next.
  virtual bool reads_unscaled() const { return false; }
  virtual bool leaves_rows() const { return false; }
  /// Tries its products, the last one with this output.
  virtual void admit(const Admission& admission, gc::GemmOutput output) const = 0;
  /// Bytes that compact() takes of the workspace.
  virtual std::size_t compaction_workspace(std::size_t /*tokens*/, const KvBudget& /*budget*/) const {
    return 0;
  }
  /// Chooses among the keys and values of a prompt and gathers what is kept, where it keeps those of all tokens.
  virtual void compact(const CudaCompaction& /*prompt*/) const {}
  /// Whether it writes its part of the slots that CudaStep::exports names, where it has one. A model with a part that does
  /// not ends its slices where states are wanted.
  virtual bool exports_states() const { return true; }
  /// Of a part that has them, for a mixture that may count it among its experts.
  virtual std::optional<GatedProducts> gated_products() const { return std::nullopt; }
  /// Whose products go through CudaStep::multiply(), so that adapters can change them.
  virtual std::vector<const DeviceLinear*> adaptable() const { return {}; }
};

/// A part whose template apply_rows() is for both kinds of rows.
template <class Self>
class PartOfRows : public Part {
 public:
  void apply(const CudaStep& step, const PartInput& x, const PartOutput& to) const final {
    const auto& self = static_cast<const Self&>(*this);
    if (step.size.precise) return self.template apply_rows<float>(step, x, to);
    self.template apply_rows<gc::Bf16>(step, x, to);
  }
};

/// A part that projects its rows, mixes them with what their sequences remember, and projects what came of it back to the
/// stream: y = out(mix(in(x))). The base has the two products, their memory and what follows from them; a mixer has what lies
/// between.
class Mixer : public Part {
 public:
  std::size_t workspace(const StepSize& size) const final;
  void apply(const CudaStep& step, const PartInput& x, const PartOutput& to) const final;
  bool takes_raw(const CudaStep& step) const final { return joins() && step.takes_raw(in_); }
  bool reads_unscaled() const final { return joins() && in_.reads_unscaled(); }
  bool leaves_rows() const final { return joins() && out_.leaves_rows(); }
  void admit(const Admission& admission, gc::GemmOutput output) const final;
  std::vector<const DeviceLinear*> adaptable() const final;

 protected:
  /// Where decoded rows get their norms: by kernels of their own, or within the products before and behind the norm, which only
  /// mixers whose rows were compared on a GPU do.
  enum class Norms { kApart, kInProducts };

  Mixer(DeviceLinear in, DeviceLinear out, Norms norms)
      : in_(std::move(in)), out_(std::move(out)), norms_(norms) {}

  const DeviceLinear& in() const { return in_; }
  const DeviceLinear& out() const { return out_; }

  /// Bytes that mix() takes of the workspace.
  virtual std::size_t mixing_workspace(const StepSize& size) const = 0;
  /// projected [padded rows, in().weight.rows] -> mixed [padded rows, out().weight.columns].
  virtual void mix(const CudaStep& step, const gc::Bf16* projected, gc::Bf16* mixed) const = 0;
  /// The same of a precise step.
  virtual void mix(const CudaStep& step, const float* projected, float* mixed) const = 0;

  /// A product between the two, and what it makes.
  struct InnerProduct {
    const DeviceLinear* linear;
    gc::GemmOutput output;
    bool adapts = true;  // whether adapters can change it
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

/// A mixer whose template mix_rows() is for both kinds of rows.
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

/// A norm over the residual stream.
struct DeviceNorm {
  const float* weight = nullptr;  // [hidden]
  const float* bias = nullptr;    // [hidden]; null: not centred
  NormKind kind{};

  gc::RowNorm rows() const {
    return {.weight = weight, .offset = kind.offset, .eps = kind.eps, .bias = bias};
  }
  /// Whether products of decoded rows can take it on their way.
  bool suits_decoding() const { return bias == nullptr; }
};

/// The norm of what reads the stream next, for who leaves rows to it.
struct NormAhead {
  gc::RowNorm norm;
  float factor;

  gc::NextRows into(const gc::UnscaledRows& rows) const {
    return {.to = rows, .norm = norm, .factor = factor};
  }
};

/// A step that adds to the residual stream:
///   x += multiplier * norm_after(out * part(in * norm(x)) + out * part(in * norm(x)) + ...)
/// What late parts make is summed in CudaStep::late and added behind the last step of their layer.
/// Where nothing stands between a part and the stream, its last product adds to the stream itself; of decoded rows, where what
/// reads the stream next can end the norm, it leaves that one's input besides (leave_for(); gpu/cuda/gemm.h, UnscaledRows).
struct ResidualStep {
  std::optional<DeviceNorm> norm;
  std::vector<std::unique_ptr<Part>> parts;
  std::vector<PartScale> scales;  // of each part
  std::vector<std::unique_ptr<Part>> late_parts;
  bool begins_late = false;  // of a layer with late parts, the first step
  bool ends_late = false;    // and its last
  std::optional<DeviceNorm> norm_after;
  float multiplier = 1;

  /// Whether decoded rows can go on from here, and come here, without a kernel for the norm.
  bool can_leave_rows() const;
  bool can_read_unscaled() const;
  /// They do, where CudaStep::unscaled is there.
  void leave_for(const NormAhead& next) { left_ = next; }
  NormAhead read_unscaled();

  /// Bytes that apply() takes.
  std::size_t workspace(const StepSize& size, std::size_t hidden) const;
  /// x f32 [padded rows, hidden].
  void apply(const CudaStep& step, float* x, std::size_t hidden) const;
  void admit(const Admission& admission) const;

  /// Bytes that compact() takes of its workspace.
  std::size_t compaction_workspace(std::size_t tokens, const KvBudget& budget) const;
  void compact(const CudaCompaction& prompt) const;

 private:
  std::optional<NormAhead> left_;  // for what reads the stream next
  bool reads_unscaled_ = false;    // what stands before leaves them

  /// What a part's output is multiplied by before it is added up.
  float factor(std::size_t part) const {
    return norm_after ? scales[part].out : multiplier * scales[part].out;
  }
  gc::GemmOutput output_of(std::size_t part) const {
    return factor(part) == 1 ? gc::GemmOutput::kAddF32 : gc::GemmOutput::kF32;
  }
  /// Rows [padded rows, hidden] of the workspace: factor * norm(x).
  PartInput normed(const CudaStep& step, const float* x, std::size_t hidden, float factor) const;
  template <class Row>
  PartInput normed_rows(const CudaStep& step, const float* x, std::size_t hidden, float factor) const;
  /// What each part reads, then what late ones do; those that read the same share it.
  std::vector<PartInput> read(const CudaStep& step, const float* x, std::size_t hidden) const;
};

/// What parts are built from, while a model is loaded: they declare their state and the tables that they need.
struct BuildContext {
  const Checkpoint& checkpoint;
  gpu::KvType kv;  // of keys and values
  WeightStore& weights;
  StateLayout& state;
  RopeTables& ropes;
  std::set<std::string> on_host{};  // names of the mixtures whose experts are computed on the host
  HostExperts* experts = nullptr;   // who computes these; null: there are none
};

// Each kind of part in the file of its name. What `context` refers to must outlive the part. Throws LoadError,
// std::bad_alloc.
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

/// The steps of a layer, in order. Throws LoadError, std::bad_alloc.
std::vector<ResidualStep> build_layer(const LayerSpec& spec, BuildContext& context);
DeviceNorm build_norm(const NormSpec& spec, BuildContext& context);

}  // namespace reprise::models::cuda
