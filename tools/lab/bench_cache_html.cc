// The result of `reprise bench --cache` with drawings, for a report.

#include <algorithm>

#include "tools/lab/bench_cache_result.h"
#include "tools/lab/bench_report.h"
#include "tools/lab/report_chart.h"

namespace reprise::tools {
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
