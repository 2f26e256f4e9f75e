#include "tools/lab/bench_cache_story.h"

namespace reprise::tools {
namespace {

constexpr std::uint32_t kSpacedFrom = 256;  // shorter prompts have no goal at their second use

}  // namespace

Hope RestoreRules::most(std::uint32_t shared, std::uint32_t prompt) const {
  if (any_token) return all(shared);
  return {shared, prompt < kSpacedFrom ? 0 : on_grid((shared * 3 + 3) / 4)};
}

Hope RestoreRules::turn(std::uint32_t prompt, std::uint32_t reply) const {
  // The last token of a reply was sampled but not computed.
  return {prompt + reply, on_grid(keeps_turn_ends ? prompt + reply - 1 : prompt - 1)};
}

BenchAnswer Story::tell(protocol::Prompt prompt, std::uint64_t seed) {
  BenchAnswer answer = client_.ask(std::move(prompt), result_.reply_tokens, name_space_, true, seed);
  client_.rest();
  return answer;
}

BenchAnswer Story::measure(const std::string& name, const protocol::Prompt& prompt, const Hope& hope,
                           std::uint64_t seed) {
  BenchAnswer warm;
  BenchAnswer cold;
  const auto ask_cold = [&] { cold = client_.ask(prompt, result_.reply_tokens, name_space_, false, seed); };
  if (telling_ % 2 == 1) ask_cold();
  warm = tell(prompt, seed);
  if (telling_ % 2 == 0) ask_cold();

  CacheRow& to = row(name);
  const bool first = to.warm.empty();
  to.warm.all.push_back(warm.first_token_seconds);
  to.cold.all.push_back(cold.first_token_seconds);
  to.asked_speedup = hope.speedup;
  // Show the telling that restored least relative to its goal.
  const auto surplus = [](std::uint32_t restored, std::uint32_t asked) {
    return static_cast<std::int64_t>(restored) - static_cast<std::int64_t>(asked);
  };
  if (first ||
      surplus(warm.cache.restored_tokens, hope.asked) < surplus(to.restored_tokens, to.asked_tokens)) {
    to.prompt_tokens = warm.cache.prompt_tokens;
    to.shared_tokens = hope.shared;
    to.asked_tokens = hope.asked;
    to.restored_tokens = warm.cache.restored_tokens;
    to.reason = std::string(protocol::name_of(warm.cache.reason));
  }
  if (!warm.says_the_same(cold)) {
    ++to.differences;
    result_.differences.push_back(
        kind_ + ", " + name + ": the answer with " + std::to_string(warm.cache.restored_tokens) + " of " +
        std::to_string(warm.cache.prompt_tokens) + " tokens restored is not the cold one");
  }
  return warm;
}

CacheRow& Story::row(const std::string& name) {
  for (CacheRow& row : result_.rows) {
    if (row.kind == kind_ && row.name == name) return row;
  }
  result_.rows.push_back({.name = name, .kind = kind_});
  return result_.rows.back();
}

void tell_stories(BenchClient& client, CacheBenchResult& result, const std::string& kind,
                  const std::vector<StoryPlan>& plans, const TimeBudget& budget) {
  BenchProgress progress(kind, std::uint64_t{result.repeat} * plans.size());
  for (unsigned telling = 0; telling < result.repeat; ++telling) {
    for (const StoryPlan& plan : plans) {
      if (budget.left() <= 0) {
        if (telling == 0) {
          result.rows.push_back({.name = plan.name, .kind = kind, .skipped = "the time was up"});
        }
        continue;
      }
      progress.next(plan.name + ", " + std::to_string(telling + 1) + " of " + std::to_string(result.repeat));
      Story story(client, result, kind, kind + " " + plan.name + " " + std::to_string(telling), telling);
      plan.tell(story);
    }
  }
}

}  // namespace reprise::tools
