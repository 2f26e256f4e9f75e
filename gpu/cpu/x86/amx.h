#pragma once
// GEMMs on AMX tiles, for the table of avx512_vnni.cc. Thread-safe on disjoint outputs: each call configures
// and releases the tile registers of its thread.

#include <cstddef>
#include <span>

#include "gpu/weights/weight.h"

namespace reprise::gpu {

/// Product::multiply (gpu/weights/products.h) for bf16 weights; x as sums of two bf16 in groups of 32 (two_bf16.h).
void multiply_bf16_tiles(const void* activations, std::size_t m, const WeightView& w, float* y,
                         std::size_t y_stride, std::size_t n_begin, std::size_t n_end);

/// The form of MultiplyRows (int8_product.h): x is a list of pointers to prepared rows.
using MultiplyByTiles = void (*)(const std::byte* const* listed, std::size_t m, const WeightView& w, float* y,
                                 std::size_t y_stride, std::size_t n_begin, std::size_t n_end);
/// The GEMM of each quantized GGUF format, in the order of with_gguf_quants() (quants.h).
extern const std::span<const MultiplyByTiles> kMultiplyByTiles;

}  // namespace reprise::gpu
