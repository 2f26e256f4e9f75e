#include "tools/lab/bench_cache_result.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>

#include "tools/lab/bench_report.h"

namespace reprise::tools {
namespace {

constexpr double kMaxMissCost = 1.01;
constexpr double kMaxControl = 0.003;  // max deviation from 1 at which a cost of 1 % is measurable
constexpr double kMaxSnapshotCost = 1.5;
constexpr double kMinCrowdSpeedup = 5;

[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...) {
  char line[512];
  va_list values;
  va_start(values, pattern);
  std::vsnprintf(line, sizeof line, pattern, values);
  va_end(values);
  return line;
}

const char* verdict(bool enough) {
  return enough ? "PASS" : "SHORT";
}

const char* verdict(const CacheGoal& goal) {
  return goal.certain ? verdict(goal.reached) : "UNSURE";
}

std::string row_line(const CacheRow& row) {
  const std::string begin = format("  %-36s", row.name.c_str());
  if (!row.skipped.empty()) return begin + " skipped: " + row.skipped + "\n";
  std::string line =
      begin + format(" %5zu %10.1f %10.1f %7.1fx %7u %7u %8u %6u  %-5s %s", row.warm.all.size(),
                     row.cold.median() * 1e3, row.warm.median() * 1e3, row.speedup(), row.prompt_tokens,
                     row.shared_tokens, row.restored_tokens, row.asked_tokens, verdict(row.enough()),
                     row.differences == 0 ? "same" : "DIFFERS");
  if (!row.enough()) line += " (" + row.reason + ")";
  return line + "\n";
}

std::string rows_of(const CacheBenchResult& result, const char* kind, const char* title) {
  std::string out;
  for (const CacheRow& row : result.rows) {
    if (row.kind == kind) out += row_line(row);
  }
  if (out.empty()) return {};
  return format("%-38s %5s %10s %10s %8s %7s %7s %8s %6s  %-5s %s\n", title, "times", "cold ms", "warm ms",
                "sooner", "prompt", "shared", "restored", "asked", "", "answer") +
         out + "\n";
}

Json times_json(const Times& times) {
  return Json{
      {"median_ms", times.median() * 1e3}, {"spread", times.spread()}, {"repetitions", times.all.size()}};
}

Json row_json(const CacheRow& row) {
  Json out{{"name", row.name}, {"kind", row.kind}};
  if (!row.skipped.empty()) {
    out["skipped"] = row.skipped;
    return out;
  }
  out["cold"] = times_json(row.cold);
  out["warm"] = times_json(row.warm);
  out["speedup"] = row.speedup();
  out["prompt_tokens"] = row.prompt_tokens;
  out["shared_tokens"] = row.shared_tokens;
  out["restored_tokens"] = row.restored_tokens;
  out["asked_tokens"] = row.asked_tokens;
  out["verdict"] = verdict(row.enough());
  out["reason"] = row.reason;
  out["same_answer"] = row.differences == 0;
  return out;
}

}  // namespace

bool MissResult::certain() const {
  return wall_ratios.all.size() >= kMinMissRounds && std::abs(control_ratios.median() - 1) < kMaxControl;
}

std::vector<CacheGoal> cache_goals(const CacheBenchResult& result) {
  std::vector<CacheGoal> goals;
  std::size_t measured = 0;
  std::size_t enough = 0;
  for (const CacheRow& row : result.rows) {
    if (!row.skipped.empty()) continue;
    ++measured;
    if (row.enough()) ++enough;
    if (row.asked_speedup > 0) {
      goals.push_back({"first token, " + row.name, format("at least %.0fx sooner", row.asked_speedup),
                       format("%.1fx", row.speedup()), row.speedup() >= row.asked_speedup});
    }
  }
  if (measured > 0) {
    goals.push_back({"tokens restored", "what is asked for, in every row",
                     format("%zu of %zu rows", enough, measured), enough == measured});
  }
  if (result.crowd) {
    const CrowdResult& crowd = *result.crowd;
    goals.push_back({format("%u requests with one instruction, all of them", crowd.requests),
                     format("at least %.0fx sooner", kMinCrowdSpeedup), format("%.1fx", crowd.speedup()),
                     crowd.speedup() >= kMinCrowdSpeedup});
    goals.push_back({"tokens restored for them",
                     format("%llu", static_cast<unsigned long long>(crowd.asked_tokens)),
                     format("%llu", static_cast<unsigned long long>(crowd.restored_tokens)),
                     crowd.restored_tokens >= crowd.asked_tokens});
  }
  if (result.miss) {
    const MissResult& miss = *result.miss;
    goals.push_back({"a miss, beside no cache", "less than 1 % more",
                     format("%+.2f %% (control %+.2f %%)", (miss.wall_ratios.median() - 1) * 100,
                            (miss.control_ratios.median() - 1) * 100),
                     miss.wall_ratios.median() < kMaxMissCost, miss.certain()});
  }
  if (result.snapshots) {
    goals.push_back({"snapshot and restore, beside two copies", format("at most %.1fx", kMaxSnapshotCost),
                     format("%.2fx", result.snapshots->beside_copies()),
                     result.snapshots->beside_copies() <= kMaxSnapshotCost});
  }
  goals.push_back({"warm answers that are not the cold ones", "none",
                   std::to_string(result.differences.size()), result.differences.empty()});
  return goals;
}

const std::vector<std::string>& cache_bench_remarks() {
  static const std::vector<std::string> kRemarks = {
      "llama.cpp b10586 on prompts of 1,024 tokens of a model of this kind, for comparison:",
      "  an edit in the last 10 % reuses 508 of 920 tokens; the third turn, after another conversation, 508 "
      "of "
      "1,064;",
      "  a branch 508 of 512; a shared system prompt 556 of 1,024."};
  return kRemarks;
}

std::string cache_bench_table(const CacheBenchResult& result) {
  std::string out = format(
      "%s (%s), %s, %u threads; times to the first token, medians of up to %u, cold and warm in turn\n\n",
      result.model.c_str(), result.architecture.c_str(), result.device.c_str(), result.threads,
      result.repeat);
  out += rows_of(result, "length", "next turn, by prompt length");
  out += rows_of(result, "raw", "raw prompts");
  out += rows_of(result, "chat", "conversations");
  if (result.crowd) {
    const CrowdResult& crowd = *result.crowd;
    out += format("%u requests with one instruction of %u tokens, %u at a time: %.2f s; cold %.2f s",
                  crowd.requests, crowd.instruction_tokens, crowd.at_once, crowd.warm_seconds,
                  crowd.cold_seconds);
    if (crowd.cold_requests < crowd.requests) out += format(" (from %u of them)", crowd.cold_requests);
    out += "\n";
  }
  if (result.miss) {
    const MissResult& miss = *result.miss;
    out += format("a miss of %u tokens: %.1f ms; cache refused %.1f ms; without a cache %.1f ms\n",
                  miss.prompt_tokens, miss.with_cache.median() * 1e3, miss.refused.median() * 1e3,
                  miss.without.median() * 1e3);
    out += format(
        "  beside none: time %+.2f %%, processor %+.2f %%; control (refused beside none) %+.2f %%; "
        "beside refused %+.2f %%\n",
        (miss.wall_ratios.median() - 1) * 100, (miss.cpu_ratios.median() - 1) * 100,
        (miss.control_ratios.median() - 1) * 100, (miss.own_ratios.median() - 1) * 100);
    out += format("  %zu rounds, spread of the ratios %.1f %%\n", miss.wall_ratios.all.size(),
                  miss.wall_ratios.spread() * 100);
  }
  if (result.snapshots) {
    const SnapshotTimes& times = *result.snapshots;
    out += format("snapshot of %.1f MB: %.2f ms; restore %.2f ms; memcpy of the same bytes %.2f ms\n",
                  static_cast<double>(times.bytes) / 1e6, times.capture.median() * 1e3,
                  times.restore.median() * 1e3, times.copy.median() * 1e3);
  }
  out += format("\n%-62s %-32s %-36s\n", "goal", "asked", "found");
  for (const CacheGoal& goal : cache_goals(result)) {
    out += format("%-62s %-32s %-36s %s\n", goal.name.c_str(), goal.asked.c_str(), goal.found.c_str(),
                  verdict(goal));
  }
  out += "\n";
  for (const std::string& remark : cache_bench_remarks()) out += remark + "\n";
  for (const std::string& difference : result.differences) out += "DIFFERENCE " + difference + "\n";
  return out;
}

Json cache_bench_json(const CacheBenchResult& result) {
  Json out{{"model", result.model},   {"architecture", result.architecture},
           {"device", result.device}, {"threads", result.threads},
           {"repeat", result.repeat}, {"rows", Json::array()}};
  for (const CacheRow& row : result.rows) out["rows"].push_back(row_json(row));
  if (result.crowd) {
    const CrowdResult& crowd = *result.crowd;
    out["crowd"] = Json{{"requests", crowd.requests},
                        {"at_once", crowd.at_once},
                        {"instruction_tokens", crowd.instruction_tokens},
                        {"cold_requests", crowd.cold_requests},
                        {"warm_seconds", crowd.warm_seconds},
                        {"cold_seconds", crowd.cold_seconds},
                        {"speedup", crowd.speedup()},
                        {"asked_tokens", crowd.asked_tokens},
                        {"restored_tokens", crowd.restored_tokens},
                        {"same_answer", crowd.differences == 0}};
  }
  if (result.miss) {
    const MissResult& miss = *result.miss;
    out["miss"] =
        Json{{"prompt_tokens", miss.prompt_tokens},         {"with_cache", times_json(miss.with_cache)},
             {"without_cache", times_json(miss.without)},   {"cache_refused", times_json(miss.refused)},
             {"rounds", miss.wall_ratios.all.size()},       {"time_ratio", miss.wall_ratios.median()},
             {"processor_ratio", miss.cpu_ratios.median()}, {"control_ratio", miss.control_ratios.median()},
             {"own_ratio", miss.own_ratios.median()}};
  }
  if (result.snapshots) {
    const SnapshotTimes& times = *result.snapshots;
    out["snapshot"] = Json{{"bytes", times.bytes},
                           {"capture", times_json(times.capture)},
                           {"restore", times_json(times.restore)},
                           {"memcpy", times_json(times.copy)},
                           {"beside_copies", times.beside_copies()}};
  }
  out["goals"] = Json::array();
  for (const CacheGoal& goal : cache_goals(result)) {
    out["goals"].push_back(
        Json{{"name", goal.name}, {"asked", goal.asked}, {"found", goal.found}, {"verdict", verdict(goal)}});
  }
  out["remarks"] = Json::array();
  for (const std::string& remark : cache_bench_remarks()) out["remarks"].push_back(remark);
  out["differences"] = Json::array();
  for (const std::string& difference : result.differences) out["differences"].push_back(difference);
  return out;
}

// -- the page

namespace {

constexpr const char* kCold = "#b8c4d6";
constexpr const char* kWarm = "#1668c7";

std::vector<const CacheRow*> measured(const CacheBenchResult& result, const std::string& kind) {
  std::vector<const CacheRow*> rows;
  for (const CacheRow& row : result.rows) {
    if (row.kind == kind && row.skipped.empty()) rows.push_back(&row);
  }
  return rows;
}

std::string by_length(const std::vector<const CacheRow*>& rows) {
  ReportChart chart{.title = "time to the first token by prompt length",
                    .across = "tokens of the prompt",
                    .unit = "ms",
                    .by_powers = true,
                    .places = {},
                    .curves = {{"cold", {}}, {"warm: a next turn, restored", {}}}};
  for (const CacheRow* row : rows) {
    chart.places.push_back(row->name);
    chart.curves[0].values.emplace_back(row->cold.median() * 1e3);
    chart.curves[1].values.emplace_back(row->warm.median() * 1e3);
  }
  return report_chart(chart);
}

std::string bars(const std::vector<const CacheRow*>& rows) {
  constexpr double kLeft = 250, kWidth = 400, kRow = 34;
  double most = 0;
  for (const CacheRow* row : rows) most = std::max({most, row->warm.median(), row->cold.median()});
  const double height = kRow * static_cast<double>(rows.size()) + 10;
  std::string out = "<svg viewBox=\"0 0 760 " + short_number(height) +
                    "\" role=\"img\" aria-label=\"cold and warm by scenario\">\n";
  double top = 5;
  for (const CacheRow* row : rows) {
    out += svg_label(kLeft - 8, top + 18, "end", row->name);
    double bar = top;
    for (const bool warm : {false, true}) {
      const double seconds = (warm ? row->warm : row->cold).median();
      const double width = std::max(1.0, kWidth * seconds / most);
      out += "<rect height=\"12\"" + svg_at("x", kLeft) + svg_at("y", bar) + svg_at("width", width) +
             " fill=\"" + (warm ? kWarm : kCold) + "\"/>\n";
      out += svg_label(kLeft + width + 6, bar + 11, "start", short_number(seconds * 1e3) + " ms");
      bar += 14;
    }
    top += kRow;
  }
  return out + "</svg>\n";
}

std::string table(const CacheBenchResult& result) {
  std::string out =
      "<div class=\"wide\"><table><tr><th></th><th>times</th><th>cold ms</th><th>warm "
      "ms</th><th>sooner</th><th>prompt</th><th>shared</th>"
      "<th>restored</th><th>asked</th><th></th><th>answer</th></tr>\n";
  for (const CacheRow& row : result.rows) {
    out += "<tr><td>" + html_text(row.kind + ": " + row.name) + "</td>";
    if (!row.skipped.empty()) {
      out += "<td colspan=\"10\">skipped: " + html_text(row.skipped) + "</td></tr>\n";
      continue;
    }
    const auto cell = [&](const std::string& text) { out += "<td>" + html_text(text) + "</td>"; };
    cell(std::to_string(row.warm.all.size()));
    cell(short_number(row.cold.median() * 1e3));
    cell(short_number(row.warm.median() * 1e3));
    cell(short_number(row.speedup()) + "x");
    for (const std::uint32_t tokens :
         {row.prompt_tokens, row.shared_tokens, row.restored_tokens, row.asked_tokens}) {
      cell(std::to_string(tokens));
    }
    cell(row.enough() ? "PASS" : "SHORT (" + row.reason + ")");
    cell(row.differences == 0 ? "same" : "DIFFERS");
    out += "</tr>\n";
  }
  return out + "</table></div>\n";
}

}  // namespace

void report_cache(const CacheBenchResult& result, BenchReport& report) {
  std::string out;
  if (const auto rows = measured(result, "length"); !rows.empty()) {
    out += "<h2>The next turn, by prompt length</h2>\n" + by_length(rows);
  }
  if (const auto rows = measured(result, "raw"); !rows.empty()) out += "<h2>Raw prompts</h2>\n" + bars(rows);
  if (const auto rows = measured(result, "chat"); !rows.empty())
    out += "<h2>Conversations</h2>\n" + bars(rows);
  out += "<h2>Goals</h2>\n<table><tr><th></th><th>asked</th><th>found</th><th></th></tr>\n";
  for (const CacheGoal& goal : cache_goals(result)) {
    out += "<tr><td>" + html_text(goal.name) + "</td><td>" + html_text(goal.asked) + "</td><td>" +
           html_text(goal.found) + "</td><td>" +
           (!goal.certain  ? "UNSURE"
            : goal.reached ? "PASS"
                           : "SHORT") +
           "</td></tr>\n";
  }
  out += "</table>\n<h2>All rows</h2>\n" + table(result);
  for (const std::string& remark : cache_bench_remarks()) out += "<p>" + html_text(remark) + "</p>\n";
  for (const std::string& difference : result.differences) {
    out += "<p><b>Difference:</b> " + html_text(difference) + "</p>\n";
  }
  report.add("Time to the first token",
             result.model + " (" + result.architecture + "), " + result.device + ", " +
                 std::to_string(result.threads) + " threads; medians of up to " +
                 std::to_string(result.repeat) + ", cold beside warm.",
             out);
}

}  // namespace reprise::tools
