#pragma once
// (I + L)^-1 of a chunk of 64 tokens, L strictly lower triangular, by forward substitution in f32. Included by CUDA sources
// alone, with internal linkage.

namespace reprise::gpu::cuda {
namespace {

constexpr int kLRow = 68;  // floats of a row of L^T in shared memory; 16 bytes aligned
constexpr int kTRow = 72;  // floats of a row of T; rows four apart fall on other banks

/// Column `column` of T = (I + L)^-1, by one thread, which alone reads and writes that column.
/// lower: L^T, [64] rows of kLRow; inverse: T, [64] rows of kTRow. Blocks of 16 rows above the first block of
/// 32 columns are not written.
__device__ inline void solve_column(const float* lower, float* inverse, int column) {
  const int first_block = column / 32 * 2;  // the same for a warp
  for (int block = first_block; block < 4; ++block) {
    float x[16];
#pragma unroll
    for (int i = 0; i < 16; ++i) x[i] = block * 16 + i == column ? 1.0F : 0.0F;
    for (int j = first_block * 16; j < block * 16; ++j) {
      const float known = inverse[j * kTRow + column];
      const float4* l = reinterpret_cast<const float4*>(lower + j * kLRow + block * 16);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float4 four = l[i];
        x[4 * i] = fmaf(-four.x, known, x[4 * i]);
        x[4 * i + 1] = fmaf(-four.y, known, x[4 * i + 1]);
        x[4 * i + 2] = fmaf(-four.z, known, x[4 * i + 2]);
        x[4 * i + 3] = fmaf(-four.w, known, x[4 * i + 3]);
      }
    }
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      const float* l = lower + (block * 16 + j) * kLRow + block * 16;
#pragma unroll
      for (int i = j + 1; i < 16; ++i) x[i] = fmaf(-l[i], x[j], x[i]);
    }
#pragma unroll
    for (int i = 0; i < 16; ++i) inverse[(block * 16 + i) * kTRow + column] = x[i];
  }
}

}  // namespace
}  // namespace reprise::gpu::cuda
