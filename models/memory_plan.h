#pragma once
// Estimates the host memory a model takes, from the headers of its files.
//
// Weights that kernels read in their stored form stay in place: pages of the mapped file, shared with other
// processes. Weights changed by a transform or quantization scheme are copied, and those kernels read in
// panels are packed; for both, the file's pages are read once and may be evicted.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/kv_budget.h"
#include "gpu/kernels.h"
#include "models/compute_options.h"

namespace reprise::models {

class ModelFiles;

inline constexpr std::uint64_t kUsualTokens = 8192;  // tokens of a typical conversation

struct MemoryPlan {
  /// Tensors kept in one format.
  struct Format {
    std::string name;
    std::size_t tensors = 0;
    std::uint64_t parameters = 0;
    std::uint64_t bytes = 0;  // as kept in memory
  };
  std::vector<Format> formats;  // largest first

  std::uint64_t in_place = 0;
  std::uint64_t copied = 0;
  std::uint64_t packed = 0;
  std::uint64_t activations = 0;  // estimate for the largest step
  std::uint64_t token_state = 0;  // per token of a sequence
  std::uint64_t sequence_state = 0;
  std::uint64_t context = kUsualTokens;  // maximum tokens of a sequence
  std::uint64_t query_elements = 0;      // per token, over layers that can drop keys and values
  std::size_t parts_with_token_state = 0;
  std::size_t parts_with_sequence_state = 0;

  std::uint64_t weights() const { return in_place + copied + packed; }
  /// Bytes of state of a sequence of `tokens` tokens.
  std::uint64_t state(std::uint64_t tokens) const { return sequence_state + tokens * token_state; }
  /// Sequence length assumed by verdict().
  std::uint64_t usual_tokens() const { return std::min(context, kUsualTokens); }
  /// Maximum bytes of one more snapshot of a prompt whose full pages are already stored: a slot and a partial
  /// page.
  std::uint64_t next_snapshot() const { return sequence_state + gpu::kPageTokens * token_state; }
  /// The number of states of `bytes` bytes that fit in `available` bytes together with weights and
  /// activations; 0: none.
  std::uint64_t fitting(std::uint64_t available, std::uint64_t bytes) const {
    const std::uint64_t fixed = weights() + activations;
    return available <= fixed || bytes == 0 ? 0 : (available - fixed) / bytes;
  }
};

/// Host memory of one tensor.
struct TensorBytes {
  std::uint64_t in_place = 0;
  std::uint64_t copied = 0;
  std::uint64_t packed = 0;

  std::uint64_t all() const { return in_place + copied + packed; }
};
TensorBytes tensor_bytes(const ModelFiles& files, const ComputeOptions& options, const std::string& name);

/// Bytes of state of one request, in whole pages. `read`: after prefill; if the prompt is then compacted,
/// including the kept entries and the recorded queries.
struct PromptState {
  std::uint64_t read = 0;
  std::uint64_t after = 0;  // after compaction; without one the same as `read`
};

/// State for a prompt of `tokens` tokens. `query_element`: bytes per element of a recorded query.
PromptState prompt_state(const MemoryPlan& plan, std::uint64_t tokens, const KvBudget& budget,
                         std::size_t query_element);

/// Plans for steps of at most `rows` rows.
MemoryPlan plan_memory(const ModelFiles& files, const ComputeOptions& options, std::size_t rows = 256);

/// "1.25 GiB", "3.5 MiB", "18.0 KiB"
std::string in_units(std::uint64_t bytes);

/// One line for a log: weights, packed copies, activations, state.
std::string describe(const MemoryPlan& plan);

/// "12 sequences of 4096 tokens"; above kMaxCounted: "over 1000 sequences of 4096 tokens".
std::string in_sequences(std::uint64_t count, std::uint64_t tokens);

/// Says whether the model fits in `available` bytes with `state` bytes for sequences (0: whatever is left),
/// and if not, what would make it fit.
std::string verdict(const MemoryPlan& plan, std::uint64_t available, std::uint64_t state);

}  // namespace reprise::models
