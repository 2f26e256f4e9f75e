#include "tools/lab/bench_cache_crowd.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>

#include "tools/lab/bench_progress.h"

namespace reprise::tools {
namespace {

constexpr std::uint32_t kQuestionTokens = 16;

double processor_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

}  // namespace

CrowdResult measure_crowd(BenchClient& client, CacheBenchResult& result, const BenchCacheOptions& options,
                          const RawWorld& world, const TimeBudget& budget) {
  BenchProgress progress("crowd", 2);
  progress.next(std::to_string(options.requests) + " requests with one instruction");
  CrowdResult crowd{.requests = options.requests,
                    .at_once = std::min(options.at_once, options.requests),
                    .instruction_tokens = world.prompt};
  const TokenList instruction = world.tokens(world.prompt, 60);
  std::vector<TokenList> prompts;
  for (std::uint32_t i = 0; i < crowd.requests; ++i) {
    prompts.push_back(joined(instruction, world.tokens(kQuestionTokens, 100'000 + i)));
  }
  std::vector<BenchAnswer> warm;
  crowd.warm_seconds =
      seconds([&] { warm = ask_all(client, prompts, options.reply, crowd.at_once, "crowd", true); });
  client.rest();
  // The first of them computes the instruction, and all the others restore it.
  crowd.asked_tokens = std::uint64_t{crowd.requests - 1} * world.rules.on_grid(world.prompt);
  for (const BenchAnswer& answer : warm) crowd.restored_tokens += answer.cache.restored_tokens;

  progress.next("some of them cold");
  double cold_seconds = 0;
  while (crowd.cold_requests < crowd.requests) {
    const std::uint32_t count = std::min(crowd.at_once, crowd.requests - crowd.cold_requests);
    const auto begin = prompts.begin() + crowd.cold_requests;
    const std::vector<TokenList> some(begin, begin + count);
    std::vector<BenchAnswer> cold;
    cold_seconds +=
        seconds([&] { cold = ask_all(client, some, options.reply, crowd.at_once, "crowd", false); });
    for (std::uint32_t i = 0; i < count; ++i) {
      if (warm[crowd.cold_requests + i].says_the_same(cold[i])) continue;
      ++crowd.differences;
      result.differences.push_back("one instruction: the answer to request " +
                                   std::to_string(crowd.cold_requests + i) + " is not the cold one");
    }
    crowd.cold_requests += count;
    // Half of what is left is for the rest.
    if (cold_seconds / crowd.cold_requests * crowd.at_once > budget.left() / 2) break;
  }
  crowd.cold_seconds = cold_seconds * crowd.requests / crowd.cold_requests;
  return crowd;
}

namespace {

struct MissCost {
  double wall;
  double processor;
};

MissCost cost_of(BenchClient& engine, const TokenList& prompt, const std::string& name_space, bool cached) {
  const double before = processor_seconds();
  const BenchAnswer answer = engine.ask(prompt, 1, name_space, cached);
  engine.rest();
  return {answer.first_token_seconds, processor_seconds() - before};
}

/// An engine with a cache and one without, and which of them was made first: where their weights and states happen to lie
/// in memory makes one a percent faster than the other, for as long as they live.
struct EnginePair {
  std::unique_ptr<BenchClient> with, without;

  EnginePair(const EngineFlags& flags, bool with_first) {
    if (with_first) with = std::make_unique<BenchClient>(flags, true);
    without = std::make_unique<BenchClient>(flags, false);
    if (!with_first) with = std::make_unique<BenchClient>(flags, true);
  }
};

/// Three ways to compute the same new prompt; each round begins with another one.
void measure_round(EnginePair& engines, const TokenList& prompt, unsigned round, MissResult& miss) {
  MissCost missed{}, refused{}, none{};
  for (unsigned turn = 0; turn < 3; ++turn) {
    switch ((round + turn) % 3) {
      case 0:
        missed = cost_of(*engines.with, prompt, "miss " + std::to_string(round), true);
        break;
      case 1:
        none = cost_of(*engines.without, prompt, "", true);
        break;
      default:
        refused = cost_of(*engines.with, prompt, "", false);
    }
  }
  miss.with_cache.all.push_back(missed.wall);
  miss.refused.all.push_back(refused.wall);
  miss.without.all.push_back(none.wall);
  miss.wall_ratios.all.push_back(missed.wall / none.wall);
  miss.cpu_ratios.all.push_back(missed.processor / std::max(none.processor, 1e-6));
  miss.control_ratios.all.push_back(refused.wall / none.wall);
  miss.own_ratios.all.push_back(missed.wall / refused.wall);
}

}  // namespace

MissResult measure_miss(const BenchCacheOptions& options, const RawWorld& world, const TimeBudget& budget) {
  MissResult miss{.prompt_tokens = world.prompt};
  const unsigned rounds = std::max(options.repeat, kLeastMissRounds);
  BenchProgress progress("the cost of a miss", rounds);
  std::unique_ptr<EnginePair> engines;
  for (unsigned i = 0; i < rounds && (i == 0 || budget.left() > 0); ++i) {
    progress.next("round " + std::to_string(i + 1) + " of " + std::to_string(rounds));
    engines.reset();  // before the next two need the memory
    engines = std::make_unique<EnginePair>(options.engine, i % 2 == 0);
    for (BenchClient* engine : {engines->with.get(), engines->without.get()}) {
      (void)cost_of(*engine, world.tokens(world.prompt, 70), "", false);  // brings its weights into memory
    }
    measure_round(*engines, world.tokens(world.prompt, 71 + i), i, miss);
  }
  return miss;
}

}  // namespace reprise::tools
