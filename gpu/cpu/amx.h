#pragma once
// The products with AMX's tiles, for the table of avx512_vnni.cc.
//
// Threading: any thread, on disjoint outputs; each sets up the tiles of its thread and releases them.

#include <cstddef>

#include "gpu/weight.h"

namespace reprise::gpu {

/// Of bf16: Product::multiply (gpu/products.h). x as sums of two bf16 in groups of 32 (two_bf16.h).
void multiply_bf16_tiles(const void* activations, std::size_t m, const WeightView& w, float* y,
                         std::size_t y_stride, std::size_t n_begin, std::size_t n_end);

/// Of a quantized format of GGUF files: the same of listed rows (int8_product.h). For more than a few rows.
void multiply_bytes_by_tiles(const std::byte* const* listed, std::size_t m, const WeightView& w, float* y,
                             std::size_t y_stride, std::size_t n_begin, std::size_t n_end);

}  // namespace reprise::gpu
