#pragma once
// The next tokens of a batch, chosen on the GPU: steps 1 to 9 of models/sampling/sampler.h for every row.
//
// Weights have the bits of models/sampling/softmax.h. Their sums are integers: a weight w counts floor(w * 2^44), so
// that the order of the additions does not matter, and a row's token depends on its logits and parameters
// alone. Weights below 2^-44 of the best are left out; where the draw falls within about 1e-7 of the edge
// between two tokens, the host's sampler, which adds doubles, may take the other one.
//
// Many blocks of threads look for a row's best, which is all that a greedy row needs. Then one works on it: it reads the
// row once for a histogram of weights, and once more to sort the tokens that the filters or the draw end among. A row
// of very many equal logits takes a few passes more.
//
// Threading: launches into `stream`; no other state.

#include <cstddef>
#include <cstdint>

#include "gpu/cuda/stream.h"

namespace reprise::gpu::cuda {

struct SamplingRow {
  double temperature = 1;  // 0: greedy, whatever the rest says
  double top_p = 1;        // 1: all
  double min_p = 0;        // 0: all
  std::uint64_t u = 0;     // fixed_uniform() of the step's noise
  std::int32_t top_k = 0;  // 0: all
  // Adjustments of this row, in the list of the batch.
  std::int32_t first_adjustment = 0;
  std::int32_t adjustments = 0;
  /// Words before this row's mask in the masks of the batch: bit t % 32 of word t / 32 allows token t. -1: all are allowed.
  std::int32_t first_mask_word = -1;
};

/// What happens to one logit before all else, in this order. A token may come several times; its entries
/// stand together then, and are applied one after another.
struct LogitAdjustment {
  std::int32_t token = 0;
  float bias = 0;      // added
  float penalty = 1;   // divides a logit above 0, multiplies the others
  float subtract = 0;  // presence and frequency
};

struct SampledToken {
  static constexpr std::uint32_t kNotFinite = 1;  // a logit was NaN or +infinity
  static constexpr std::uint32_t kUsable = 2;     // some logit was neither NaN nor -infinity

  std::int32_t token = -1;   // -1: none is left to choose
  std::uint32_t health = 0;  // of the logits as they came, before adjustments
};

/// Of a number of [0, 1) that is a multiple of 2^-53 (models/sampling/noise.h).
inline std::uint64_t fixed_uniform(double u) {
  return static_cast<std::uint64_t>(u * 0x1p53) << 11;
}

inline constexpr int kMostVocab = 1 << 18;

/// All pointers are memory that the GPU reaches. `logits`: f32 [rows] rows of `vocab`, `stride` apart;
/// adjusted in place. `vocab` is at most kMostVocab. `adjustments` may be null where no row has any; their
/// tokens are below `vocab`. `masks` may be null where no row has one; each has vocab / 32 words, rounded up. `workspace`
/// has sampling_workspace() bytes. At most 65,535 rows.
void sample(float* logits, int rows, int vocab, int stride, const SamplingRow* params,
            const LogitAdjustment* adjustments, const std::uint32_t* masks, std::byte* workspace,
            SampledToken* out, StreamHandle stream);
std::size_t sampling_workspace(int rows);

}  // namespace reprise::gpu::cuda
