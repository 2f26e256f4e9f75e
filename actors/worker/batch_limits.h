#pragma once
// How much a step may hold (actors/worker/batch.h).
//
// Threading: a plain value.

#include <cstdint>

namespace reprise::actors {

struct BatchLimits {
  std::uint32_t rows = 256;          // decoding sequences in a step
  std::uint32_t tokens = 256;        // prefill tokens in a step without decoding sequences
  std::uint32_t tokens_beside = 64;  // and with them
  std::uint32_t idle_tokens = 64;    // of idle work
  std::uint32_t gather_from = 0;  // decoding sequences, beside which prefills are gathered; 0: they never are
  bool idle_work = true;          // false: a request is about to begin, and would have to wait for it
  std::uint32_t grid = 1;         // at least one grid's worth is always taken
};

}  // namespace reprise::actors
