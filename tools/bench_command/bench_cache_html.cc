// The result of `reprise bench --cache` as one HTML page with drawings: nothing is loaded from elsewhere.

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tools/bench_command/bench_cache_result.h"

namespace reprise::tools {
namespace {

constexpr const char* kCold = "#b8c4d6";
constexpr const char* kWarm = "#1668c7";

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '&') {
      out += "&amp;";
    } else if (c == '"') {
      out += "&quot;";
    } else {
      out += c;
    }
  }
  return out;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, value < 10 ? "%.2f" : value < 1000 ? "%.1f" : "%.0f", value);
  return text;
}

std::string at(const char* name, double value) {
  return std::string(" ") + name + "=\"" + number(value) + "\"";
}

std::string label(double x, double y, const char* anchor, const std::string& text) {
  return "<text" + at("x", x) + at("y", y) + " text-anchor=\"" + anchor + "\">" + escaped(text) + "</text>\n";
}

std::vector<const CacheRow*> measured(const CacheBenchResult& result, const std::string& kind) {
  std::vector<const CacheRow*> rows;
  for (const CacheRow& row : result.rows) {
    if (row.kind == kind && row.skipped.empty()) rows.push_back(&row);
  }
  return rows;
}

/// Both axes by powers: length across, milliseconds up.
std::string lines(const std::vector<const CacheRow*>& rows) {
  constexpr double kLeft = 70, kWidth = 620, kTop = 20, kHeight = 260;
  double least = 1e300, most = 0;
  for (const CacheRow* row : rows) {
    least = std::min({least, row->warm.median(), row->cold.median()});
    most = std::max({most, row->warm.median(), row->cold.median()});
  }
  const double low = std::floor(std::log10(least * 1e3));
  const double high = std::max(low + 1, std::ceil(std::log10(most * 1e3)));
  const double first = std::log2(rows.front()->prompt_tokens);
  const double range = std::max(1.0, std::log2(rows.back()->prompt_tokens) - first);
  const auto x = [&](const CacheRow& row) {
    return kLeft + kWidth * (std::log2(row.prompt_tokens) - first) / range;
  };
  const auto y = [&](double seconds) {
    return kTop + kHeight * (high - std::log10(seconds * 1e3)) / (high - low);
  };
  std::string out =
      "<svg viewBox=\"0 0 760 330\" role=\"img\" aria-label=\"time to the first token by prompt length\">\n";
  for (double power = low; power <= high; ++power) {
    const double height = y(std::pow(10, power) / 1e3);
    out += "<line class=\"grid\"" + at("x1", kLeft) + at("x2", kLeft + kWidth) + at("y1", height) +
           at("y2", height) + "/>\n";
    out += label(kLeft - 8, height + 4, "end", number(std::pow(10, power)) + " ms");
  }
  for (const CacheRow* row : rows) out += label(x(*row), kTop + kHeight + 20, "middle", row->name);
  const auto curve = [&](const char* colour, const Times CacheRow::*times) {
    std::string points;
    std::string marks;
    for (const CacheRow* row : rows) {
      const double height = y((row->*times).median());
      points += number(x(*row)) + "," + number(height) + " ";
      marks += "<circle r=\"4\"" + at("cx", x(*row)) + at("cy", height) + " fill=\"" + colour + "\"><title>" +
               number((row->*times).median() * 1e3) + " ms</title></circle>\n";
    }
    out += "<polyline fill=\"none\" stroke-width=\"2\" stroke=\"" + std::string(colour) + "\" points=\"" +
           points + "\"/>\n" + marks;
  };
  curve(kCold, &CacheRow::cold);
  curve(kWarm, &CacheRow::warm);
  return out + label(kLeft + kWidth / 2, kTop + kHeight + 42, "middle", "tokens of the prompt") + "</svg>\n";
}

std::string bars(const std::vector<const CacheRow*>& rows) {
  constexpr double kLeft = 250, kWidth = 400, kRow = 34;
  double most = 0;
  for (const CacheRow* row : rows) most = std::max({most, row->warm.median(), row->cold.median()});
  const double height = kRow * static_cast<double>(rows.size()) + 10;
  std::string out = "<svg viewBox=\"0 0 760 " + number(height) +
                    "\" role=\"img\" aria-label=\"cold and warm by scenario\">\n";
  double top = 5;
  for (const CacheRow* row : rows) {
    out += label(kLeft - 8, top + 18, "end", row->name);
    double bar = top;
    for (const bool warm : {false, true}) {
      const double seconds = (warm ? row->warm : row->cold).median();
      const double width = std::max(1.0, kWidth * seconds / most);
      out += "<rect height=\"12\"" + at("x", kLeft) + at("y", bar) + at("width", width) + " fill=\"" +
             (warm ? kWarm : kCold) + "\"/>\n";
      out += label(kLeft + width + 6, bar + 11, "start", number(seconds * 1e3) + " ms");
      bar += 14;
    }
    top += kRow;
  }
  return out + "</svg>\n";
}

std::string table(const CacheBenchResult& result) {
  std::string out =
      "<table><tr><th></th><th>times</th><th>cold ms</th><th>warm "
      "ms</th><th>sooner</th><th>prompt</th><th>shared</th>"
      "<th>restored</th><th>asked</th><th></th><th>answer</th></tr>\n";
  for (const CacheRow& row : result.rows) {
    out += "<tr><td>" + escaped(row.kind + ": " + row.name) + "</td>";
    if (!row.skipped.empty()) {
      out += "<td colspan=\"10\">skipped: " + escaped(row.skipped) + "</td></tr>\n";
      continue;
    }
    const auto cell = [&](const std::string& text) { out += "<td>" + escaped(text) + "</td>"; };
    cell(std::to_string(row.warm.all.size()));
    cell(number(row.cold.median() * 1e3));
    cell(number(row.warm.median() * 1e3));
    cell(number(row.speedup()) + "x");
    for (const std::uint32_t tokens :
         {row.prompt_tokens, row.shared_tokens, row.restored_tokens, row.asked_tokens}) {
      cell(std::to_string(tokens));
    }
    cell(row.enough() ? "PASS" : "SHORT (" + row.reason + ")");
    cell(row.differences == 0 ? "same" : "DIFFERS");
    out += "</tr>\n";
  }
  return out + "</table>\n";
}

}  // namespace

std::string cache_bench_html(const CacheBenchResult& result) {
  std::string out =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Reprise: the snapshot "
      "cache</title>\n"
      "<style>body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 "
      "1rem;color:#1c2430}"
      "svg{width:100%;height:auto;font:12px system-ui,sans-serif;fill:#1c2430}.grid{stroke:#dde3ec}"
      "table{border-collapse:collapse;font-size:13px}td,th{padding:.2rem .6rem;text-align:right;"
      "border-bottom:1px solid "
      "#dde3ec}td:first-child{text-align:left}.cold{color:#7d8da6}.warm{color:#1668c7}"
      "</style></head><body>\n<h1>Time to the first token</h1>\n";
  out += "<p>" +
         escaped(result.model + " (" + result.architecture + "), " + result.device + ", " +
                 std::to_string(result.threads) + " threads; medians of up to " +
                 std::to_string(result.repeat)) +
         ". <b class=\"cold\">Cold</b> beside <b class=\"warm\">warm</b>.</p>\n";
  if (const auto rows = measured(result, "length"); !rows.empty()) {
    out += "<h2>The next turn, by prompt length</h2>\n" + lines(rows);
  }
  if (const auto rows = measured(result, "raw"); !rows.empty()) out += "<h2>Raw prompts</h2>\n" + bars(rows);
  if (const auto rows = measured(result, "chat"); !rows.empty())
    out += "<h2>Conversations</h2>\n" + bars(rows);
  out += "<h2>Goals</h2>\n<table><tr><th></th><th>asked</th><th>found</th><th></th></tr>\n";
  for (const CacheGoal& goal : cache_goals(result)) {
    out += "<tr><td>" + escaped(goal.name) + "</td><td>" + escaped(goal.asked) + "</td><td>" +
           escaped(goal.found) + "</td><td>" +
           (!goal.certain  ? "UNSURE"
            : goal.reached ? "PASS"
                           : "SHORT") +
           "</td></tr>\n";
  }
  out += "</table>\n<h2>All rows</h2>\n" + table(result);
  for (const std::string& remark : cache_bench_remarks()) out += "<p>" + escaped(remark) + "</p>\n";
  for (const std::string& difference : result.differences) {
    out += "<p><b>Difference:</b> " + escaped(difference) + "</p>\n";
  }
  return out + "</body></html>\n";
}

}  // namespace reprise::tools
