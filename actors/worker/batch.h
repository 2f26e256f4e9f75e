#pragma once
// What the device computes in its next step: a pure function of who could run.
//
// Every sequence that decodes takes part with one row (the longest unserved first, where there are more than
// fit), then prefills with slices. Where several prefills wait the oldest takes at most half of the tokens;
// the other half goes to the most urgent, and among these to those with the least left to compute, so that a
// short prompt does not stand behind long ones, however many they are. What they do not need the oldest gets
// back. Where there is a slice for one alone, the oldest and the first of the others take turns. Beside
// decoding sequences slices are short, for a step is the time between two of their tokens. Idle work runs
// only when there is nothing else.
//
// Where a prefill makes a step longer whatever it holds, as on a GPU, those that are left with little are gathered beside
// many decoding sequences: they take part in every second step alone, unless one is urgent or they fill one by themselves.
//
// A slice never passes the place where its sequence must stop; short of that, it ends on the device's grid.
//
// Nobody starves: the oldest prefill gets a slice in one of two steps at least, and a decoding sequence waits
// at most ceil(decoders / rows) steps.

#include <cstdint>
#include <span>
#include <vector>

#include "protocol/priority.h"

namespace reprise::actors {

/// How much a step may hold.
struct BatchLimits {
  std::uint32_t rows = 256;          // decoding sequences in a step
  std::uint32_t tokens = 256;        // prefill tokens in a step without decoding sequences
  std::uint32_t tokens_beside = 64;  // and with them
  std::uint32_t idle_tokens = 64;    // of idle work
  std::uint32_t gather_from = 0;  // decoding sequences, beside which prefills are gathered; 0: they never are
  bool idle_work = true;          // false: a request is about to begin, and would have to wait for it
  std::uint32_t grid = 1;         // at least one grid's worth is always taken
};

struct Runnable {
  std::uint64_t key = 0;
  bool decodes = false;
  std::uint32_t at = 0;       // tokens that its state holds
  std::uint32_t stop_at = 0;  // prefill: the place of its next checkpoint, or its end
  std::uint32_t end = 0;      // prefill: its end
  protocol::Priority priority = protocol::Priority::kNormal;
  std::uint64_t order = 0;      // prefills: the smaller, the older
  std::uint64_t last_step = 0;  // in which it last took part; 0: in none
};

struct BatchSlice {
  std::uint64_t key = 0;
  bool decodes = false;
  std::uint32_t tokens = 0;

  bool operator==(const BatchSlice&) const = default;
};

/// Decode rows first, then prefill slices. Empty only if nobody can run. `step`: the number of this one, as
/// in Runnable::last_step; the first is 1.
std::vector<BatchSlice> plan_batch(std::span<const Runnable> runnable, const BatchLimits& limits,
                                   std::uint64_t step);

}  // namespace reprise::actors
