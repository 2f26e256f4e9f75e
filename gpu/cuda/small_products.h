#pragma once
// Products with small matrices of f32, by kernels of their own: a matrix for each block of a row, and the two of an adapter.
//
// Exactness: as gpu/cuda/batch.h. Each sum has a fixed order, by one kernel whatever the number of rows and in both phases.
// Threading: launches into `stream`; no other state.

#include <cstddef>

#include "gpu/cuda/batch.h"
#include "gpu/cuda/stream.h"

namespace reprise::gpu::cuda {

// y = x W + bias with a matrix for each block of a row: the gates of RG-LRU, the keys and values of latent attention's
// heads. gpu/kernels.h (BlockDiagonal) is the specification; here a matrix need not be square, and rows may have more
// than the blocks. In f32, sums over the inputs upwards from the bias.

struct BlockWeights {
  int blocks = 0;
  int inputs = 0;
  int outputs = 0;
  const float* weight = nullptr;  // [blocks, inputs, outputs]
  const float* bias = nullptr;    // [blocks, outputs]; null: none
};

/// Block b of row r begins at first + r * row + b * block.
template <class T>
struct BlockRows {
  T* first;
  std::size_t row;
  std::size_t block;
};

void block_product(const BlockWeights& weights, int rows, const BlockRows<const float>& x,
                   const BlockRows<float>& y, StreamHandle stream);
void block_product(const BlockWeights& weights, int rows, const BlockRows<const Bf16>& x,
                   const BlockRows<Bf16>& y, StreamHandle stream);
void block_product(const BlockWeights& weights, int rows, const BlockRows<const float>& x,
                   const BlockRows<Bf16>& y, StreamHandle stream);

// What a LoRA adapter adds to a product, for some rows of it: y += scale * (x A^T) B^T. It depends on the row of x and on the
// adapter alone.

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
