#pragma once
// Steps that add to the residual stream, on the GPU (models/parts/layer_spec.h):
//   x += multiplier * norm_after(out * part(in * norm(x)) + out * part(in * norm(x)) + ...)
// What late parts make is summed in CudaStep::late and added behind the last step of their layer.
// Where nothing stands between a part and the stream, its last product adds to the stream itself; of decoded rows, where
// what reads the stream next can end the norm, it leaves that one's input besides (leave_for(); gpu/cuda/gemm.h, UnscaledRows).
//
// Threading: as CudaStep.

#include <memory>
#include <optional>
#include <vector>

#include "gpu/cuda/rows.h"
#include "models/cuda/part.h"

namespace reprise::models::cuda {

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

/// The steps of a layer, in order. Throws LoadError, std::bad_alloc.
std::vector<ResidualStep> build_layer(const LayerSpec& spec, BuildContext& context);
DeviceNorm build_norm(const NormSpec& spec, BuildContext& context);

}  // namespace reprise::models::cuda
