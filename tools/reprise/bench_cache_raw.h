#pragma once
// Stories of prompts that are bare tokens: nothing says where messages begin.
//
// Threading: pure functions.

#include <cstdint>
#include <vector>

#include "protocol/tokens.h"
#include "tools/reprise/bench_cache_story.h"

namespace reprise::tools {

struct RawWorld {
  std::uint32_t vocab = 0;
  std::uint32_t prompt = 0;  // tokens
  RestoreRules rules{};

  /// The same for the same seed.
  protocol::TokenList tokens(std::uint32_t count, std::uint32_t seed) const;
};

protocol::TokenList joined(protocol::TokenList first, const protocol::TokenList& second);

std::vector<StoryPlan> raw_stories(const RawWorld& world);

/// First-token times over lengths: the last tokens of each prompt are new.
void tell_lengths(BenchClient& client, CacheBenchResult& result, const RawWorld& world,
                  std::vector<std::uint32_t> lengths, const TimeBudget& budget);

}  // namespace reprise::tools
