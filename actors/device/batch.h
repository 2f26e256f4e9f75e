#pragma once
// Plans the next step: which sequences decode, and how many prompt tokens each prefill computes.
//
// - Each decoding sequence gets a row; beyond `rows`, the longest unserved go first.
// - Of the prefill tokens, the oldest prefill gets at most half. The rest goes by priority, then to the
//   prefill with the fewest tokens left, so that short prompts do not wait for long ones; what remains goes
//   to the oldest. If only one slice fits, the oldest and the first of the others alternate.
// - Slices are shorter in steps with decoding sequences, to bound inter-token latency.
// - Idle work runs only if nothing else does.
// - With `gather_from` or more decoding sequences, prefills that together fill less than a step run in every
//   second step only, unless one has high priority: on a GPU any prefill prolongs a step.
// - A slice ends at its prefill's stop or at a multiple of the grid.
//
// No sequence starves: the oldest prefill gets a slice in every second step at least, and a decoding sequence
// waits at most ceil(decoders / rows) steps.

#include <cstdint>
#include <span>
#include <vector>

#include "protocol/priority.h"

namespace reprise::actors {

struct BatchLimits {
  std::uint32_t rows = 256;                 // decoding sequences in a step
  std::uint32_t tokens = 256;               // prefill tokens per step without decoding sequences
  std::uint32_t tokens_with_decoding = 64;  // prefill tokens per step with decoding sequences
  std::uint32_t idle_tokens = 64;           // prefill tokens per step of idle work
  std::uint32_t gather_from = 0;  // decoding sequences from which on prefills are gathered; 0: never
  bool idle_work = true;   // false: no idle work, because a request is about to begin and would wait for it
  std::uint32_t grid = 1;  // tokens; slices end at its multiples, and a step may always hold this many
};

struct Runnable {
  std::uint64_t key = 0;
  bool decodes = false;
  std::uint32_t at = 0;
  std::uint32_t stop_at = 0;  // prefill: position of its next checkpoint, or its end
  std::uint32_t end = 0;      // prefill: number of prompt tokens
  protocol::Priority priority = protocol::Priority::kNormal;
  std::uint64_t order = 0;      // prefills: smaller is older
  std::uint64_t last_step = 0;  // the last step that included it; 0: none
};

struct BatchSlice {
  std::uint64_t key = 0;
  bool decodes = false;
  std::uint32_t tokens = 0;

  bool operator==(const BatchSlice&) const = default;
};

/// Returns decode rows, then prefill slices; empty only if nothing can run. `step` numbers this step from 1,
/// as Runnable::last_step does.
std::vector<BatchSlice> plan_batch(std::span<const Runnable> runnable, const BatchLimits& limits,
                                   std::uint64_t step);

}  // namespace reprise::actors
