#include "models/parts/moe.h"

namespace reprise::models {
namespace {

/// A matrix of an expert, and the stacked or fused tensors that may contain it.
struct ExpertMatrix {
  std::string name;   // "gate_proj"
  std::string other;  // alternative name in Hugging Face files: "w1"
  std::size_t rows;
  std::size_t columns;
  std::string gguf_stack;    // [experts, rows, columns]
  std::string hf_stack;      // [hf_experts, hf_rows, columns]
  std::size_t hf_experts;    // experts in the stack, unused ones included
  std::size_t hf_rows;       // per expert; more than `rows` if matrices are fused
  std::size_t hf_first;      // first row of this matrix among them
  std::string gguf_fused{};  // [experts, hf_rows, columns]; empty: never fused
};

void add_matrix(TensorList& tensors, const MoeSpec& moe, const std::string& block, std::size_t expert,
                const ExpertMatrix& matrix) {
  const auto piece = [&](std::size_t experts, std::size_t rows, std::size_t first) {
    return TensorPiece{.of = {experts, rows, matrix.columns}, .first_row = expert * rows + first};
  };
  const std::string own = moe.name + ".experts." + std::to_string(expert) + ".";
  TensorSpec spec{.name = own + matrix.name + ".weight", .shape = {matrix.rows, matrix.columns}};
  spec.hf.names = {spec.name, own + matrix.other + ".weight"};
  spec.gguf = {.names = {block + "." + matrix.gguf_stack + ".weight"},
               .piece = piece(moe.experts, matrix.rows, 0)};
  if (!matrix.gguf_fused.empty()) {
    spec.gguf_else.push_back({.names = {block + "." + matrix.gguf_fused + ".weight"},
                              .piece = piece(moe.experts, matrix.hf_rows, matrix.hf_first)});
  }
  spec.hf_else.push_back({.names = {moe.name + ".experts." + matrix.hf_stack},
                          .piece = piece(matrix.hf_experts, matrix.hf_rows, matrix.hf_first)});
  tensors.add(std::move(spec));
}

}  // namespace

void add_tensors(TensorList& tensors, const MoeSpec& moe, const std::string& block) {
  const auto also = [&](const std::string& name) { tensors.last().hf.names = {tensors.last().name, name}; };
  tensors.add_linear(moe.name + ".gate", moe.routed(), moe.hidden, block + ".ffn_gate_inp");
  also(moe.name + ".router.classifier.weight");
  tensors.last().hf.names.push_back(moe.name + ".router.weight");
  if (moe.correction_bias) {
    tensors.add(moe.name + ".gate.e_score_correction_bias", {moe.routed()}, block + ".exp_probs_b.bias");
    also(moe.name + ".router.e_score_correction_bias");
    tensors.also_called(block + ".exp_probs_b");
  }
  if (moe.has_shared()) {
    const std::string shared = moe.name + ".shared_expert";
    const std::size_t size = moe.shared_intermediate;
    if (moe.shared_gate) {
      tensors.add_linear(shared + "_gate", 1, moe.hidden, block + ".ffn_gate_inp_shexp");
    }
    const auto add = [&](const char* matrix, std::size_t rows, std::size_t columns, const char* gguf) {
      tensors.add_linear(shared + matrix, rows, columns, block + gguf);
      also(shared + "s" + matrix + ".weight");
    };
    if (moe.has_gates()) add(".gate_proj", size, moe.hidden, ".ffn_gate_shexp");
    add(".up_proj", size, moe.hidden, ".ffn_up_shexp");
    add(".down_proj", moe.hidden, size, ".ffn_down_shexp");
  }
  if (moe.latent != 0) {
    tensors.add_linear(moe.name + ".fc1_latent_proj", moe.latent, moe.hidden, block + ".ffn_latent_down");
    tensors.add_linear(moe.name + ".fc2_latent_proj", moe.hidden, moe.latent, block + ".ffn_latent_up");
  }
  const std::size_t size = moe.intermediate;
  const std::size_t width = moe.width();
  std::vector<ExpertMatrix> matrices;
  if (moe.has_gates()) {
    matrices.push_back({"gate_proj", "w1", size, width, "ffn_gate_exps", "gate_up_proj", moe.routed(),
                        2 * size, 0, "ffn_gate_up_exps"});
    matrices.push_back({"up_proj", "w3", size, width, "ffn_up_exps", "gate_up_proj", moe.routed(), 2 * size,
                        size, "ffn_gate_up_exps"});
  } else {
    matrices.push_back({"up_proj", "w1", size, width, "ffn_up_exps", "up_proj", moe.experts, size, 0});
  }
  matrices.push_back({"down_proj", "w2", width, size, "ffn_down_exps", "down_proj", moe.experts, width, 0});
  for (std::size_t expert = 0; expert < moe.experts; ++expert) {
    for (const ExpertMatrix& matrix : matrices) add_matrix(tensors, moe, block, expert, matrix);
  }
}

std::optional<std::string> gpu_refusal(const MoeSpec& moe) {
  if (moe.routed() > gpu::kMaxRoutedOnGpu || moe.chosen > gpu::kMaxChosenOnGpu) {
    return moe.name + ": " + std::to_string(moe.chosen) + " of " + std::to_string(moe.routed()) +
           " experts, above " + std::to_string(gpu::kMaxChosenOnGpu) + " of " +
           std::to_string(gpu::kMaxRoutedOnGpu) + ",";
  }
  if (moe.intermediate % 8 == 0 && moe.width() % 8 == 0) return std::nullopt;
  return moe.name + ": experts of " + std::to_string(moe.width()) + " by " +
         std::to_string(moe.intermediate) + ", which are no multiples of 8,";
}

PartSizes describe(const MoeSpec& moe) {
  return {
      "experts",
      std::to_string(moe.experts) + " of " + std::to_string(moe.intermediate) + ", " +
          std::to_string(moe.chosen) + " per token" +
          (moe.zero_experts != 0 ? ", " + std::to_string(moe.zero_experts) + " that pass their input through"
                                 : "") +
          (moe.has_shared() ? ", one of " + std::to_string(moe.shared_intermediate) + " shared" : "")};
}

}  // namespace reprise::models
