#include "tools/lab/workload.h"

#include <algorithm>
#include <cstdio>
#include <random>
#include <utility>

#include "models/model.h"
#include "tools/lab/bench_progress.h"
#include "tools/lab/workload_clients.h"

namespace reprise::tools {
namespace {

/// The engine's own counters, by name; those of several labels together.
class Counters {
 public:
  explicit Counters(const BenchClient& client) : figures_(client.figures()) {}
  std::uint64_t operator()(const std::string& name) const {
    double sum = 0;
    for (const protocol::Figure& figure : figures_) {
      if (figure.name == "reprise_" + name) sum += figure.value;
    }
    return static_cast<std::uint64_t>(sum);
  }

 private:
  std::vector<protocol::Figure> figures_;
};

// Fewer are no more than the words with which the template opens every prompt.
constexpr std::uint32_t kLeastShared = 32;

class WorkloadRun {
 public:
  WorkloadRun(BenchClient& client, const ChatWorld& world, const WorkloadOptions& options, std::string name,
              double memory_mb)
      : client_(client), world_(world), options_(options), before_(client) {
    result_.name = std::move(name);
    result_.memory_mb = memory_mb;
  }

  WorkloadResult run() {
    WorkloadClients clients = workload_clients(result_.name, world_, options_.seed, options_.scale);
    std::mt19937 random(static_cast<std::uint32_t>(options_.seed));
    BenchProgress progress("workload " + result_.name, clients.size());
    for (std::size_t all = clients.size(); !clients.empty();) {
      const std::size_t who = random() % clients.size();
      ask(*clients[who]);
      if (clients[who]->done()) clients.erase(clients.begin() + static_cast<std::ptrdiff_t>(who));
      if (clients.size() < std::exchange(all, clients.size())) progress.advance();
    }
    const Counters after(client_);
    result_.inserts = after("cache_inserts_total") - before_("cache_inserts_total");
    result_.evicted = after("cache_evicted_total") - before_("cache_evicted_total");
    result_.thrashed = after("cache_thrashed_total") - before_("cache_thrashed_total");
    result_.superseded = after("cache_superseded_total") - before_("cache_superseded_total");
    result_.capped = after("cache_capped_total") - before_("cache_capped_total");
    result_.index_bytes = after("cache_index_bytes");
    return result_;
  }

 private:
  void ask(WorkloadClient& who) {
    const WorkloadRequest request = who.next();
    const BenchAnswer answer = client_.ask(request.chat, request.reply_tokens, "workload", true);
    client_.rest();
    count(request, answer.cache);
    // The requests that are asked cold, too, lie ever further apart, so that few are enough for any number.
    if (result_.requests == next_cold_ && result_.cold.all.size() < options_.cold_runs) {
      next_cold_ += next_cold_ / 2 + 1;
      const BenchAnswer cold = client_.ask(request.chat, request.reply_tokens, "workload", false);
      if (!answer.says_the_same(cold)) ++result_.differences;
      result_.warm.all.push_back(answer.first_token_seconds);
      result_.cold.all.push_back(cold.first_token_seconds);
    }
    who.answered(answer);
  }

  void count(const WorkloadRequest& request, const protocol::CacheReport& report) {
    const RestoreRules& rules = world_.rules();
    const std::uint32_t last = rules.on_grid(report.prompt_tokens - 1);
    std::uint32_t known = report.known_tokens;
    if (request.up_to_border) known = world_.last_border(world_.tokens_of(request.chat), known);
    std::uint32_t possible = std::min(rules.on_grid(known), last);
    if (possible < kLeastShared) possible = 0;
    ++result_.requests;
    result_.prompt_tokens += report.prompt_tokens;
    result_.restored_tokens += report.restored_tokens;
    result_.possible_tokens += std::max(possible, report.restored_tokens);
    result_.movable_tokens += std::max(possible, request.movable_tokens);
    if (possible > 0) ++result_.possible_requests;
    if (possible > 0 && report.restored_tokens > 0) ++result_.possible_hits;
    ++(report.restored_tokens == 0      ? result_.missed
       : report.restored_tokens >= last ? result_.exact
                                        : result_.partial);
    const Counters now(client_);
    result_.peak_bytes = std::max(result_.peak_bytes, now("cache_bytes"));
    result_.peak_entries = std::max(result_.peak_entries, now("cache_entries"));
  }

  BenchClient& client_;
  const ChatWorld& world_;
  const WorkloadOptions& options_;
  const Counters before_;
  WorkloadResult result_;
  std::uint64_t next_cold_ = 2;
};

RestoreRules rules_of(const EngineFlags& flags) {
  const std::unique_ptr<models::Device> device = open_device(flags);
  const std::unique_ptr<models::Model> model = device->load(flags.model, compute_options(flags));
  return {.grid = model->rules().grid,
          .any_token = model->state().attention_only(),
          .keeps_turn_ends = model->rules().decode_is_canonical};
}

std::vector<std::string> wanted(const WorkloadOptions& options) {
  std::vector<std::string> names;
  for (const std::string& name : options.names) {
    const auto& known = workload_names();
    if (name == "all") {
      names.insert(names.end(), known.begin(), known.end());
    } else if (std::find(known.begin(), known.end(), name) != known.end()) {
      names.push_back(name);
    } else {
      throw UsageError("--workload: '" + name + "' is not one of chat, rag, batch, agent, mixed, all");
    }
  }
  if (options.scale <= 0 || options.scale > 100) throw UsageError("--scale: takes more than 0, at most 100");
  if (options.ahead_cost && options.json)
    throw UsageError("--ahead-cost prints a table alone, without --json");
  for (const double mb : options.memory_mb) {
    if (mb < 0 || mb > 1e7) throw UsageError("--memory-mb: takes 0 to 10000000 MiB each");
  }
  return names;
}

}  // namespace

const std::vector<std::string>& workload_names() {
  static const std::vector<std::string> kNames = {"chat", "rag", "batch", "agent", "mixed"};
  return kNames;
}

namespace {

WorkloadResult run_workload(const WorkloadOptions& options, const RestoreRules& rules,
                            const std::string& name, double memory_mb, bool evicts_ahead) {
  std::fprintf(stderr, "reprise: workload %s, %s MiB%s\n", name.c_str(),
               memory_mb == 0 ? "all" : std::to_string(memory_mb).c_str(),
               evicts_ahead ? "" : ", nothing ahead of need");
  const auto bytes = static_cast<std::uint64_t>(memory_mb * (1 << 20));
  BenchClient client(options.engine, true, options.whole_memory ? 0 : bytes, options.whole_memory ? bytes : 0,
                     evicts_ahead);
  std::string why_not;
  const auto world = ChatWorld::load(options.engine.model, client.card(), 1024, rules, why_not);
  if (!world) throw UsageError("--workload: " + why_not);
  if (client.card().context < 4096)
    throw UsageError("--workload: the model's context is shorter than 4,096 tokens");
  return WorkloadRun(client, *world, options, name, memory_mb).run();
}

}  // namespace

int bench_workload(const WorkloadOptions& asked, BenchReport& report) {
  WorkloadOptions options = asked;
  const std::vector<std::string> names = wanted(options);
  if (options.engine.device == "auto") options.engine.device = open_device(options.engine)->name();
  const RestoreRules rules = rules_of(options.engine);
  std::vector<WorkloadResult> results, never_ahead;
  std::uint64_t differences = 0;
  for (const std::string& name : names) {
    for (const double memory_mb : options.memory_mb) {
      results.push_back(run_workload(options, rules, name, memory_mb, true));
      differences += results.back().differences;
      if (!options.ahead_cost) continue;
      never_ahead.push_back(run_workload(options, rules, name, memory_mb, false));
      differences += never_ahead.back().differences;
    }
  }
  const std::string out = options.ahead_cost ? ahead_cost_table(results, never_ahead)
                          : options.json     ? workload_json(results)
                                             : workload_table(results);
  std::fwrite(out.data(), 1, out.size(), stdout);
  report_workloads(options, results, report);
  return differences == 0 ? 0 : 1;
}

}  // namespace reprise::tools
