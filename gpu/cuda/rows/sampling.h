#pragma once
// Samples the next token of every row of a batch on the GPU: steps 1 to 9 of models/sampling/sampler.h.
//
// Bits: probabilities (unnormalized, the largest is 1) are bitwise those of models/sampling/softmax.h. They
// are summed as integers, floor(p * 2^44), so the order of additions does not matter and a row's token
// depends only on its logits and parameters. Those below 2^-44 are dropped. If the random number is within
// about 1e-7 of the edge between two tokens, the host's sampler, which sums doubles, may choose the other
// one.
//
// Several blocks search for a row's maximum, which is all that a greedy row needs. Then one block reads the
// row once for a histogram and once more to sort the tokens near the cut of the filters or of the random
// number. A row with very many equal logits takes a few more passes.

#include <cstddef>
#include <cstdint>

#include "gpu/cuda/memory/stream.h"

namespace reprise::gpu::cuda {

struct SamplingRow {
  double temperature = 1;  // 0: greedy, the other parameters are ignored
  double top_p = 1;        // 1: off
  double min_p = 0;        // 0: off
  std::uint64_t u = 0;     // fixed_uniform() of the step's random number
  std::int32_t top_k = 0;  // 0: off
  // This row's range in the adjustments of the batch.
  std::int32_t first_adjustment = 0;
  std::int32_t adjustments = 0;
  /// Index of this row's first word in the masks of the batch: bit t % 32 of word t / 32 allows token t. -1:
  /// no mask.
  std::int32_t first_mask_word = -1;
};

/// Change of one logit before everything else, in the order of the fields. Several entries for a token must
/// be consecutive and are applied in sequence.
struct LogitAdjustment {
  std::int32_t token = 0;
  float bias = 0;      // added
  float penalty = 1;   // divides a positive logit, multiplies others
  float subtract = 0;  // presence and frequency penalties
};

struct SampledToken {
  static constexpr std::uint32_t kNotFinite = 1;  // a logit was NaN or +infinity
  static constexpr std::uint32_t kUsable = 2;     // some logit was neither NaN nor -infinity

  std::int32_t token = -1;   // -1: no token is left
  std::uint32_t health = 0;  // flags of the logits before adjustments
};

/// Converts a multiple of 2^-53 in [0, 1) (models/sampling/noise.h).
inline std::uint64_t fixed_uniform(double u) {
  return static_cast<std::uint64_t>(u * 0x1p53) << 11;
}

inline constexpr int kMaxVocab = 1 << 18;

/// Requires: all pointers are memory that the GPU can access; vocab <= kMaxVocab; at most 65,535 rows; tokens
/// of adjustments are below `vocab`. `logits`, f32 [rows] rows of `vocab` elements, `stride` apart, is
/// modified. `adjustments` and `masks` may be null if no row uses them; a mask has ceil(vocab / 32) words.
/// `workspace`: sampling_workspace() bytes.
void sample(float* logits, int rows, int vocab, int stride, const SamplingRow* params,
            const LogitAdjustment* adjustments, const std::uint32_t* masks, std::byte* workspace,
            SampledToken* out, StreamHandle stream);
std::size_t sampling_workspace(int rows);

}  // namespace reprise::gpu::cuda
