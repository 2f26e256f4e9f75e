#pragma once
// Products with small f32 matrices: block-diagonal matrices and LoRA adapters.
//
// Bits: one kernel with a fixed order of additions serves any number of rows, in prefill and decode.

#include <cstddef>

#include "gpu/cuda/memory/stream.h"
#include "gpu/cuda/rows/batch.h"

namespace reprise::gpu::cuda {

// Block-diagonal y = x W + bias: the gates of RG-LRU, the per-head projections of latent attention.
// gpu/kernels.h (BlockDiagonal) is the specification; here blocks need not be square, and rows may be wider
// than the blocks together. f32; sums start with the bias and run over the inputs in ascending order.

struct BlockWeights {
  int blocks = 0;
  int inputs = 0;
  int outputs = 0;
  const float* weight = nullptr;  // [blocks, inputs, outputs]
  const float* bias = nullptr;    // [blocks, outputs]; null: no bias
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

// LoRA adapter: y += scale * (x A^T) B^T for some rows of a batch.

/// A LoRA adapter, f32 in GPU memory.
struct LowRank {
  const float* a = nullptr;  // [rank, inputs]
  const float* b = nullptr;  // [rank, outputs], transposed for contiguous reads
  int rank = 0;
  int inputs = 0;
  int outputs = 0;
  float scale = 1;
};

template <class Row>
struct LowRankRows {
  const Row* x = nullptr;  // [rows, inputs]
  int rows = 0;
  float* inner = nullptr;  // [rows, rank]: scratch
  void* y = nullptr;       // [rows] rows of `stride`, at the matrix's first output
  int stride = 0;
  bool y_is_bf16 = false;  // else f32
};

template <class Row>
void add_low_rank(const LowRank& change, const LowRankRows<Row>& rows, StreamHandle stream);

}  // namespace reprise::gpu::cuda
