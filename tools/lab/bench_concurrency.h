#pragma once
// `reprise bench --concurrency 10,25,50,100`: what a device's memory holds at once, through the whole engine.
//
//   sharing   so many conversations at once, all behind one beginning of 1,024 tokens, in the memory that ten of them need
//             by themselves: how many sequences were open at once with the cache, and how many without
//   waits     conversations of their own, a few at a time, in a memory 64 times as large, which their snapshots fill: how many
//             requests found no room when they came, with snapshots evicted ahead of need and without
//
// How many run at once follows from prices, not from the machine's speed. Waits depend a little on who is quicker.
//
// Threading: the calling thread, one thread for each client, an actor system and device threads of its own.

#include <cstdint>
#include <vector>

#include "tools/reprise/engine_flags.h"

namespace reprise::tools {

struct ConcurrencyOptions {
  EngineFlags engine;
  std::vector<std::uint32_t> conversations{};  // at once
  std::uint32_t shared_tokens = 1024;
};

/// Prints two tables; returns the exit status. Throws UsageError, models::LoadError, std::runtime_error for a request that
/// failed.
int bench_concurrency(const ConcurrencyOptions& options);

}  // namespace reprise::tools
