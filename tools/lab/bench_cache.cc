#include "tools/lab/bench_cache.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <thread>

#include "models/model.h"
#include "tools/lab/bench_cache_chat.h"
#include "tools/lab/bench_cache_crowd.h"
#include "tools/lab/bench_cache_raw.h"

namespace reprise::tools {
namespace {

constexpr unsigned kSnapshotRepeats = 9;  // they are short

void check(const BenchCacheOptions& options) {
  if (options.prompt < 32 || options.prompt > 1 << 20)
    throw UsageError("--prompt: takes 32 to 1048576 tokens");
  if (options.reply < 1 || options.reply > 4096) throw UsageError("--reply: takes 1 to 4096 tokens");
  if (options.repeat < 1 || options.repeat > 1000) throw UsageError("--repeat: takes 1 to 1000");
  if (options.requests < 2 || options.requests > 100'000) throw UsageError("--requests: takes 2 to 100000");
  if (options.at_once < 1 || options.at_once > 64) throw UsageError("--at-once: takes 1 to 64");
  for (const std::string& part : options.only) {
    const auto& parts = cache_bench_parts();
    if (std::find(parts.begin(), parts.end(), part) != parts.end()) continue;
    throw UsageError("--only: '" + part + "' is not one of lengths, raw, chat, crowd, miss, snapshots");
  }
}

/// What the model alone tells, without the engine.
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
  facts.threads = flags.threads != 0 ? flags.threads : std::thread::hardware_concurrency();
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
  // The longest prompt of a story: a prompt, two replies and what is new in two turns.
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
  client.ask(raw.tokens(32, 90), 1, "", false);  // brings the weights into memory
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

const std::vector<std::string>& cache_bench_parts() {
  static const std::vector<std::string> kParts = {"lengths", "raw", "chat", "crowd", "miss", "snapshots"};
  return kParts;
}

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
