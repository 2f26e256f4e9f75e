#pragma once
// A story: a sequence of requests to one cache, some of which are measured.
//
// Each story is repeated ("told") several times, each time in a new namespace; rows collect the measurements
// by name. Every second telling runs the cold twin of a measured request first.

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "tools/lab/bench_cache_client.h"
#include "tools/lab/bench_cache_result.h"

namespace reprise::tools {

/// Restoration that a request can expect.
struct Hope {
  std::uint32_t shared = 0;  // leading tokens that the cache has seen
  std::uint32_t asked = 0;   // expected to be restored
  double speedup = 0;        // 0: no goal
};

/// Positions at which states can be restored, and expectations for raw prompts.
struct RestoreRules {
  std::uint32_t grid = 1;
  bool any_token = false;       // attention-only model: states can be truncated anywhere
  bool keeps_turn_ends = true;  // decode leaves the same state as prefill

  std::uint32_t on_grid(std::uint32_t tokens) const { return tokens / grid * grid; }
  /// All of the shared prefix: from its third use, or its second if it was the end of a prompt.
  Hope all(std::uint32_t shared) const { return {shared, on_grid(shared)}; }
  /// Three quarters of the prefix: at its second use.
  Hope most(std::uint32_t shared, std::uint32_t prompt) const;
  /// A prompt and its reply, both sent again with more after them.
  Hope turn(std::uint32_t prompt, std::uint32_t reply) const;
};

class TimeBudget {
 public:
  explicit TimeBudget(double seconds) : end_(std::chrono::steady_clock::now() + Seconds(seconds)) {}
  double left() const { return Seconds(end_ - std::chrono::steady_clock::now()).count(); }

 private:
  using Seconds = std::chrono::duration<double>;
  std::chrono::time_point<std::chrono::steady_clock, Seconds> end_;
};

class Story {
 public:
  /// `kind` is the rows' kind; `telling` counts from 0.
  Story(BenchClient& client, CacheBenchResult& result, std::string kind, std::string name_space,
        unsigned telling)
      : client_(client),
        result_(result),
        kind_(std::move(kind)),
        name_space_(std::move(name_space)),
        telling_(telling) {}

  /// Runs an unmeasured request and waits for idle-time work.
  BenchAnswer tell(protocol::Prompt prompt, std::uint64_t seed = kGreedy);
  /// Runs a request and its cold twin, and records both in `row`.
  BenchAnswer measure(const std::string& row, const protocol::Prompt& prompt, const Hope& hope,
                      std::uint64_t seed = kGreedy);

 private:
  CacheRow& row(const std::string& name);

  BenchClient& client_;
  CacheBenchResult& result_;
  const std::string kind_;
  const std::string name_space_;
  const unsigned telling_;
};

struct StoryPlan {
  std::string name;
  std::function<void(Story&)> tell;
};

/// Tells all stories, `result.repeat` times or until the time is up. A row says so if it was never started.
void tell_stories(BenchClient& client, CacheBenchResult& result, const std::string& kind,
                  const std::vector<StoryPlan>& plans, const TimeBudget& budget);

}  // namespace reprise::tools
