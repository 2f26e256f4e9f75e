#pragma once
// What a LoRA adapter adds to a product: y += scale * (x A^T) B^T, for some rows of it.
//
// Exactness: the same kernels in both phases; each sum has a fixed order. So what is added to a row depends on that row
// of x and on the adapter alone.
//
// Threading: any; everything goes into the stream.

#include <cstddef>

#include "gpu/cuda/batch.h"
#include "gpu/cuda/formats.h"
#include "gpu/cuda/stream.h"

namespace reprise::gpu::cuda {

/// f32, in the GPU's memory.
struct LowRank {
  const float* a = nullptr;  // [rank, inputs]
  const float* b = nullptr;  // [rank, outputs]: B transposed, so that neighbouring outputs lie together
  int rank = 0;
  int inputs = 0;
  int outputs = 0;
  float scale = 1;
};

/// Row is Bf16 or float.
template <class Row>
struct LowRankRows {
  const Row* x = nullptr;  // [rows, inputs]
  int rows = 0;
  float* inner = nullptr;  // [rows, rank]: memory for the way
  void* y = nullptr;       // [rows] of `stride`, from the matrix's first output on
  int stride = 0;
  bool y_is_bf16 = false;  // else f32
};

template <class Row>
void add_low_rank(const LowRank& change, const LowRankRows<Row>& rows, StreamHandle stream);

}  // namespace reprise::gpu::cuda
