#pragma once
// Two measurements that are no stories: many requests at once, and what a miss costs.
//
// Threading: the calling thread, and threads of its own that end before it returns.

#include "tools/lab/bench_cache.h"
#include "tools/lab/bench_cache_raw.h"

namespace reprise::tools {

/// `options.requests` prompts of one instruction and a question each, `options.at_once` at a time. As many of
/// them run cold as the time allows, at least `at_once`.
CrowdResult measure_crowd(BenchClient& client, CacheBenchResult& result, const BenchCacheOptions& options,
                          const RawWorld& world, const TimeBudget& budget);

/// New prompts on an engine with a cache, used and refused, and on an engine that has none, in turn; both are made anew
/// after some rounds, in the other order.
MissResult measure_miss(const BenchCacheOptions& options, const RawWorld& world, const TimeBudget& budget);

}  // namespace reprise::tools
