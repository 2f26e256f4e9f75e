#pragma once
// A story: requests that one after the other meet one cache, some of them measured.
//
// It is told several times, each time in a namespace of its own; rows collect what the tellings measure, by
// name. Of a measured request and its cold twin every second telling takes the cold one first.
//
// Threading: one thread.

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "tools/lab/bench_cache_client.h"
#include "tools/lab/bench_cache_result.h"

namespace reprise::tools {

/// What a request can hope for.
struct Hope {
  std::uint32_t shared = 0;  // tokens at its beginning that the cache has seen
  std::uint32_t asked = 0;   // of these, what the design promises
  double speedup = 0;        // 0: none is promised
};

/// Where states can be restored, and what is promised of raw prompts.
struct RestoreRules {
  std::uint32_t grid = 1;
  bool any_token = false;       // attention alone: states can be cut
  bool keeps_turn_ends = true;  // decode leaves the state that a prefill would

  std::uint32_t on_grid(std::uint32_t tokens) const { return tokens / grid * grid; }
  /// From the third sighting of a prefix, and at the second where its end was the end of a prompt.
  Hope all(std::uint32_t shared) const { return {shared, on_grid(shared)}; }
  /// At the second sighting of a prefix of a prompt of `prompt` tokens: three quarters.
  Hope most(std::uint32_t shared, std::uint32_t prompt) const;
  /// Of a prompt of `prompt` tokens with its reply, when both are sent again with more behind them.
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
  /// `kind` is that of the rows; `telling` counts from 0.
  Story(BenchClient& client, CacheBenchResult& result, std::string kind, std::string name_space,
        unsigned telling)
      : client_(client),
        result_(result),
        kind_(std::move(kind)),
        name_space_(std::move(name_space)),
        telling_(telling) {}

  /// A request that only goes before others. Idle work is done when it returns.
  BenchAnswer tell(protocol::Prompt prompt, std::uint64_t seed = kGreedy);
  /// The same, for the row of that name.
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

/// Tells all of them, then all again, `result.repeat` times or until the time is up; a row says so where not
/// even one telling was begun.
void tell_stories(BenchClient& client, CacheBenchResult& result, const std::string& kind,
                  const std::vector<StoryPlan>& plans, const TimeBudget& budget);

}  // namespace reprise::tools
