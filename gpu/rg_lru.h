#pragma once
// What the Real-Gated Linear Recurrent Unit asks of a device: gates by a block-diagonal matrix, and the recurrence.
// Part of the table in gpu/kernels.h, with its rules.
//
// Threading: as gpu/kernels.h.

#include <cstddef>

namespace reprise::gpu {

/// y = x W + bias, W a matrix for each block of a row. Sums run over the inputs upwards, from the bias.
struct BlockDiagonal {
  const float* x;       // [rows, blocks, size]
  const float* weight;  // [blocks, size of inputs, size of outputs]
  const float* bias;    // [blocks, size]
  float* y;             // [rows, blocks, size]
  std::size_t rows;
  std::size_t blocks;
  std::size_t size;
};

/// The recurrence over consecutive tokens of one sequence, channel by channel:
///   log_a = rate sigmoid(recurrence_gate)
///   h = exp(log_a) h + x sigmoid(input_gate) sqrt(1 - exp(2 log_a));  out = h
/// At the first token of a sequence h is what comes in, without the root.
struct RgLru {
  float* state;                  // h [channels], updated
  const float* x;                // [tokens, channels]
  const float* input_gate;       // [tokens, channels]
  const float* recurrence_gate;  // [tokens, channels]
  const float* rate;             // [channels]: at most 0
  float* out;                    // [tokens, channels]
  std::size_t channels;
  std::size_t tokens;
  bool begins;  // the first of the tokens is the first of its sequence
};

}  // namespace reprise::gpu
