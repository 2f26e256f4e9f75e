#pragma once
// y = x W + bias with a matrix for each block of a row: the gates of RG-LRU, the keys and values of latent attention's
// heads. gpu/rg_lru.h (BlockDiagonal) is the specification; here a matrix need not be square, and rows may have more
// than the blocks. In f32, sums over the inputs upwards from the bias, by one kernel whatever the number of rows.
//
// Exactness: as gpu/cuda/batch.h. Threading: launches into `stream`; no other state.

#include <cstddef>

#include "gpu/cuda/batch.h"
#include "gpu/cuda/stream.h"

namespace reprise::gpu::cuda {

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

}  // namespace reprise::gpu::cuda
