#pragma once
// The product of bf16 with AMX's tiles (amx.cc), for the table of avx512_vnni.cc.
//
// Threading: any thread, on disjoint outputs; it sets up the tiles of its thread and releases them.

#include <cstddef>

#include "gpu/weight.h"

namespace reprise::gpu {

/// Product::multiply (gpu/products.h). x as sums of two bf16 in groups of 32 (two_bf16.h).
void multiply_bf16_tiles(const void* activations, std::size_t m, const WeightView& w, float* y,
                         std::size_t y_stride, std::size_t n_begin, std::size_t n_end);

}  // namespace reprise::gpu
