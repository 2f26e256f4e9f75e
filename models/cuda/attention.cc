#include "models/cpu/linear.h"
#include "models/cuda/layers.h"
#include "models/files/load_error.h"

namespace reprise::models::cuda {

Attention::Attention(WeightStore& weights, const Checkpoint& checkpoint, const std::string& prefix,
                     StateLayout& state)
    : in_(weights.linear({prefix + ".q_proj", prefix + ".k_proj", prefix + ".v_proj"})),
      out_(weights.linear({prefix + ".o_proj"})) {
  const ModelConfig& model = checkpoint.config();
  const AttentionConfig& config = model.attention;
  const AttentionPlaces places = declare_attention(state, prefix, config, gpu::KvType::kBF16);
  shape_ = {.heads = static_cast<int>(config.heads),
            .kv_heads = static_cast<int>(config.kv_heads),
            .head_dim = static_cast<int>(config.head_dim),
            .rope_pairs = static_cast<int>(model.rope.dimension / 2),
            .qk_norm = config.qk_norm,
            .output_gate = config.output_gate,
            .norm_offset = model.norm_offset,
            .norm_eps = model.rms_eps,
            .k_offset = places.k,
            .v_offset = places.v};
  if (!gc::attention_supports(shape_)) {
    throw LoadError(
        checkpoint.path(), "head_dim",
        std::to_string(config.head_dim) + " is not one that the GPU kernels know: 16 to 256, by twos");
  }
  if (!config.qk_norm) return;
  q_norm_ = weights.vector(load_vector(checkpoint, prefix + ".q_norm.weight"));
  k_norm_ = weights.vector(load_vector(checkpoint, prefix + ".k_norm.weight"));
}

std::size_t Attention::workspace(const StepSize& size) const {
  const auto width = static_cast<std::size_t>(in_.weight.rows + out_.weight.columns);
  return size.padded() * width * sizeof(gc::Bf16) + 3 * Workspace::kAlignment +
         gc::attention_workspace(shape_, size.rows, size.longest);
}

void Attention::apply(const CudaStep& step, const gc::Bf16* x, float* residual) const {
  Workspace& workspace = step.workspace;
  const std::size_t mark = workspace.mark();
  const std::size_t rows = step.size.padded();
  auto* projected = workspace.take<gc::Bf16>(rows * static_cast<std::size_t>(in_.weight.rows));
  auto* mixed = workspace.take<gc::Bf16>(rows * static_cast<std::size_t>(out_.weight.columns));
  std::byte* inside = workspace.bytes(gc::attention_workspace(shape_, step.size.rows, step.size.longest));
  step.multiply(x, in_, projected, gc::GemmOutput::kBf16);
  const gc::AttentionPass pass{.projected = projected,
                               .stride = in_.weight.rows,
                               .q_norm = q_norm_,
                               .k_norm = k_norm_,
                               .rope_cos = step.rope_cos,
                               .rope_sin = step.rope_sin,
                               .out = mixed,
                               .workspace = inside};
  const auto attend = step.phase == Phase::kPrefill ? gc::attention_prefill : gc::attention_decode;
  attend(shape_, step.batch, pass, step.stream);
  step.multiply(mixed, out_, residual, gc::GemmOutput::kAddF32);
  workspace.reset(mark);
}

void Attention::admit(gc::PrefillGemm& gemm, int most_rows) const {
  gemm.admit(in_.weight, gc::GemmOutput::kBf16, most_rows);
  gemm.admit(out_.weight, gc::GemmOutput::kAddF32, most_rows);
}

}  // namespace reprise::models::cuda
