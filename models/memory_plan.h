#pragma once
// What a model will take of the host's memory, said from the headers of its files: before anything is loaded.
//
// Weights that a product reads as they lie in the file are in place: pages of the file, shared with whoever else has
// it open. Those that a transform or a scheme changes are copied, and those that a product wants in panels are packed;
// of both the file's pages are read once and may go.
//
// Threading: plain values, pure functions.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/kv_budget.h"
#include "gpu/kernels.h"
#include "models/compute_options.h"

namespace reprise::models {

class Checkpoint;

inline constexpr std::uint64_t kUsualTokens = 8192;  // of a conversation

struct MemoryPlan {
  /// What is stored in one format.
  struct Format {
    std::string name;
    std::size_t tensors = 0;
    std::uint64_t parameters = 0;
    std::uint64_t bytes = 0;  // as it is kept
  };
  std::vector<Format> formats;  // the largest first

  std::uint64_t in_place = 0;
  std::uint64_t copied = 0;
  std::uint64_t packed = 0;
  std::uint64_t activations = 0;  // of the largest step, about
  std::uint64_t token_state = 0;  // of a sequence, for each token
  std::uint64_t sequence_state = 0;
  std::uint64_t context = kUsualTokens;  // tokens that the model takes at most
  std::uint64_t query_elements = 0;      // of a token, in layers that choose among keys and values
  std::size_t parts_with_token_state = 0;
  std::size_t parts_with_sequence_state = 0;

  std::uint64_t weights() const { return in_place + copied + packed; }
  /// Of one sequence of so many tokens.
  std::uint64_t state(std::uint64_t tokens) const { return sequence_state + tokens * token_state; }
  /// Length of the sequences that the verdicts count.
  std::uint64_t usual_tokens() const { return std::min(context, kUsualTokens); }
  /// Of one snapshot more of a prompt whose full pages others hold already, at most: a slot and a tail.
  std::uint64_t next_snapshot() const { return sequence_state + gpu::kPageTokens * token_state; }
  /// How many pieces of state of this size fit beside weights and activations in `available` bytes; 0: none.
  std::uint64_t fitting(std::uint64_t available, std::uint64_t bytes) const {
    const std::uint64_t fixed = weights() + activations;
    return available <= fixed || bytes == 0 ? 0 : (available - fixed) / bytes;
  }
};

/// What a tensor takes of the host's memory.
struct TensorBytes {
  std::uint64_t in_place = 0;
  std::uint64_t copied = 0;
  std::uint64_t packed = 0;

  std::uint64_t all() const { return in_place + copied + packed; }
};
TensorBytes tensor_bytes(const Checkpoint& checkpoint, const ComputeOptions& options,
                         const std::string& name);

/// What a request holds of state, in whole pages.
struct PromptState {
  std::uint64_t read =
      0;  // when its prompt has been read; where that is compacted, with what is kept beside it and the
          // queries of its window
  std::uint64_t after = 0;  // then
};

/// Of a prompt of so many tokens. `query_element`: bytes of an element of a query that is remembered.
PromptState prompt_state(const MemoryPlan& plan, std::uint64_t tokens, const KvBudget& budget,
                         std::size_t query_element);

/// For steps of at most `rows` rows.
MemoryPlan plan_memory(const Checkpoint& checkpoint, const ComputeOptions& options, std::size_t rows = 256);

/// "1.25 GiB", "3.5 MiB", "18.0 KiB"
std::string in_units(std::uint64_t bytes);

/// One line for a log: weights, packed copies, activations, state.
std::string describe(const MemoryPlan& plan);

/// "12 sequences of 4096 tokens"; of more than kMostCounted: "over 1000 sequences of 4096 tokens".
std::string in_sequences(std::uint64_t count, std::uint64_t tokens);

/// Whether it fits, where the machine has `available` bytes and `state` were asked for its sequences (0: what is
/// left); what would make it fit where it does not.
std::string verdict(const MemoryPlan& plan, std::uint64_t available, std::uint64_t state);

}  // namespace reprise::models
