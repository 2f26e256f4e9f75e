#pragma once
// What attention of a decoded row makes of the projected row before it, and of its sums behind it (gpu/cuda/attention_decode.cu).
// Included by CUDA sources alone, with internal linkage.

#include "gpu/cuda/attention_heads.cuh"
#include "gpu/cuda/attention_keys.cuh"
#include "gpu/cuda/kv_rows.cuh"

namespace reprise::gpu::cuda {
namespace {

/// Rows of q beyond the group's, which nobody else writes.
template <int kDim, int kRows>
__device__ __forceinline__ void clear_rows(Bf16* q, int group) {
  constexpr int kChunks = kDim / 8;  // of a row
  for (int chunk = static_cast<int>(threadIdx.x); chunk < (kRows - group) * kChunks;
       chunk += static_cast<int>(blockDim.x)) {
    const int row = group + chunk / kChunks;
    *reinterpret_cast<uint4*>(q + row * tiles::kRowStride<kDim> + chunk % kChunks * 8) =
        make_uint4(0, 0, 0, 0);
  }
}

/// Asks for the weights of the heads' norms and the row's turns, which are older than the kernel in front.
template <int kDim>
__device__ __forceinline__ void ask_for_norms(const AttentionShape& shape, const AttentionPass<Bf16>& pass,
                                              int row) {
  constexpr int kLine = 32;  // floats
  const int at = static_cast<int>(threadIdx.x) * kLine;
  const auto ask = [](const float* line) { asm volatile("prefetch.global.L1 [%0];" ::"l"(line)); };
  if (at < shape.rope_pairs) {
    ask(pass.rope_cos + static_cast<std::size_t>(row) * shape.rope_pairs + at);
    ask(pass.rope_sin + static_cast<std::size_t>(row) * shape.rope_pairs + at);
  }
  if (!shape.qk_norm || at >= kDim) return;
  ask(pass.q_norm + at);
  ask(pass.k_norm + at);
}

/// Where the row's own key and value go; null: another block puts them there.
struct NewestRow {
  std::byte* key = nullptr;
  std::byte* value = nullptr;
};

/// The group's heads of q of a row into shared memory, its key and value into their places. A head is a warp's.
template <KvType kKv, int kDim>
__device__ __forceinline__ void prepare_row(const AttentionShape& shape, const AttentionPass<Bf16>& pass,
                                            int row, int kv_head, Bf16* q, const NewestRow& newest) {
  const int group = shape.heads / shape.kv_heads;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int pitch = shape.output_gate ? 2 * kDim : kDim;  // of heads of q
  const Bf16* projected = pass.projected + static_cast<std::size_t>(row) * pass.stride;
  const Bf16* keys = projected + shape.heads * pitch + kv_head * kDim;
  const std::size_t turn = static_cast<std::size_t>(row) * shape.rope_pairs;
  const float* cosine = pass.rope_cos + turn;
  const float* sine = pass.rope_sin + turn;
  const int items = newest.key == nullptr ? group : group + 2;
  for (int item = static_cast<int>(threadIdx.x) / 32; item < items;
       item += static_cast<int>(blockDim.x) / 32) {
    if (item < group) {
      const EightOfHead read = read_head<kDim>(projected + (kv_head * group + item) * pitch, lane);
      const EightOfHead ready = prepare_head<kDim>(read, shape, pass.q_norm, cosine, sine, lane);
      KvRow<KvType::kBF16, kDim>::store(reinterpret_cast<std::byte*>(q + item * tiles::kRowStride<kDim>),
                                        lane, ready.x);
    } else if (item == group) {
      const EightOfHead read = read_head<kDim>(keys, lane);
      const EightOfHead ready = prepare_head<kDim>(read, shape, pass.k_norm, cosine, sine, lane);
      KvRow<kKv, kDim>::store(newest.key, lane, ready.x);
    } else {
      const EightOfHead read = read_head<kDim>(keys + shape.kv_heads * kDim, lane);
      KvRow<kKv, kDim>::store(newest.value, lane, read.x);
    }
  }
}

/// Where a head's key and value of the row's own position stand.
template <KvType kKv, int kDim>
__device__ __forceinline__ NewestRow newest_row(const AttentionShape& shape, const BatchSlice& slice,
                                                int kv_head) {
  std::byte* place =
      key_page(shape, slice, 0, nullptr, slice.stored / kGrid) +
      static_cast<std::size_t>(kv_head * kGrid + slice.stored % kGrid) * KvRow<kKv, kDim>::kBytes;
  return {.key = place + shape.k_offset, .value = place + shape.v_offset};
}

/// `present` rows of q that are ready, and zeros for the rest.
template <int kDim, int kRows>
__device__ __forceinline__ void put_rows(Bf16* to, const Bf16* from, int present) {
  constexpr int kChunks = kDim / 8;  // of a row
  for (int chunk = static_cast<int>(threadIdx.x); chunk < kRows * kChunks;
       chunk += static_cast<int>(blockDim.x)) {
    const int row = chunk / kChunks;
    const int column = chunk % kChunks * 8;
    *reinterpret_cast<uint4*>(to + row * tiles::kRowStride<kDim> + column) =
        row < present ? *reinterpret_cast<const uint4*>(from + row * kDim + column) : make_uint4(0, 0, 0, 0);
  }
}

/// What an element of a head's result is multiplied by; 1 where there is no gate.
template <int kDim>
__device__ __forceinline__ float gate_of(const AttentionShape& shape, const AttentionPass<Bf16>& pass,
                                         int row, int head, int element) {
  if (!shape.output_gate) return 1;
  const Bf16* gates = pass.projected + static_cast<std::size_t>(row) * pass.stride + (2 * head + 1) * kDim;
  return tiles::sigmoid(widen(gates[element]));
}

}  // namespace
}  // namespace reprise::gpu::cuda
