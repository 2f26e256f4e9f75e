#pragma once
// Where the keys and values of a sequence's positions lie, with a window and without. Included by CUDA sources alone.

#include "gpu/cuda/attention.h"

namespace reprise::gpu::cuda {

/// Page `index` of a sequence. `made` has the pages of a prefill's own rows, with a window; null for decoded rows, whose
/// keys go into the ring at once. A slice's rows stand there from 64 * its index + its first row on, so that the last
/// page of one and the first of the next do not meet. With a window rows have elements of kElement bytes.
template <int kElement = sizeof(Bf16)>
__device__ __forceinline__ std::byte* key_page(const AttentionShape& shape, const BatchSlice& slice,
                                               int slice_index, std::byte* made, int index) {
  if (shape.window == 0) return slice.pages[index];
  const auto token = static_cast<std::size_t>(2 * shape.kv_heads * shape.head_dim) * kElement;
  const int ahead = index * kGrid - slice.stored;
  if (made != nullptr && ahead >= 0) {
    return made + static_cast<std::size_t>(slice.first_row + slice_index * kGrid + ahead) * token;
  }
  return slice.slot + shape.ring_offset + static_cast<std::size_t>(index % shape.ring_pages) * kGrid * token;
}

/// kElement where keys and values with a window are kept so.
template <KvType kKv>
inline constexpr int kElementInRing = static_cast<int>(kKv == KvType::kF32 ? sizeof(float) : sizeof(Bf16));

/// The first position that the row at `position` looks at.
__device__ __forceinline__ int first_key(const AttentionShape& shape, int position) {
  return shape.window == 0 ? 0 : max(0, position + 1 - shape.window);
}

}  // namespace reprise::gpu::cuda
