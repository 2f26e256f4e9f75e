#include "models/parts/attention.h"

#include <tuple>

namespace reprise::models {
namespace {

// Layout of a GGUF matrix in which the two halves of each head are interleaved.
GgufLayout interleaved(std::size_t heads, std::size_t head_dim) {
  GgufLayout out;
  out.axis = GgufLayout::Axis::kRows;
  out.batch = heads;
  out.outer = head_dim / 2;
  out.inner = 2;
  return out;
}

}  // namespace

bool AttentionSpec::operator==(const AttentionSpec& other) const {
  const auto plain = [](const AttentionSpec& a) {
    return std::tie(a.name, a.hidden, a.heads, a.kv_heads, a.head_dim, a.head_norm, a.output_gate, a.bias,
                    a.output_bias, a.window, a.score_multiplier);
  };
  const bool same_rope = rope && other.rope ? *rope == *other.rope : rope == other.rope;
  return same_rope && plain(*this) == plain(other);
}

void add_tensors(TensorList& tensors, const AttentionSpec& a, const std::string& block,
                 const AttentionInGguf& gguf) {
  GgufLayout q_rows;
  GgufLayout k_rows;
  if (gguf.interleaved_heads) {
    q_rows = interleaved(a.heads, a.head_dim);
    k_rows = interleaved(a.kv_heads, a.head_dim);
  }
  tensors.add_linear(a.name + ".q_proj", a.q_proj_rows(), a.hidden, block + ".attn_q", a.bias, q_rows);
  tensors.add_linear(a.name + ".k_proj", a.kv_size(), a.hidden, block + ".attn_k", a.bias, k_rows);
  tensors.add_linear(a.name + ".v_proj", a.kv_size(), a.hidden, block + ".attn_v", a.bias);
  tensors.add_linear(a.name + ".o_proj", a.hidden, a.q_size(), block + ".attn_output",
                     a.bias || a.output_bias);
  if (!a.head_norm) return;
  tensors.add_norm({a.name + ".q_norm", a.head_dim, *a.head_norm}, block + ".attn_q_norm");
  tensors.add_norm({a.name + ".k_norm", a.head_dim, *a.head_norm}, block + ".attn_k_norm");
}

AttentionOffsets declare_state(const AttentionSpec& attention, gpu::KvType kv, StateLayout& state,
                               std::size_t query_element) {
  const std::size_t token = attention.kv_heads * gpu::kv_row_bytes(kv_of(attention, kv), attention.head_dim);
  if (attention.window != 0) {
    const std::size_t one = gpu::kPageTokens * token;
    return {.k = 0,
            .v = one,
            .ring = state.add_per_sequence(attention.name + ".ring", attention.ring_pages() * 2 * one)};
  }
  const std::size_t k = state.add_per_token(attention.name + ".k", token);
  const std::size_t v = state.add_per_token(attention.name + ".v", token);
  return {
      .k = k,
      .v = v,
      .queries = state.add_to_tail(attention.name + ".q", attention.q_size() * query_element),
  };
}

std::optional<std::string> gpu_refusal(const AttentionSpec& attention) {
  if (attention.score_multiplier > 0) return std::nullopt;
  return attention.name + ": attention with a multiplier that is not positive";
}

PartSizes describe(const AttentionSpec& attention) {
  return {"attention heads",
          std::to_string(attention.heads) + " query, " + std::to_string(attention.kv_heads) +
              " key/value, of " + std::to_string(attention.head_dim) +
              (attention.window == 0 ? "" : ", over " + std::to_string(attention.window) + " tokens")};
}

}  // namespace reprise::models
