#pragma once
// Mixture of experts: routing, grouped GEMMs of the experts with their rows, and the weighted sum of the
// outputs. gpu/expert_routing.h and models/parts/moe.h are the specification.
//
// A routed row is a (row, expert) pair. Routed rows are sorted by expert, then by row, and cut into tiles of
// one expert, so that each block of a grouped GEMM reads the weights of one expert.
//
// Bits: a row's routing, its GEMMs (gemm/decode_product.cuh) and its sum over experts in ascending order
// depend on that row alone; no float atomics.

#include "gpu/cuda/gemm/formats.h"
#include "gpu/cuda/gemm/gemm.h"
#include "gpu/cuda/memory/stream.h"
#include "gpu/cuda/rows/batch.h"
#include "gpu/expert_routing.h"
#include "gpu/gpu_limits.h"

namespace reprise::gpu::cuda {

/// Bounds of the kernels.
inline constexpr int kMaxExperts = static_cast<int>(kMaxRoutedOnGpu);
inline constexpr int kMaxChosen = static_cast<int>(kMaxChosenOnGpu);

struct RouterShape {
  int routed;   // experts with weights, then zero experts (identity)
  int experts;  // experts with weights
  int chosen;
  bool normalized;
  RouterScores scores;
  int groups;
  int chosen_groups;
  float epsilon;
  float scale;
};

/// Routed rows [first, min(first + tile_rows, end)) of one expert; `end`: of the expert's rows.
struct alignas(16) ExpertTile {
  std::int32_t expert;
  std::int32_t first;
  std::int32_t end;
  std::int32_t unused;

  bool operator==(const ExpertTile&) const = default;
};

/// Routing tables of a step, in one block of memory.
struct RoutedRows {
  std::int32_t* chosen;      // [rows, chosen], ascending
  float* weights;            // [rows, chosen]: mixing weights
  std::int32_t* routed_row;  // [rows, chosen]: index of the routed row; -1: zero expert
  // [rows * chosen + rows]: row of each routed row; if rows are few, also of the shared expert's
  std::int32_t* row_at;
  std::int32_t* first;       // [experts + 1]: first routed row of each expert; not written if rows are few
  ExpertTile* tile_at;       // [tiles]
  std::int32_t* tile_count;  // [1]
  int rows;
  int entries;    // rows * chosen
  int tiles;      // upper bound
  int tile_rows;  // 8 or 64

  /// Max rows that one block routes and sorts.
  static constexpr int kFewRows = 2;
  bool are_few() const { return rows <= kFewRows; }

  /// Small tiles if experts have few rows each.
  static int tile_rows_for(int rows, const RouterShape& shape) {
    return rows * shape.chosen >= 16 * shape.experts ? 64 : 8;
  }
  static int max_tiles(int rows, const RouterShape& shape);
  /// Bytes that are enough for up to `rows` rows.
  static std::size_t bytes(int rows, const RouterShape& shape);
  static RoutedRows in(std::byte* memory, int rows, const RouterShape& shape);
};

/// Computes chosen and weights from logits, f32 [rows] rows of `stride`. bias [routed]; null: none. NaN ranks
/// last.
void route_rows(const RouterShape& shape, const float* logits, int stride, const float* bias, int rows,
                const RoutedRows& to, StreamHandle stream);
/// Computes the other tables from `chosen`.
void sort_rows(const RouterShape& shape, int rows, const RoutedRows& tables, StreamHandle stream);
/// route_rows() and sort_rows(); a single kernel if rows are few.
void route_and_sort(const RouterShape& shape, const float* logits, int stride, const float* bias, int rows,
                    const RoutedRows& to, StreamHandle stream);

/// Weights of all experts, concatenated by rows; `one`: the first expert's.
struct ExpertWeights {
  DeviceWeight one;
  std::size_t bytes = 0;         // per expert
  const void* shared = nullptr;  // weights of the shared expert, same format and shape; null: none
};

// If rows are few, the shared expert is computed by the same launch: y has `rows` more rows at the end.

/// y bf16 [routed rows, one.rows / 2] = gate(x W^T), where routed row i reads row row_at[i] of x [rows,
/// columns].
void experts_gated(const Bf16* x, const ExpertWeights& weights, const RoutedRows& tables, const GatedRows& to,
                   StreamHandle stream);
/// y [routed rows, one.rows] = x W^T with x [rows, columns] (routed row i reads row row_at[i]), or with x
/// [routed rows, columns] if x_is_routed.
void experts_product(const Bf16* x, bool x_is_routed, const ExpertWeights& weights, const RoutedRows& tables,
                     void* y, GemmOutput output, StreamHandle stream);

struct SharedExpert {
  const float* made = nullptr;   // [rows, size]; null: no shared expert
  const float* gates = nullptr;  // gate logit of row i at gates[i * stride], through sigmoid; null: factor 1
  int stride = 0;                // elements between gates
};

/// Operands of a row's sum, in this order: its experts' outputs (for zero experts the row `zero`), the shared
/// expert's output, then y's old value.
template <class Row>
struct ExpertSum {
  const float* outputs;  // [routed rows, size]
  const Row* zero;       // [rows, size]: input of the layer, which zero experts return
  SharedExpert shared;
  float* y;   // [rows, size]
  bool adds;  // true: y has an old value
};
template <class Row>
void sum_experts(const RouterShape& shape, const RoutedRows& tables, const ExpertSum<Row>& sum, int rows,
                 int size, StreamHandle stream);
/// y [rows, size] += gated output of the shared expert.
void add_shared_expert(const SharedExpert& shared, int rows, int size, float* y, StreamHandle stream);

}  // namespace reprise::gpu::cuda
