#include "tools/lab/lab.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "models/model.h"
#include "protocol/service.h"
#include "tools/lab/bench_cache_chat.h"
#include "tools/lab/bench_report.h"
#include "tools/lab/bench_times.h"

namespace reprise::tools {
namespace {

// -- clients: each sends a number of requests, which continue from the previous answers

using protocol::ChatPrompt;

/// A request with what is needed to judge its result.
struct WorkloadRequest {
  protocol::ChatPrompt chat{};
  std::uint32_t reply_tokens = 16;
  bool up_to_border = false;         // ignore prefixes shared by chance beyond the last message border
  std::uint32_t movable_tokens = 0;  // of documents sent before, at any position
};

class WorkloadClient {
 public:
  virtual ~WorkloadClient() = default;
  virtual bool done() const = 0;
  virtual WorkloadRequest next() = 0;
  virtual void answered(const BenchAnswer& answer) = 0;
};

using WorkloadClients = std::vector<std::unique_ptr<WorkloadClient>>;

constexpr std::uint32_t kSystemTokens = 200;
constexpr std::uint32_t kMessageTokens = 24;
constexpr std::uint32_t kDocumentTokens = 1000;
constexpr std::uint32_t kDocuments = 5;
constexpr std::uint32_t kDocumentsOfAQuestion = 3;
constexpr std::uint32_t kResultTokens = 32;

Json said(const char* role, std::string content) {
  return Json{{"role", role}, {"content", std::move(content)}};
}

std::uint32_t scaled(std::uint32_t count, double scale, std::uint32_t least) {
  return std::max(least, static_cast<std::uint32_t>(std::lround(count * scale)));
}

/// A user who chats for some turns.
class ChatUser : public WorkloadClient {
 public:
  ChatUser(const ChatWorld& world, const std::string& system, std::uint32_t turns, std::uint32_t seed)
      : world_(world), turns_(turns), seed_(seed) {
    chat_.messages = Json::array();
    chat_.messages.push_back(said("system", system));
  }
  bool done() const override { return turns_ == 0; }
  WorkloadRequest next() override {
    chat_.messages.push_back(said("user", world_.words(kMessageTokens, seed_++)));
    return {.chat = chat_};
  }
  void answered(const BenchAnswer& answer) override {
    chat_.messages.push_back(world_.message_of(chat_, answer));
    --turns_;
  }

 private:
  const ChatWorld& world_;
  ChatPrompt chat_;
  std::uint32_t turns_;
  std::uint32_t seed_;
};

/// Asks questions about documents, in a different selection and order each time.
class RagUser : public WorkloadClient {
 public:
  RagUser(const ChatWorld& world, std::uint32_t questions, std::uint32_t seed)
      : world_(world), questions_(questions), random_(seed) {
    for (std::uint32_t i = 0; i < kDocuments; ++i) {
      documents_.push_back("Document " + std::to_string(i + 1) + ": " +
                           world.words(kDocumentTokens, seed * 100 + i));
    }
  }
  bool done() const override { return questions_ == 0; }
  WorkloadRequest next() override {
    std::vector<std::uint32_t> order(kDocuments);
    for (std::uint32_t i = 0; i < kDocuments; ++i) order[i] = i;
    for (std::uint32_t i = 0; i < kDocumentsOfAQuestion; ++i)
      std::swap(order[i], order[i + random_() % (kDocuments - i)]);
    WorkloadRequest request;
    std::string text;
    for (std::uint32_t i = 0; i < kDocumentsOfAQuestion; ++i) {
      text += documents_[order[i]] + "\n\n";
      if (!seen_.insert(order[i]).second) request.movable_tokens += kDocumentTokens;
    }
    text += world_.words(kMessageTokens, static_cast<std::uint32_t>(random_()));
    request.chat.messages = Json::array();
    request.chat.messages.push_back(said("system", "Answer from the documents."));
    request.chat.messages.push_back(said("user", text));
    return request;
  }
  void answered(const BenchAnswer&) override { --questions_; }

 private:
  const ChatWorld& world_;
  std::uint32_t questions_;
  std::mt19937 random_;
  std::vector<std::string> documents_;
  std::set<std::uint32_t> seen_;
};

class BatchJob : public WorkloadClient {
 public:
  BatchJob(const ChatWorld& world, std::uint32_t instruction, std::uint32_t inputs, std::uint32_t seed)
      : world_(world), instruction_(world.words(instruction, seed)), inputs_(inputs), seed_(seed) {}
  bool done() const override { return inputs_ == 0; }
  WorkloadRequest next() override {
    WorkloadRequest request{.reply_tokens = 4, .up_to_border = true};
    request.chat.messages = Json::array();
    request.chat.messages.push_back(said("system", instruction_));
    request.chat.messages.push_back(said("user", world_.words(kMessageTokens, ++seed_ + 10'000)));
    return request;
  }
  void answered(const BenchAnswer&) override { --inputs_; }

 private:
  const ChatWorld& world_;
  const std::string instruction_;
  std::uint32_t inputs_;
  std::uint32_t seed_;
};

Json some_tools() {
  Json tools = Json::array();
  for (const char* name : {"read_file", "write_file", "list_folder", "run_command"}) {
    Json path{{"type", "string"}, {"description", "Where, from the root of the project"}};
    Json parameters{{"type", "object"}, {"properties", Json{{"path", std::move(path)}}}};
    tools.push_back(Json{
        {"type", "function"},
        {"function",
         Json{{"name", name}, {"description", "One of the tools"}, {"parameters", std::move(parameters)}}}});
  }
  return tools;
}

/// A task with `steps` steps, each with a tool result; after every tenth step the last two are taken back and
/// replaced.
class AgentRun : public WorkloadClient {
 public:
  AgentRun(const ChatWorld& world, const std::string& system, std::uint32_t steps, std::uint32_t seed)
      : world_(world), steps_(steps), seed_(seed) {
    chat_.messages = Json::array();
    chat_.messages.push_back(said("system", system));
    chat_.messages.push_back(said("user", world.words(2 * kMessageTokens, seed_++)));
    chat_.tools = some_tools();
  }
  bool done() const override { return taken_ >= steps_; }
  WorkloadRequest next() override { return {.chat = chat_}; }
  void answered(const BenchAnswer& answer) override {
    ++taken_;
    chat_.messages.push_back(world_.message_of(chat_, answer));
    if (taken_ % 10 == 0) {
      auto& messages = chat_.messages.as_array();
      messages.resize(messages.size() - 3);  // this reply, the tool result before it, and the call
    }
    Json result = said("tool", world_.words(kResultTokens, seed_++));
    result["tool_call_id"] = "call_" + std::to_string(taken_);
    chat_.messages.push_back(std::move(result));
  }

 private:
  const ChatWorld& world_;
  ChatPrompt chat_;
  std::uint32_t steps_;
  std::uint32_t taken_ = 0;
  std::uint32_t seed_;
};

void add_chat(WorkloadClients& clients, const ChatWorld& world, std::uint32_t seed, double scale) {
  const std::string system = world.words(kSystemTokens, seed);
  std::mt19937 random(seed);
  for (std::uint32_t i = 0; i < scaled(24, scale, 2); ++i) {
    clients.push_back(std::make_unique<ChatUser>(world, system, 2 + random() % 9, seed + 1000 * (i + 1)));
  }
}

void add_rag(WorkloadClients& clients, const ChatWorld& world, std::uint32_t seed, double scale) {
  clients.push_back(std::make_unique<RagUser>(world, scaled(60, scale, 8), seed));
}

void add_batch(WorkloadClients& clients, const ChatWorld& world, std::uint32_t seed, double scale) {
  for (const std::uint32_t instruction : {50U, 1024U}) {
    clients.push_back(
        std::make_unique<BatchJob>(world, instruction, scaled(100, scale, 8), seed + instruction));
  }
}

void add_agent(WorkloadClients& clients, const ChatWorld& world, std::uint32_t seed, double scale) {
  const std::string system = world.words(kSystemTokens, seed + 7);
  clients.push_back(std::make_unique<AgentRun>(world, system, scaled(30, scale, 4), seed + 1));
  for (std::uint32_t i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<AgentRun>(world, system, scaled(6, scale, 3), seed + 100 * (i + 1)));
  }
}

/// Returns the clients of a workload; `scale` multiplies their number, at least a few. Requires a valid name.
WorkloadClients workload_clients(const std::string& name, const ChatWorld& world, std::uint64_t seed,
                                 double scale) {
  WorkloadClients clients;
  const auto begin = static_cast<std::uint32_t>(seed * 1'000'003);
  const bool all = name == "mixed";
  if (all || name == "chat") add_chat(clients, world, begin + 1, scale);
  if (all || name == "rag") add_rag(clients, world, begin + 2, scale);
  if (all || name == "batch") add_batch(clients, world, begin + 3, scale);
  if (all || name == "agent") add_agent(clients, world, begin + 4, scale);
  return clients;
}

// -- results: tables and JSON, with goals

/// Result of one workload with one memory size.
struct WorkloadResult {
  std::string name;
  double memory_mb = 0;  // 0: all of the memory
  std::uint64_t requests = 0, exact = 0, partial = 0, missed = 0;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t possible_tokens = 0;  // shared with an earlier prompt's prefix: the limit for a prefix cache
  std::uint64_t movable_tokens = 0;   // the limit for a cache that finds documents at any position
  std::uint64_t restored_tokens = 0;
  std::uint64_t possible_requests = 0;  // requests that share a prefix with an earlier one
  std::uint64_t possible_hits = 0;      // of these, restored in part or completely
  std::uint64_t inserts = 0, evicted = 0, thrashed = 0, superseded = 0, capped = 0;
  std::uint64_t peak_bytes = 0, peak_entries = 0, index_bytes = 0;
  Times cold{}, warm{};  // TTFT of the same requests
  std::uint64_t differences = 0;

  double token_rate() const { return share(restored_tokens, prompt_tokens); }
  double possible_rate() const { return share(possible_tokens, prompt_tokens); }
  double of_possible() const { return share(restored_tokens, possible_tokens); }
  double request_rate() const { return share(exact + partial, requests); }
  double of_possible_requests() const { return share(possible_hits, possible_requests); }
  double eviction_rate() const { return share(evicted, inserts); }

  static double share(std::uint64_t part, std::uint64_t all) {
    return all == 0 ? 0 : static_cast<double>(part) / static_cast<double>(all);
  }
};

struct Asked {
  const char* workload;
  double of_requests;  // min share of possible_hits among possible_requests
  double of_tokens;    // min share of restored tokens among possible_tokens
  double evictions;    // max evictions per insert
  double sooner;       // min ratio of cold to warm median TTFT; 0: no goal
};
constexpr Asked kAsked[] = {{"chat", 0.98, 0.98, 1, 10},
                            {"rag", 0.90, 0.90, 1, 10},
                            {"batch", 1, 1, 1, 5},
                            {"agent", 0.98, 0.9, 1, 0},
                            {"mixed", 0.8, 0.8, 0.1, 5}};

struct WorkloadGoal {
  std::string name, asked, found;
  bool reached = false;
};

[[gnu::format(printf, 1, 2)]] std::string line_of(const char* pattern, ...) {
  char line[512];
  va_list values;
  va_start(values, pattern);
  std::vsnprintf(line, sizeof line, pattern, values);
  va_end(values);
  return line;
}

std::string memory_of(const WorkloadResult& result) {
  return result.memory_mb == 0 ? "all" : line_of("%.4g MiB", result.memory_mb);
}

// Only for runs with all memory; the others are for the chart.
std::vector<WorkloadGoal> goals_of(const WorkloadResult& result) {
  std::vector<WorkloadGoal> goals;
  if (result.memory_mb != 0) return goals;
  for (const Asked& asked : kAsked) {
    if (result.name != asked.workload) continue;
    // One decimal suffices: 99.99 % counts as 100 %.
    const auto percent = [](double share) { return line_of("%.1f %%", 100 * share); };
    goals.push_back({result.name + ": requests that hit, of those that could",
                     "at least " + percent(asked.of_requests), percent(result.of_possible_requests()),
                     result.of_possible_requests() >= asked.of_requests});
    goals.push_back({result.name + ": tokens restored, of those that could be",
                     "at least " + percent(asked.of_tokens), percent(result.of_possible()),
                     result.of_possible() >= asked.of_tokens});
    if (asked.evictions < 1) {
      goals.push_back({result.name + ": evictions, of inserts", "less than " + percent(asked.evictions),
                       percent(result.eviction_rate()), result.eviction_rate() < asked.evictions});
    }
    if (asked.sooner > 0) {  // the only goal that depends on the machine's speed
      const double sooner = result.cold.median() / result.warm.median();
      goals.push_back({result.name + ": first token, against no cache",
                       line_of("at least %.0fx sooner", asked.sooner), line_of("%.1fx", sooner),
                       sooner >= asked.sooner});
    }
  }
  goals.push_back({result.name + ": answers that are not the cold ones", "none",
                   std::to_string(result.differences), result.differences == 0});
  return goals;
}

using Number = unsigned long long;

std::string workload_table(const std::vector<WorkloadResult>& results) {
  std::string out =
      "| workload | memory | requests | exact | partial | miss | tokens restored % | possible % | of "
      "possible % | first token, cold ms "
      "| warm ms | sooner | inserts | evicted | thrashed | peak MB | entries | index KB |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const WorkloadResult& one : results) {
    out += line_of(
        "| %s | %s | %llu | %llu | %llu | %llu | %.2f | %.2f | %.2f | %.1f | %.1f | %.1fx | %llu | %llu | "
        "%llu | %.1f | %llu | %.0f |\n",
        one.name.c_str(), memory_of(one).c_str(), Number{one.requests}, Number{one.exact},
        Number{one.partial}, Number{one.missed}, 100 * one.token_rate(), 100 * one.possible_rate(),
        100 * one.of_possible(), one.cold.median() * 1e3, one.warm.median() * 1e3,
        one.cold.median() / one.warm.median(), Number{one.inserts}, Number{one.evicted}, Number{one.thrashed},
        static_cast<double>(one.peak_bytes) / 1e6, Number{one.peak_entries},
        static_cast<double>(one.index_bytes) / 1e3);
  }
  std::string goals;
  for (const WorkloadResult& one : results) {
    for (const WorkloadGoal& goal : goals_of(one)) {
      goals += "| " + goal.name + " | " + goal.asked + " | " + goal.found + " | " +
               (goal.reached ? "PASS" : "SHORT") + " |\n";
    }
    if (one.name == "rag" && one.memory_mb == 0) {
      out += line_of(
          "\nrag: %.1f %% of the tokens stand at the beginning of an earlier prompt, which is all that a "
          "cache of prefixes can "
          "restore; one that could move documents would find %.1f %%.\n",
          100 * one.possible_rate(), 100 * WorkloadResult::share(one.movable_tokens, one.prompt_tokens));
    }
  }
  if (!goals.empty()) out += "\n| goal, with all the memory | asked | found | |\n|---|---|---|---|\n" + goals;
  return out;
}

/// Formats the cost of evicting ahead of need: each result next to that of the same run without it.
std::string ahead_cost_table(const std::vector<WorkloadResult>& with_ahead,
                             const std::vector<WorkloadResult>& without) {
  constexpr double kMaxPoints = 1;  // max loss in percentage points of restorable tokens
  std::string out =
      "| workload | memory | of possible %, ahead | never | points lost | asked | evicted, ahead | never | "
      "thrashed, ahead | never | |\n|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (std::size_t i = 0; i < with_ahead.size(); ++i) {
    const WorkloadResult& ahead = with_ahead[i];
    const WorkloadResult& never = without[i];
    const double lost = 100 * (never.of_possible() - ahead.of_possible());
    out += line_of("| %s | %s | %.1f | %.1f | %.1f | at most %.0f | %llu | %llu | %llu | %llu | %s |\n",
                   ahead.name.c_str(), memory_of(ahead).c_str(), 100 * ahead.of_possible(),
                   100 * never.of_possible(), lost, kMaxPoints, Number{ahead.evicted}, Number{never.evicted},
                   Number{ahead.thrashed}, Number{never.thrashed}, lost <= kMaxPoints ? "PASS" : "SHORT");
  }
  return out;
}

/// Adds the chart of restored share by memory to the report.
void report_workloads(const WorkloadOptions& options, const std::vector<WorkloadResult>& results,
                      BenchReport& report) {
  ReportChart chart{.title = "share of prompt tokens restored by memory for snapshots",
                    .across = "memory for snapshots",
                    .unit = "%",
                    .up_to = 100,
                    .places = {},
                    .curves = {}};
  std::vector<double> memories;
  for (const WorkloadResult& one : results) memories.push_back(one.memory_mb);
  const auto order = [](double a, double b) {
    return a != 0 && (b == 0 || a < b);
  };  // all of the memory comes last
  std::sort(memories.begin(), memories.end(), order);
  memories.erase(std::unique(memories.begin(), memories.end()), memories.end());
  for (const double mb : memories) chart.places.push_back(mb == 0 ? "all" : line_of("%.4g MiB", mb));
  for (const WorkloadResult& one : results) {
    auto curve = std::find_if(chart.curves.begin(), chart.curves.end(),
                              [&](const ReportCurve& known) { return known.name == one.name; });
    if (curve == chart.curves.end()) {
      chart.curves.push_back({one.name, {}});
      curve = chart.curves.end() - 1;
      curve->values.resize(memories.size());
    }
    const auto place = std::find(memories.begin(), memories.end(), one.memory_mb) - memories.begin();
    curve->values[static_cast<std::size_t>(place)] = 100 * one.token_rate();
  }
  std::string table =
      "<div class=\"wide\"><table><tr><th>workload</th><th>memory</th><th>requests</th><th>restored %</th>"
      "<th>possible %</th><th>cold ms</th><th>warm ms</th><th>evicted</th></tr>\n";
  for (const WorkloadResult& one : results) {
    table += "<tr><td>" + html_text(one.name) + "</td><td>" + html_text(memory_of(one)) + "</td>" +
             line_of("<td>%llu</td><td>%.1f</td><td>%.1f</td>", Number{one.requests}, 100 * one.token_rate(),
                     100 * one.possible_rate());
    for (const Times* times : {&one.cold, &one.warm}) {
      table += "<td>" + (times->empty() ? "" : short_number(times->median() * 1e3)) + "</td>";
    }
    table += line_of("<td>%llu</td></tr>\n", Number{one.evicted});
  }
  report.add("Hit rate over memory",
             "Tokens of prompts that were restored, by the memory that snapshots may take; " +
                 options.engine.device + ", seed " + std::to_string(options.seed) + ".",
             report_chart(chart) + table + "</table></div>\n");
}

std::string workload_json(const std::vector<WorkloadResult>& results) {
  Json out{{"workloads", Json::array()}};
  for (const WorkloadResult& one : results) {
    Json row{{"name", one.name},
             {"memory_mb", one.memory_mb},
             {"requests", one.requests},
             {"exact", one.exact},
             {"partial", one.partial},
             {"miss", one.missed},
             {"prompt_tokens", one.prompt_tokens},
             {"possible_tokens", one.possible_tokens},
             {"movable_tokens", one.movable_tokens},
             {"restored_tokens", one.restored_tokens},
             {"possible_requests", one.possible_requests},
             {"inserts", one.inserts},
             {"evicted", one.evicted},
             {"thrashed", one.thrashed},
             {"superseded", one.superseded},
             {"capped", one.capped},
             {"peak_bytes", one.peak_bytes},
             {"peak_entries", one.peak_entries},
             {"index_bytes", one.index_bytes},
             {"cold_ms", one.cold.median() * 1e3},
             {"warm_ms", one.warm.median() * 1e3},
             {"differences", one.differences},
             {"goals", Json::array()}};
    for (const WorkloadGoal& goal : goals_of(one)) {
      row["goals"].push_back(Json{{"name", goal.name},
                                  {"asked", goal.asked},
                                  {"found", goal.found},
                                  {"verdict", goal.reached ? "PASS" : "SHORT"}});
    }
    out["workloads"].push_back(std::move(row));
  }
  return out.dump() + "\n";
}

// -- the measurement

/// The engine's counters by name, summed over labels.
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

// Shorter common prefixes are only the words with which the template begins every prompt.
constexpr std::uint32_t kMinShared = 32;

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
    // The requests repeated cold are spaced ever further apart, so that few suffice for any number.
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
    if (possible < kMinShared) possible = 0;
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

/// Returns "chat", "rag", ...
const std::vector<std::string>& workload_names() {
  static const std::vector<std::string> kNames = {"chat", "rag", "batch", "agent", "mixed"};
  return kNames;
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
