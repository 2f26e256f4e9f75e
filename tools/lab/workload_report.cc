// What `reprise bench --workload` found, as tables and as JSON, beside what is asked for.

#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "base/json.h"
#include "tools/lab/report_chart.h"
#include "tools/lab/workload.h"

namespace reprise::tools {
namespace {

struct Asked {
  const char* workload;
  double of_requests;  // that share something with an earlier one: hits
  double of_tokens;    // that an earlier prompt begins with: restored
  double evictions;    // of inserts, at most
  double sooner;       // first token, cold over warm, medians; 0: not asked
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

// Of runs with all the memory there is; the others draw curves.
std::vector<WorkloadGoal> goals_of(const WorkloadResult& result) {
  std::vector<WorkloadGoal> goals;
  if (result.memory_mb != 0) return goals;
  for (const Asked& asked : kAsked) {
    if (result.name != asked.workload) continue;
    // A hundredth of a percent is not what is asked for: 100 means all.
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

}  // namespace

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

std::string ahead_cost_table(const std::vector<WorkloadResult>& with_ahead,
                             const std::vector<WorkloadResult>& without) {
  constexpr double kMostPoints = 1;  // of what could be restored, lost to room that is kept free
  std::string out =
      "| workload | memory | of possible %, ahead | never | points lost | asked | evicted, ahead | never | "
      "thrashed, ahead | never | |\n|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (std::size_t i = 0; i < with_ahead.size(); ++i) {
    const WorkloadResult& ahead = with_ahead[i];
    const WorkloadResult& never = without[i];
    const double lost = 100 * (never.of_possible() - ahead.of_possible());
    out += line_of("| %s | %s | %.1f | %.1f | %.1f | at most %.0f | %llu | %llu | %llu | %llu | %s |\n",
                   ahead.name.c_str(), memory_of(ahead).c_str(), 100 * ahead.of_possible(),
                   100 * never.of_possible(), lost, kMostPoints, Number{ahead.evicted}, Number{never.evicted},
                   Number{ahead.thrashed}, Number{never.thrashed}, lost <= kMostPoints ? "PASS" : "SHORT");
  }
  return out;
}

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
  const auto order = [](double a, double b) { return a != 0 && (b == 0 || a < b); };  // all of it comes last
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

}  // namespace reprise::tools
