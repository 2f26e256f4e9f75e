#include "models/layers/moe_spec.h"

namespace reprise::models {
namespace {

/// One matrix of one expert, and the tensors of all experts that it may be a piece of.
struct ExpertMatrix {
  std::string name;  // "gate_proj"
  std::size_t rows;
  std::size_t columns;
  std::string gguf_stack;    // [experts, rows, columns]
  std::string hf_stack;      // [experts, hf_rows, columns]
  std::size_t hf_rows;       // more than `rows`: others are fused with it
  std::size_t hf_first;      // where it begins among them
  std::string gguf_fused{};  // [experts, hf_rows, columns]; empty: files do not fuse it
};

void add_matrix(TensorList& tensors, const MoeSpec& moe, const std::string& block, std::size_t expert,
                const ExpertMatrix& matrix) {
  const auto piece = [&](std::size_t rows, std::size_t first) {
    return TensorPiece{.of = {moe.experts, rows, matrix.columns}, .first_row = expert * rows + first};
  };
  TensorSpec spec{.name = moe.name + ".experts." + std::to_string(expert) + "." + matrix.name + ".weight",
                  .shape = {matrix.rows, matrix.columns}};
  spec.gguf = {.names = {block + "." + matrix.gguf_stack + ".weight"}, .piece = piece(matrix.rows, 0)};
  if (!matrix.gguf_fused.empty()) {
    spec.gguf_else.push_back({.names = {block + "." + matrix.gguf_fused + ".weight"},
                              .piece = piece(matrix.hf_rows, matrix.hf_first)});
  }
  spec.hf_else.push_back(
      {.names = {moe.name + ".experts." + matrix.hf_stack}, .piece = piece(matrix.hf_rows, matrix.hf_first)});
  tensors.add(std::move(spec));
}

}  // namespace

void add_tensors(TensorList& tensors, const MoeSpec& moe, const std::string& block) {
  tensors.add_linear(moe.name + ".gate", moe.experts, moe.hidden, block + ".ffn_gate_inp");
  tensors.last().hf.names = {moe.name + ".gate.weight", moe.name + ".router.weight"};
  if (moe.has_shared()) {
    const std::string shared = moe.name + ".shared_expert";
    const std::size_t size = moe.shared_intermediate;
    tensors.add_linear(shared + "_gate", 1, moe.hidden, block + ".ffn_gate_inp_shexp");
    tensors.add_linear(shared + ".gate_proj", size, moe.hidden, block + ".ffn_gate_shexp");
    tensors.add_linear(shared + ".up_proj", size, moe.hidden, block + ".ffn_up_shexp");
    tensors.add_linear(shared + ".down_proj", moe.hidden, size, block + ".ffn_down_shexp");
  }
  const std::size_t size = moe.intermediate;
  const ExpertMatrix matrices[] = {
      {"gate_proj", size, moe.hidden, "ffn_gate_exps", "gate_up_proj", 2 * size, 0, "ffn_gate_up_exps"},
      {"up_proj", size, moe.hidden, "ffn_up_exps", "gate_up_proj", 2 * size, size, "ffn_gate_up_exps"},
      {"down_proj", moe.hidden, size, "ffn_down_exps", "down_proj", moe.hidden, 0}};
  for (std::size_t expert = 0; expert < moe.experts; ++expert) {
    for (const ExpertMatrix& matrix : matrices) add_matrix(tensors, moe, block, expert, matrix);
  }
}

}  // namespace reprise::models
