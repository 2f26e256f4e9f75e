#pragma once
// A part of a layer on the GPU (models/parts/layer_spec.h): what reads the residual stream and adds to it.
//
// A part tells how much memory a step of a size needs (workspace) and takes no more than that (apply).
//
// Threading: as CudaStep.

#include <cstddef>
#include <vector>

#include "base/kv_budget.h"
#include "gpu/cuda/kv_selection.h"
#include "models/cuda/step.h"
#include "models/cuda/weights.h"

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

}  // namespace reprise::models::cuda
