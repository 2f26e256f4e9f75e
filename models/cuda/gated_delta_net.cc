#include "models/cuda/layers.h"
#include "models/delta_net_vectors.h"
#include "models/files/load_error.h"

namespace reprise::models::cuda {

GatedDeltaNet::GatedDeltaNet(const DeltaNetSpec& spec, const Checkpoint& checkpoint, WeightStore& weights,
                             StateLayout& state)
    : in_(weights.linear({spec.name + ".in_proj_qkv", spec.name + ".in_proj_z", spec.name + ".in_proj_b",
                          spec.name + ".in_proj_a"})),
      out_(weights.linear({spec.name + ".out_proj"})) {
  const DeltaNetPlaces places = declare_state(spec, state);
  shape_ = {.key_heads = static_cast<int>(spec.key_heads),
            .value_heads = static_cast<int>(spec.value_heads),
            .key_dim = static_cast<int>(spec.key_head_dim),
            .value_dim = static_cast<int>(spec.value_head_dim),
            .taps = static_cast<int>(spec.conv_kernel),
            .conv_offset = places.conv,
            .state_offset = places.matrices};
  if (!gc::delta_net_supports(shape_)) {
    throw LoadError(checkpoint.path(), "linear_key_head_dim",
                    "heads of " + std::to_string(spec.key_head_dim) + " and " +
                        std::to_string(spec.value_head_dim) +
                        " are not among those that the GPU kernels know");
  }
  const DeltaNetVectors vectors = load_delta_net_vectors(checkpoint, spec);
  weights_ = {.conv = weights.vector(vectors.conv),
              .decay = weights.vector(vectors.decay),
              .dt_bias = weights.vector(vectors.dt_bias),
              .norm = weights.vector(vectors.norm),
              .norm_eps = spec.norm.eps};
}

std::size_t GatedDeltaNet::workspace(const StepSize& size) const {
  const auto width = static_cast<std::size_t>(in_.weight.rows + out_.weight.columns);
  return size.padded() * width * sizeof(gc::Bf16) + 3 * Workspace::kAlignment +
         gc::delta_net_workspace(shape_, size.rows, size.tiles);
}

void GatedDeltaNet::apply(const CudaStep& step, const PartInput& x, const PartOutput& to) const {
  Workspace& workspace = step.workspace;
  const std::size_t mark = workspace.mark();
  const std::size_t rows = step.size.padded();
  auto* projected = workspace.take<gc::Bf16>(rows * static_cast<std::size_t>(in_.weight.rows));
  auto* mixed = workspace.take<gc::Bf16>(rows * static_cast<std::size_t>(out_.weight.columns));
  std::byte* inside = workspace.bytes(gc::delta_net_workspace(shape_, step.size.rows, step.size.tiles));
  step.multiply(x, in_, projected, gc::GemmOutput::kBf16);
  const gc::DeltaNetPass pass{.projected = projected,
                              .stride = in_.weight.rows,
                              .out = mixed,
                              .workspace = inside,
                              .exports = step.exports};
  const auto recur = step.phase == Phase::kPrefill ? gc::delta_net_prefill : gc::delta_net_decode;
  recur(shape_, weights_, step.batch, pass, step.stream);
  step.multiply(mixed, out_, to);
  workspace.reset(mark);
}

void GatedDeltaNet::admit(gc::PrefillGemm& gemm, gc::GemmOutput output, int most_rows) const {
  in_.admit(gemm, gc::GemmOutput::kBf16, most_rows);
  out_.admit(gemm, output, most_rows);
}

}  // namespace reprise::models::cuda
