#pragma once
// A mixture of experts on the GPU: which rows go through which expert, the products of each expert with its rows, and the
// sum of what they made. gpu/expert_routing.h and models/parts/moe.h are the specification.
//
// A place is one row at one expert. Places stand expert by expert, those of an expert in the order of its rows. An
// expert's rows are cut into tiles, so that a product's blocks know whose weights they read.
//
// Exactness: as gpu/cuda/batch.h. A row's choice, its products (gpu/cuda/decode_product.cuh) and their sum, in ascending
// order of the experts, depend on that row alone; nothing is added by atomics.
//
// Threading: launches into `stream`; no other state.

#include "gpu/cuda/batch.h"
#include "gpu/cuda/formats.h"
#include "gpu/cuda/gemm.h"
#include "gpu/cuda/stream.h"
#include "gpu/expert_routing.h"
#include "gpu/gpu_limits.h"

namespace reprise::gpu::cuda {

/// Bounds of the kernels.
inline constexpr int kMostExperts = static_cast<int>(kMostRoutedOnGpu);
inline constexpr int kMostChosen = static_cast<int>(kMostChosenOnGpu);

struct RouterShape {
  int routed;   // experts, and zero experts behind them
  int experts;  // those with weights
  int chosen;
  bool normalised;
  RouterScores scores;
  int groups;
  int chosen_groups;
  float epsilon;
  float scale;
};

/// Rows of an expert that are multiplied together: its places from `first` on, before `end`, which is where the expert's end.
struct alignas(16) ExpertTile {
  std::int32_t expert;
  std::int32_t first;
  std::int32_t end;
  std::int32_t unused;

  bool operator==(const ExpertTile&) const = default;
};

/// Where routing and the products of a step keep what they know of its rows: all in one piece of memory.
struct ExpertPlaces {
  std::int32_t* chosen;    // [rows, chosen], ascending
  float* weights;          // [rows, chosen]
  std::int32_t* place_of;  // [rows, chosen]; -1: a zero expert
  std::int32_t* row_at;  // [rows * chosen + rows]: of each place; and of the shared expert's, if rows are few
  std::int32_t* first;   // [experts + 1]: place; unless rows are few
  ExpertTile* tile_at;   // [tiles]
  std::int32_t* tile_count;  // [1]
  int rows;
  int places;     // [rows * chosen]
  int tiles;      // at most
  int tile_rows;  // 8 or 64

  /// Rows that one block routes and places: all others wait for it.
  static constexpr int kFewRows = 2;
  bool are_few() const { return rows <= kFewRows; }

  /// Rows of a tile: few where experts have few rows each.
  static int tile_rows_for(int rows, const RouterShape& shape) {
    return rows * shape.chosen >= 16 * shape.experts ? 64 : 8;
  }
  static int most_tiles(int rows, const RouterShape& shape);
  /// Enough for so many rows, and for fewer.
  static std::size_t bytes(int rows, const RouterShape& shape);
  static ExpertPlaces in(std::byte* memory, int rows, const RouterShape& shape);
};

/// logits f32 [rows] rows of `stride` -> chosen, weights. bias [routed]; null: none. What is not a number is chosen last.
void route_rows(const RouterShape& shape, const float* logits, int stride, const float* bias, int rows,
                const ExpertPlaces& to, StreamHandle stream);
/// The rest of the places, from what was chosen.
void place_rows(const RouterShape& shape, int rows, const ExpertPlaces& places, StreamHandle stream);
/// Both of these, one kernel where rows are few.
void route_and_place(const RouterShape& shape, const float* logits, int stride, const float* bias, int rows,
                     const ExpertPlaces& to, StreamHandle stream);

/// Weights of all experts: the rows of one stand behind those of another; `one` is the first's.
struct ExpertWeights {
  DeviceWeight one;
  std::size_t bytes = 0;         // of each
  const void* shared = nullptr;  // weights in the same format and shape that all rows meet; null: no such
};

// A shared expert is taken along where rows are few: y has `rows` places more, the last ones.

/// y [places, one.rows / 2] bf16 = gate of x [rows, columns]: of each place its row.
void experts_gated(const Bf16* x, const ExpertWeights& weights, const ExpertPlaces& places,
                   const GatedRows& to, StreamHandle stream);
/// y [places, one.rows], of x [rows, columns] (each place's row) or of x [places, columns].
void experts_product(const Bf16* x, bool x_is_by_place, const ExpertWeights& weights,
                     const ExpertPlaces& places, void* y, GemmOutput output, StreamHandle stream);

/// What all rows go through, and how much it counts.
struct SharedExpert {
  const float* made = nullptr;   // [rows, size]; null: there is none
  const float* gates = nullptr;  // its sigmoid counts, one for each row; null: 1
  int stride = 0;                // from a gate to the next
};

/// What is added up for a row, in this order: its experts' outputs (for zero experts what they were given), the shared
/// expert's, and what y held.
/// Row is Bf16 or float.
template <class Row>
struct ExpertSum {
  const float* outputs;  // [places, size]
  const Row* zero;       // [rows, size]
  SharedExpert shared;
  float* y;   // [rows, size]
  bool adds;  // to what y holds
};
template <class Row>
void sum_experts(const RouterShape& shape, const ExpertPlaces& places, const ExpertSum<Row>& sum, int rows,
                 int size, StreamHandle stream);
/// y [rows, size] += what the shared expert counts.
void add_shared_expert(const SharedExpert& shared, int rows, int size, float* y, StreamHandle stream);

}  // namespace reprise::gpu::cuda
