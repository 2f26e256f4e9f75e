#pragma once
// Stories of prompts that are bare tokens: nothing says where messages begin.
//
// Threading: pure functions.

#include <cstdint>
#include <vector>

#include "base/token.h"
#include "tools/lab/bench_cache_story.h"

namespace reprise::tools {

struct RawWorld {
  std::uint32_t vocab = 0;
  std::uint32_t prompt = 0;  // tokens
  RestoreRules rules{};

  /// The same for the same seed.
  TokenList tokens(std::uint32_t count, std::uint32_t seed) const;
};

TokenList joined(TokenList first, const TokenList& second);

std::vector<StoryPlan> raw_stories(const RawWorld& world);

/// First-token times over lengths: the last tokens of each prompt are new.
void tell_lengths(BenchClient& client, CacheBenchResult& result, const RawWorld& world,
                  std::vector<std::uint32_t> lengths, const TimeBudget& budget);

}  // namespace reprise::tools
