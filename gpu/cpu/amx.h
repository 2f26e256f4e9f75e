#pragma once
// The products with AMX's tiles, for the table of avx512_vnni.cc.
//
// Threading: any thread, on disjoint outputs; each sets up the tiles of its thread and releases them.

#include <cstddef>
#include <span>

#include "gpu/weight.h"

namespace reprise::gpu {

/// Of bf16: Product::multiply (gpu/products.h). x as sums of two bf16 in groups of 32 (two_bf16.h).
void multiply_bf16_tiles(const void* activations, std::size_t m, const WeightView& w, float* y,
                         std::size_t y_stride, std::size_t n_begin, std::size_t n_end);

/// The same of listed rows (int8_product.h), for more than a few of them.
using MultiplyByTiles = void (*)(const std::byte* const* listed, std::size_t m, const WeightView& w, float* y,
                                 std::size_t y_stride, std::size_t n_begin, std::size_t n_end);
/// For each quantized format of GGUF files, in the order of with_gguf_quants() (quants.h).
extern const std::span<const MultiplyByTiles> kMultiplyByTiles;

}  // namespace reprise::gpu
