#pragma once
// Attention shapes used by tests.

#include <cstddef>
#include <ostream>
#include <span>
#include <vector>

#include "gpu/cuda/attention/attention.h"
#include "gpu/state/kv_rows.h"

namespace reprise::gpu::cuda {

inline void PrintTo(const AttentionShape& shape, std::ostream* out) {
  *out << shape.heads << " heads of " << shape.head_dim << ", " << shape.kv_heads << " of keys as "
       << name_of(shape.kv);
}

}  // namespace reprise::gpu::cuda

namespace reprise::gpu::cuda::test {

inline constexpr std::size_t kGap = 64;  // bytes before, between and after the parts of a page

/// A shape with page layout [gap, K, gap, V, gap].
inline AttentionShape shape_of(int heads, int kv_heads, int head_dim, int rope_pairs, bool norm, bool gate) {
  const std::size_t part = static_cast<std::size_t>(kv_heads * kGrid * head_dim) * sizeof(Bf16);
  return {.heads = heads,
          .kv_heads = kv_heads,
          .head_dim = head_dim,
          .rope_pairs = rope_pairs,
          .qk_norm = norm,
          .output_gate = gate,
          .norm_offset = norm && gate ? 1.0F : 0.0F,
          .norm_eps = 1e-6F,
          .k_offset = kGap,
          .v_offset = part + 2 * kGap};
}

inline AttentionShape kept_as(KvType kv, AttentionShape shape) {
  shape.kv = kv;
  shape.v_offset = kGrid * shape.token_bytes() / 2 + 2 * kGap;
  return shape;
}

/// The shape with a sliding window whose ring fills a slot.
inline AttentionShape with_window(AttentionShape shape, int window) {
  shape.k_offset = 0;
  shape.v_offset = kGrid * shape.token_bytes() / 2;
  shape.window = window;
  shape.ring_pages = (window - 1 + kGrid - 1) / kGrid + 1;
  return shape;
}

inline constexpr KvType kKvTypes[] = {KvType::kBF16, KvType::kInt8, KvType::kInt4};

inline std::vector<AttentionShape> kept_as_each(std::span<const KvType> kinds,
                                                const std::vector<AttentionShape>& shapes) {
  std::vector<AttentionShape> all;
  for (const KvType kv : kinds) {
    for (const AttentionShape& shape : shapes) all.push_back(kept_as(kv, shape));
  }
  return all;
}

/// Shapes of a tiny Llama, small Qwen3.5, Qwen3 and Qwen3.5-0.8B, for each KV type.
inline std::vector<AttentionShape> all_shapes(std::span<const KvType> kinds = kKvTypes) {
  return kept_as_each(kinds, {shape_of(4, 2, 16, 8, false, false), shape_of(4, 2, 32, 4, true, true),
                              shape_of(4, 2, 64, 8, false, true), shape_of(32, 8, 128, 64, true, false),
                              shape_of(8, 2, 256, 32, true, true)});
}

inline std::vector<AttentionShape> shapes_with_windows(KvType kv = KvType::kBF16) {
  std::vector<AttentionShape> shapes;
  for (const int window : {1, 2, 48, 63, 64, 65, 129, 300}) {
    shapes.push_back(with_window(kept_as(kv, shape_of(4, 1, 16, 8, false, false)), window));
  }
  shapes.push_back(with_window(kept_as(kv, shape_of(10, 1, 256, 64, false, false)), 200));
  shapes.push_back(with_window(kept_as(kv, shape_of(4, 2, 128, 64, true, true)), 100));
  return shapes;
}

}  // namespace reprise::gpu::cuda::test
