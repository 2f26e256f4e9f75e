#include "tools/lab/bench_cache_raw.h"

#include <algorithm>
#include <random>

#include "tools/lab/bench_progress.h"

namespace reprise::tools {
namespace {

constexpr std::uint32_t kNewTokens = 32;  // of a question, or of the next turn
constexpr std::uint32_t kTenfoldFrom = 1024;
constexpr double kTenfold = 10;

std::uint32_t size_of(const TokenList& tokens) {
  return static_cast<std::uint32_t>(tokens.size());
}

// A conversation that is left for another one, and comes back.
void tell_turns(Story& story, const RawWorld& world) {
  const TokenList first = world.tokens(world.prompt, 1);
  const BenchAnswer one = story.tell(first);
  const TokenList second = joined(joined(first, one.tokens), world.tokens(kNewTokens, 2));
  const BenchAnswer two =
      story.measure("extend a turn", second, world.rules.turn(size_of(first), size_of(one.tokens)));
  const Hope whole = world.rules.all(size_of(second) - 1);
  story.measure("same prompt again", second, whole);
  // Other seeds, other replies.
  story.measure("regenerate", second, whole, 1);
  story.measure("regenerate again", second, whole, 2);
  story.tell(world.tokens(world.prompt, 3));
  const TokenList third = joined(joined(second, two.tokens), world.tokens(kNewTokens, 4));
  story.measure("other conversation and back", third, world.rules.turn(size_of(second), size_of(two.tokens)));
}

void tell_edits(Story& story, const RawWorld& world) {
  const TokenList original = world.tokens(world.prompt, 10);
  story.tell(original);
  const auto edited = [&](std::uint32_t place, std::uint32_t by) {
    TokenList changed = original;
    const auto token = static_cast<std::uint32_t>(changed[place]);
    changed[place] = static_cast<TokenId>((token + by) % world.vocab);
    return changed;
  };
  for (const std::uint32_t percent : {30U, 50U, 70U, 90U}) {
    const std::uint32_t place = world.prompt * percent / 100;
    const std::string name = "edit at " + std::to_string(percent) + " %";
    story.measure(name, edited(place, 1), world.rules.most(place, world.prompt));
    story.measure(name + ", third sighting", edited(place, 2), world.rules.all(place));
  }
}

void tell_branches(Story& story, const RawWorld& world) {
  const std::uint32_t half = world.prompt / 2;
  const TokenList trunk = world.tokens(half, 20);
  const auto branch = [&](std::uint32_t seed) {
    return joined(trunk, world.tokens(world.prompt - half, seed));
  };
  story.tell(branch(21));
  story.measure("branch", branch(22), world.rules.most(half, world.prompt));
  story.measure("branch again", branch(23), world.rules.all(half));
}

void tell_users(Story& story, const RawWorld& world) {
  const TokenList system = world.tokens(world.prompt, 30);
  const auto user = [&](std::uint32_t seed) { return joined(system, world.tokens(kNewTokens, seed)); };
  story.tell(user(31));
  story.measure("shared system prompt, second user", user(32),
                world.rules.most(world.prompt, world.prompt + kNewTokens));
  Hope hope = world.rules.all(world.prompt);
  if (world.prompt >= kTenfoldFrom) hope.speedup = kTenfold;
  story.measure("shared system prompt, third user", user(33), hope);
}

void tell_document(Story& story, const RawWorld& world) {
  const TokenList document = world.tokens(world.prompt, 40);
  for (std::uint32_t question = 1; question < 5; ++question) {
    story.tell(joined(document, world.tokens(kNewTokens, 40 + question)));
  }
  story.measure("one document, fifth question", joined(document, world.tokens(kNewTokens, 45)),
                world.rules.all(world.prompt));
}

}  // namespace

TokenList RawWorld::tokens(std::uint32_t count, std::uint32_t seed) const {
  std::mt19937 random(seed);
  TokenList out(count);
  for (TokenId& token : out) token = static_cast<TokenId>(random() % vocab);
  return out;
}

TokenList joined(TokenList first, const TokenList& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

std::vector<StoryPlan> raw_stories(const RawWorld& world) {
  const auto plan = [&](std::string name, void (*tell)(Story&, const RawWorld&)) {
    return StoryPlan{std::move(name), [world, tell](Story& story) { tell(story, world); }};
  };
  return {plan("turns", tell_turns), plan("edits", tell_edits), plan("branches", tell_branches),
          plan("shared system prompt", tell_users), plan("one document", tell_document)};
}

void tell_lengths(BenchClient& client, CacheBenchResult& result, const RawWorld& world,
                  std::vector<std::uint32_t> lengths, const TimeBudget& budget) {
  std::sort(lengths.begin(), lengths.end());
  const double time = budget.left() / 2;  // the other half is for the rest
  const double end = budget.left() - time;
  double seconds_per_token = 0;
  BenchProgress progress("length", lengths.size());
  for (const std::uint32_t length : lengths) {
    const std::string name = std::to_string(length);
    const auto skip = [&](std::string why) {
      result.rows.push_back({.name = name, .kind = "length", .skipped = std::move(why)});
    };
    const std::uint32_t turn = kNewTokens + result.reply_tokens;
    if (length <= turn) {
      skip("shorter than a turn of " + std::to_string(turn) + " tokens");
      continue;
    }
    if (length + turn * result.repeat > client.card().context) {
      skip("longer than the model's context of " + std::to_string(client.card().context));
      continue;
    }
    // One prompt goes before, and each repetition has a cold run.
    const double estimate = seconds_per_token * length * (1 + result.repeat);
    if (budget.left() - end < estimate) {
      skip("would take about " + std::to_string(static_cast<int>(estimate)) +
           " s, more than --budget-seconds leaves");
      continue;
    }
    progress.next(name);
    // Each repetition is the next turn of the one before. Shorter lengths are beginnings of longer ones,
    // which are sooner computed so.
    TokenList prompt = world.tokens(length - kNewTokens - result.reply_tokens, 50);
    BenchAnswer answer = Story(client, result, "length", "lengths", 0).tell(prompt);
    for (unsigned telling = 0; telling < result.repeat; ++telling) {
      const Hope hope = world.rules.turn(size_of(prompt), size_of(answer.tokens));
      prompt =
          joined(joined(std::move(prompt), answer.tokens), world.tokens(kNewTokens, 1000 + length + telling));
      answer = Story(client, result, "length", "lengths", telling).measure(name, prompt, hope);
    }
    seconds_per_token = result.rows.back().cold.median() / length;
  }
}

}  // namespace reprise::tools
