#pragma once
// Grouped-query attention: sizes, options, tensors and state.
//
// Tensors: `name`.q_proj [q_proj_rows, hidden], k_proj and v_proj [kv_size, hidden], o_proj [hidden, q_size];
// with a head norm q_norm and k_norm [head_dim].
// State per token: K and V after norm and RoPE, each [kv_heads, kPageTokens, head_dim] in a page;
// gpu/state/kv_rows.h has the layout of a row.
// With a sliding window, K and V are per-sequence state instead: a ring of pages in the slot, [ring_pages, K
// and V, kv_heads, kPageTokens, head_dim]. Page n of the sequence is at index n mod ring_pages. Page
// boundaries are those of a sequence without a window, whatever the window's position, so that sums do not
// depend on how the tokens were sliced.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "gpu/state/kv_rows.h"
#include "models/parts/part.h"
#include "models/parts/rope.h"

namespace reprise::models {

struct AttentionSpec {
  std::string name{};
  std::size_t hidden = 0;
  std::size_t heads = 0;
  std::size_t kv_heads = 0;  // divides heads
  std::size_t head_dim = 0;
  std::optional<NormKind> head_norm{};  // norm of each head of q and k, before RoPE
  bool output_gate = false;             // q_proj yields [q, gate] per head; out *= sigmoid(gate)
  bool bias = false;                    // on q, k, v and o
  bool output_bias = false;             // on o, even without `bias`
  std::size_t window = 0;               // tokens visible to a token, itself included; 0: all
  float score_multiplier = 1;           // score = multiplier * q k / sqrt(head_dim)
  /// Shared by parts with equal RoPE; null: no position encoding.
  std::shared_ptr<const RopeConfig> rope{};

  std::size_t group() const { return heads / kv_heads; }  // query heads per KV head
  std::size_t q_size() const { return heads * head_dim; }
  std::size_t kv_size() const { return kv_heads * head_dim; }
  std::size_t q_proj_rows() const { return output_gate ? 2 * q_size() : q_size(); }
  /// With a window: the pages it may overlap, including the page being filled.
  std::size_t ring_pages() const { return (window - 1 + gpu::kPageTokens - 1) / gpu::kPageTokens + 1; }
  std::size_t rope_pairs() const { return rope ? rope->dimension / 2 : 0; }

  bool operator==(const AttentionSpec& other) const;
};

struct AttentionInGguf {
  bool interleaved_heads = false;  // the two halves of each head of q and k are interleaved
};

void add_tensors(TensorList& tensors, const AttentionSpec& attention, const std::string& block,
                 const AttentionInGguf& gguf = {});

/// Offsets of K and V in a page, for all heads. With a window they are relative to a page of the ring.
struct AttentionOffsets {
  std::size_t k;
  std::size_t v;
  std::size_t ring = 0;  // offset of the ring in the slot, if there is a window
  /// Without a window: offset of q, after norm and RoPE, in a row of the prompt's tail.
  std::size_t queries = 0;
};

/// `query_element`: bytes per element of q in the prompt's tail.
AttentionOffsets declare_state(const AttentionSpec& attention, gpu::KvType kv, StateLayout& state,
                               std::size_t query_element = sizeof(float));

/// The KV type that is used in a slot if `kv` is used in pages: quantized types become bf16, because slots
/// are inspected as floats.
inline gpu::KvType kv_of_slot(gpu::KvType kv) {
  return gpu::is_quantized(kv) ? gpu::KvType::kBF16 : kv;
}
inline gpu::KvType kv_of(const AttentionSpec& attention, gpu::KvType kv) {
  return attention.window != 0 ? kv_of_slot(kv) : kv;
}

std::optional<std::string> gpu_refusal(const AttentionSpec& attention);
PartSizes describe(const AttentionSpec& attention);

}  // namespace reprise::models
