#include "tools/lab/lab.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "base/machine.h"
#include "base/token.h"
#include "models/model.h"
#include "tools/lab/bench_cache_chat.h"
#include "tools/lab/bench_cache_result.h"
#include "tools/lab/bench_cache_story.h"
#include "tools/lab/bench_report.h"
#include "tools/lab/bench_times.h"

namespace reprise::tools {
namespace {

// -- stories of raw prompts: tokens without message borders

struct RawWorld {
  std::uint32_t vocab = 0;
  std::uint32_t prompt = 0;  // tokens
  RestoreRules rules{};

  /// A function of `seed`.
  TokenList tokens(std::uint32_t count, std::uint32_t seed) const;
};

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

constexpr std::uint32_t kNewTokens = 32;  // of a question or a next turn
constexpr std::uint32_t kTenfoldFrom = 1024;
constexpr double kTenfold = 10;

std::uint32_t size_of(const TokenList& tokens) {
  return static_cast<std::uint32_t>(tokens.size());
}

// A conversation that is interrupted by another one and resumed.
void tell_turns(Story& story, const RawWorld& world) {
  const TokenList first = world.tokens(world.prompt, 1);
  const BenchAnswer one = story.tell(first);
  const TokenList second = joined(joined(first, one.tokens), world.tokens(kNewTokens, 2));
  const BenchAnswer two =
      story.measure("extend a turn", second, world.rules.turn(size_of(first), size_of(one.tokens)));
  const Hope whole = world.rules.all(size_of(second) - 1);
  story.measure("same prompt again", second, whole);
  // Different seeds give different replies.
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

std::vector<StoryPlan> raw_stories(const RawWorld& world) {
  const auto plan = [&](std::string name, void (*tell)(Story&, const RawWorld&)) {
    return StoryPlan{std::move(name), [world, tell](Story& story) { tell(story, world); }};
  };
  return {plan("turns", tell_turns), plan("edits", tell_edits), plan("branches", tell_branches),
          plan("shared system prompt", tell_users), plan("one document", tell_document)};
}

/// Measures TTFT over lengths; the last tokens of each prompt are new.
void tell_lengths(BenchClient& client, CacheBenchResult& result, const RawWorld& world,
                  std::vector<std::uint32_t> lengths, const TimeBudget& budget) {
  std::sort(lengths.begin(), lengths.end());
  const double time = budget.left() / 2;  // the other half is for the remaining parts
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
    // One initial prompt, and one cold run per repetition.
    const double estimate = seconds_per_token * length * (1 + result.repeat);
    if (budget.left() - end < estimate) {
      skip("would take about " + std::to_string(static_cast<int>(estimate)) +
           " s, more than --budget-seconds leaves");
      continue;
    }
    progress.next(name);
    // Each repetition is the next turn of the previous one. Shorter lengths are prefixes of longer ones,
    // which saves computing time.
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

// -- concurrent requests, and the cost of a miss

constexpr std::uint32_t kQuestionTokens = 16;

double processor_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

/// Measures `options.requests` prompts of one instruction and a question each, `options.at_once` at a time.
/// Runs as many of them cold as time allows, at least `at_once`.
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
  // The first one computes the instruction; all others restore it.
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
    // Half of the remaining time is for the other parts.
    if (cold_seconds / crowd.cold_requests * crowd.at_once > budget.left() / 2) break;
  }
  crowd.cold_seconds = cold_seconds * crowd.requests / crowd.cold_requests;
  return crowd;
}

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

/// An engine with a cache and one without, and the order of their creation: the placement of weights and
/// states in memory makes one of them about 1 % faster for its lifetime.
struct EnginePair {
  std::unique_ptr<BenchClient> with, without;

  EnginePair(const EngineFlags& flags, bool with_first) {
    if (with_first) with = std::make_unique<BenchClient>(flags, true);
    without = std::make_unique<BenchClient>(flags, false);
    if (!with_first) with = std::make_unique<BenchClient>(flags, true);
  }
};

/// Computes the same new prompt in three ways; the order rotates by round.
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

/// Measures new prompts on an engine with a cache, used and bypassed, and on one without, in turn; both are
/// re-created in the opposite order after some rounds.
MissResult measure_miss(const BenchCacheOptions& options, const RawWorld& world, const TimeBudget& budget) {
  MissResult miss{.prompt_tokens = world.prompt};
  const unsigned rounds = std::max(options.repeat, kMinMissRounds);
  BenchProgress progress("the cost of a miss", rounds);
  std::unique_ptr<EnginePair> engines;
  for (unsigned i = 0; i < rounds && (i == 0 || budget.left() > 0); ++i) {
    progress.next("round " + std::to_string(i + 1) + " of " + std::to_string(rounds));
    engines.reset();  // frees the memory for the next two
    engines = std::make_unique<EnginePair>(options.engine, i % 2 == 0);
    for (BenchClient* engine : {engines->with.get(), engines->without.get()}) {
      (void)cost_of(*engine, world.tokens(world.prompt, 70), "", false);  // faults its weights into memory
    }
    measure_round(*engines, world.tokens(world.prompt, 71 + i), i, miss);
  }
  return miss;
}

// -- the whole benchmark

constexpr unsigned kSnapshotRepeats = 9;  // they are short

void check(const BenchCacheOptions& options) {
  if (options.prompt < 32 || options.prompt > 1 << 20)
    throw UsageError("--prompt: takes 32 to 1048576 tokens");
  if (options.reply < 1 || options.reply > 4096) throw UsageError("--reply: takes 1 to 4096 tokens");
  if (options.repeat < 1 || options.repeat > 1000) throw UsageError("--repeat: takes 1 to 1000");
  if (options.requests < 2 || options.requests > 100'000) throw UsageError("--requests: takes 2 to 100000");
  if (options.at_once < 1 || options.at_once > 64) throw UsageError("--at-once: takes 1 to 64");
  constexpr std::string_view kParts[] = {"lengths", "raw", "chat", "crowd", "miss", "snapshots"};
  for (const std::string& part : options.only) {
    if (std::find(std::begin(kParts), std::end(kParts), part) != std::end(kParts)) continue;
    throw UsageError("--only: '" + part + "' is not one of lengths, raw, chat, crowd, miss, snapshots");
  }
}

struct ModelFacts {
  RestoreRules rules;
  std::uint32_t vocab = 0;
  std::uint32_t context = 0;
  unsigned threads = 0;
  SnapshotTimes snapshots;
};

ModelFacts look_at(const EngineFlags& flags) {
  const std::unique_ptr<models::Device> device = open_device(flags);
  const std::unique_ptr<models::Model> model = device->load(flags.model, compute_options(flags));
  ModelFacts facts;
  facts.rules = {.grid = model->rules().grid,
                 .any_token = model->state().attention_only(),
                 .keeps_turn_ends = model->rules().decode_is_canonical};
  facts.vocab = static_cast<std::uint32_t>(model->config().vocab);
  facts.context = static_cast<std::uint32_t>(model->config().context_length);
  facts.threads = flags.threads != 0 ? flags.threads : available_processors();
  gpu::StateStore store(model->state().sizes(), {.pages = 4, .slots = 4, .memory = &device->memory()});
  std::optional<gpu::Sequence> sequence = store.open();
  if (!sequence || !sequence->reserve(1)) throw std::runtime_error("the state does not fit the memory");
  const TokenId token = 0;
  const models::Slice slice{.sequence = &*sequence, .tokens = {&token, 1}};
  model->forward({&slice, 1});
  facts.snapshots = measure_snapshots(store, *sequence, kSnapshotRepeats);
  return facts;
}

void tell_chats(BenchClient& client, CacheBenchResult& result, const BenchCacheOptions& options,
                const RestoreRules& rules, const TimeBudget& budget) {
  std::string why_not;
  const auto world = ChatWorld::load(options.engine.model, client.card(), options.prompt, rules, why_not);
  std::vector<StoryPlan> plans;
  if (world) {
    why_not = "the chat template knows no thinking";
    plans = chat_stories(*world);
    tell_stories(client, result, "chat", plans, budget);
  }
  for (const std::string& name : chat_story_names()) {
    const bool told =
        std::any_of(plans.begin(), plans.end(), [&](const auto& plan) { return plan.name == name; });
    if (!told) result.rows.push_back({.name = name, .kind = "chat", .skipped = why_not});
  }
}

CacheBenchResult measure(const BenchCacheOptions& options) {
  const auto wanted = [&](const char* part) {
    return options.only.empty() ||
           std::find(options.only.begin(), options.only.end(), part) != options.only.end();
  };
  const TimeBudget budget(options.budget_seconds);
  CacheBenchResult result;
  ModelFacts facts = look_at(options.engine);
  // Longest prompt of a story: a prompt, two replies, and the new tokens of two turns.
  if (options.prompt + 2 * options.reply + 128 > facts.context) {
    throw UsageError("--prompt: with replies and new turns it is longer than the model's context of " +
                     std::to_string(facts.context));
  }
  BenchClient client(options.engine, true);
  std::filesystem::path folder(options.engine.model);
  if (!folder.has_filename()) folder = folder.parent_path();
  result.model = folder.filename().string();
  result.architecture = client.card().architecture;
  result.device = options.engine.device;
  result.threads = facts.threads;
  result.repeat = options.repeat;
  result.reply_tokens = options.reply;
  const RawWorld raw{.vocab = facts.vocab, .prompt = options.prompt, .rules = facts.rules};
  client.ask(raw.tokens(32, 90), 1, "", false);  // faults the weights into memory
  if (wanted("lengths")) tell_lengths(client, result, raw, options.lengths, budget);
  if (wanted("raw")) tell_stories(client, result, "raw", raw_stories(raw), budget);
  if (wanted("chat")) tell_chats(client, result, options, facts.rules, budget);
  const auto in_time = [&](const char* part) {
    if (budget.left() > 0) return true;
    std::fprintf(stderr, "reprise: %s: the time was up\n", part);
    return false;
  };
  if (wanted("crowd") && in_time("crowd")) result.crowd = measure_crowd(client, result, options, raw, budget);
  if (wanted("miss") && in_time("miss")) result.miss = measure_miss(options, raw, budget);
  if (wanted("snapshots")) result.snapshots = std::move(facts.snapshots);
  return result;
}

}  // namespace

int bench_cache(const BenchCacheOptions& asked, BenchReport& report) {
  check(asked);
  BenchCacheOptions options = asked;
  if (options.engine.device == "auto") options.engine.device = open_device(options.engine)->name();
  const CacheBenchResult result = measure(options);
  const std::string out = options.json ? cache_bench_json(result).dump() + "\n" : cache_bench_table(result);
  std::fwrite(out.data(), 1, out.size(), stdout);
  report_cache(result, report);
  for (const std::string& difference : result.differences) {
    std::fprintf(stderr, "reprise: %s\n", difference.c_str());
  }
  return result.differences.empty() ? 0 : 1;
}

}  // namespace reprise::tools
