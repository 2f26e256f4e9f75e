#pragma once
// Grouped-query attention, as a model describes it: sizes, options, tensors and state of one part of a layer.
//
// Tensors: `name`.q_proj [q_proj_rows, hidden], k_proj and v_proj [kv_size, hidden], o_proj [hidden, q_size];
// with a head norm q_norm and k_norm [head_dim].
// State of a token: K and V after norm and rope, each [kv_heads, kPageTokens, head_dim] in a page, in rows as
// gpu/kv_rows.h has them.
// With a window only the last tokens are ever looked at, so that K and V are state of the sequence: a ring of pages in
// its slot, [ring_pages, K and V, kv_heads, kPageTokens, head_dim], in which page n of the sequence stands at n mod
// ring_pages. Its pages begin where those of a sequence without a window would, whatever the window's place, so that
// sums are the same however the tokens came.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "gpu/kv_rows.h"
#include "models/parts/part.h"
#include "models/parts/rope.h"

namespace reprise::models {

struct AttentionSpec {
  std::string name{};  // before ".q_proj"
  std::size_t hidden = 0;
  std::size_t heads = 0;
  std::size_t kv_heads = 0;  // divides heads
  std::size_t head_dim = 0;
  std::optional<NormKind> head_norm{};  // over each head of q and k, before rope
  bool output_gate = false;             // q_proj gives [q, gate] for each head; out *= sigmoid(gate)
  bool bias = false;                    // on q, k, v and o
  bool output_bias = false;             // on o, whatever the others have
  std::size_t window = 0;               // tokens that a token looks at, itself the last of them; 0: all
  float score_multiplier = 1;           // scores are multiplier * q k / sqrt(head_dim)
  /// Shared by the parts that turn alike; null: positions do not matter.
  std::shared_ptr<const RopeConfig> rope{};

  std::size_t group() const { return heads / kv_heads; }  // query heads to one of keys and values
  std::size_t q_size() const { return heads * head_dim; }
  std::size_t kv_size() const { return kv_heads * head_dim; }
  std::size_t q_proj_rows() const { return output_gate ? 2 * q_size() : q_size(); }
  /// With a window: pages that it may touch, with the one that is being filled.
  std::size_t ring_pages() const { return (window - 1 + gpu::kPageTokens - 1) / gpu::kPageTokens + 1; }
  std::size_t rope_pairs() const { return rope ? rope->dimension / 2 : 0; }

  bool operator==(const AttentionSpec& other) const;
};

/// How a GGUF file has it.
struct AttentionInGguf {
  bool interleaved_heads = false;  // the two halves of each head of q and k alternate
};

/// `block` is what llama.cpp puts before the names of the layer: "blk.3".
void add_tensors(TensorList& tensors, const AttentionSpec& attention, const std::string& block,
                 const AttentionInGguf& gguf = {});

/// Where a page has K and V of all heads; with a window a page of the ring, which then begins at `ring` of the slot.
struct AttentionPlaces {
  std::size_t k;
  std::size_t v;
  std::size_t ring = 0;
  /// Without a window: where a token's row of the prompt's tail has q after norm and rope.
  std::size_t queries = 0;
};

/// `query_element`: bytes of an element of such a q.
AttentionPlaces declare_state(const AttentionSpec& attention, gpu::KvType kv, StateLayout& state,
                              std::size_t query_element = sizeof(float));

/// How a layer with a window keeps what is kept as `kv` elsewhere: its ring stands in the slot, whose contents are looked
/// at as floats, so that whole numbers have no place there.
inline gpu::KvType kv_of_slot(gpu::KvType kv) {
  return gpu::is_quantised(kv) ? gpu::KvType::kBF16 : kv;
}
inline gpu::KvType kv_of(const AttentionSpec& attention, gpu::KvType kv) {
  return attention.window != 0 ? kv_of_slot(kv) : kv;
}

std::optional<std::string> gpu_refusal(const AttentionSpec& attention);
PartSizes describe(const AttentionSpec& attention);

}  // namespace reprise::models
