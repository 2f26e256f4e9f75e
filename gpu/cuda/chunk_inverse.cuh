#pragma once
// T = (I + L)^-1 of a chunk of 64 tokens, L strictly lower triangular, in f32: blocks of 16 x 16 on the diagonal by forward
// substitution, and what is below them by products. With A and B two neighbours on the diagonal whose inverses are there,
//   T_BA = -T_B (L_BA T_A)
// first of blocks of 16, then of 32. Included by CUDA sources alone, with internal linkage.

namespace reprise::gpu::cuda {
namespace {

constexpr int kLRow = 68;                // floats of a row of L^T in shared memory; 16 bytes aligned
constexpr int kTRow = 72;                // floats of a row of T; 16 bytes aligned
constexpr int kInverseThreads = 128;     // that work; more may take part
constexpr int kProductFloats = 32 * 36;  // of L_BA T_A

template <int kCount>
__device__ inline void load_some(float (&to)[kCount], const float* from) {
  static_assert(kCount == 2 || kCount == 4);
  if constexpr (kCount == 2) {
    const float2 two = *reinterpret_cast<const float2*>(from);
    to[0] = two.x;
    to[1] = two.y;
  } else {
    const float4 four = *reinterpret_cast<const float4*>(from);
    to[0] = four.x;
    to[1] = four.y;
    to[2] = four.z;
    to[3] = four.w;
  }
}

/// Column `column` of the block from row and column `first` of T, by one thread.
__device__ inline void invert_block(const float* lower, float* inverse, int first, int column) {
  float x[16];
#pragma unroll
  for (int i = 0; i < 16; ++i) x[i] = i == column ? 1.0F : 0.0F;
#pragma unroll
  for (int j = 0; j < 15; ++j) {
    const float* l = lower + (first + j) * kLRow + first;
#pragma unroll
    for (int i = (j + 1) / 4 * 4; i < 16; i += 4) {
      float four[4];
      load_some(four, l + i);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        if (i + k > j) x[i + k] = fmaf(-four[k], x[j], x[i + k]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < 16; ++i) inverse[(first + i) * kTRow + first + column] = x[i];
}

/// T_BA of blocks of kSize, A from row `first`, B behind it. By kSize * kSize / 2 / kColumns threads; all threads of the block
/// come here. A thread has two rows and kColumns columns.
/// product: kSize rows of kSize + 4.
template <int kSize>
__device__ inline void join_inverses(const float* lower, float* inverse, float* product, int first,
                                     int thread, bool works) {
  constexpr int kColumns = kSize / 8;
  constexpr int kRow = kSize + 4;
  const int row = thread / 8 * 2;
  const int column = thread % 8 * kColumns;
  const int block = column / 16 * 16;  // above it and beside it T is zero
  float x[2][kColumns] = {};
  if (works) {
    const float* l = lower + first * kLRow + first + kSize + row;
    const float* t = inverse + first * kTRow + first + column;
#pragma unroll 8
    for (int k = block; k < kSize; ++k) {
      float a[2];
      float b[kColumns];
      load_some(a, l + k * kLRow);
      load_some(b, t + k * kTRow);
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        x[0][c] = fmaf(a[0], b[c], x[0][c]);
        x[1][c] = fmaf(a[1], b[c], x[1][c]);
      }
    }
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      product[row * kRow + column + c] = x[0][c];
      product[(row + 1) * kRow + column + c] = x[1][c];
      x[0][c] = 0.0F;
      x[1][c] = 0.0F;
    }
  }
  __syncthreads();
  if (works) {
    const float* t = inverse + (first + kSize + row) * kTRow + first + kSize;
    const int end = row / 16 * 16 + 16;
#pragma unroll 2
    for (int k = 0; k < end; k += 4) {
      float a[2][4];
      load_some(a[0], t + k);
      load_some(a[1], t + kTRow + k);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float b[kColumns];
        load_some(b, product + (k + i) * kRow + column);
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
          x[0][c] = fmaf(a[0][i], b[c], x[0][c]);
          x[1][c] = fmaf(a[1][i], b[c], x[1][c]);
        }
      }
    }
    float* to = inverse + (first + kSize + row) * kTRow + first + column;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      to[c] = -x[0][c];
      to[kTRow + c] = -x[1][c];
    }
  }
  __syncthreads();
}

/// All threads of the block call it, kInverseThreads or more, with L^T in place for all; T is there for all afterwards.
/// lower: L^T, [64] rows of kLRow; inverse: T, [64] rows of kTRow, whose blocks above the diagonal are not written;
/// product: kProductFloats; all aligned to 16 bytes.
__device__ inline void invert_chunk(const float* lower, float* inverse, float* product) {
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  if (thread < kInverseThreads && lane < 16) invert_block(lower, inverse, thread / 32 * 16, lane);
  __syncthreads();
  const int pair = thread / 64;
  join_inverses<16>(lower, inverse, product + pair * 16 * 20, pair * 32, thread % 64,
                    thread < kInverseThreads);
  join_inverses<32>(lower, inverse, product, 0, thread, thread < kInverseThreads);
}

}  // namespace
}  // namespace reprise::gpu::cuda
