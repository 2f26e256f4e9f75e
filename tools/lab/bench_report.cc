#include "tools/lab/bench_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "base/check.h"
#include "tools/reprise/engine_flags.h"

namespace reprise::tools {
namespace {

constexpr const char* kHead =
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
    "'unsafe-inline'\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>Reprise, "
    "measured</title>\n"
    "<style>body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;"
    "color:#1c2430;background:#fff}figure{margin:0}figcaption{font-size:13px}"
    "svg{width:100%;height:auto;font:12px system-ui,sans-serif;fill:#1c2430}.grid{stroke:#dde3ec}"
    ".wide{overflow-x:auto}table{border-collapse:collapse;font-size:13px}"
    "td,th{padding:.2rem .6rem;text-align:right;border-bottom:1px solid #dde3ec}"
    "td:first-child{text-align:left}</style></head><body>\n";

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &parts);
  return text;
}

constexpr double kLeft = 90, kWidth = 600, kTop = 20, kHeight = 260;
// Each mark has a tooltip with its curve's name, so that color is not the only distinction.
constexpr const char* kCurveColors[kMaxCurves] = {"#8a97ab", "#1668c7", "#b5471b",
                                                  "#2b7a3d", "#7a3fa8", "#8a6d00"};

/// Returns the values of the horizontal grid lines; the first and last bound the scale.
std::vector<double> ticks_of(const ReportChart& chart, double least, double most) {
  std::vector<double> ticks;
  if (chart.by_powers) {
    const double low = std::floor(std::log10(least));
    const double high = std::max(low + 1, std::ceil(std::log10(most)));
    for (double power = low; power <= high; ++power) ticks.push_back(std::pow(10, power));
    return ticks;
  }
  const double top = chart.up_to.value_or(most > 0 ? most : 1);
  const double power = std::pow(10, std::floor(std::log10(top)));
  double step = power / 5;
  for (const double wider : {power / 2, power, 2 * power}) {
    if (top / step > 6) step = wider;
  }
  ticks.push_back(0);
  while (ticks.back() < top - step * 1e-9) ticks.push_back(ticks.back() + step);
  return ticks;
}

}  // namespace

BenchReport::BenchReport(std::string path) : path_(std::move(path)) {
  if (path_.empty()) return;
  std::error_code ignored;
  if (std::filesystem::is_directory(path_, ignored)) throw UsageError("--report: " + path_ + " is a folder");
  if (!std::ofstream(unfinished())) throw UsageError("--report: cannot write " + path_);
}

BenchReport::~BenchReport() {
  if (!path_.empty() && !written_) std::remove(unfinished().c_str());
}

void BenchReport::add(const std::string& title, const std::string& facts, const std::string& body) {
  sections_ += "<h1>" + html_text(title) + "</h1>\n<p>" + html_text(facts) + "</p>\n" + body;
}

void BenchReport::write() {
  if (path_.empty()) return;
  std::ofstream file(unfinished(), std::ios::binary | std::ios::trunc);
  file << kHead << sections_ << "<p>Measured by reprise bench, " << today() << ".</p>\n</body></html>\n";
  file.close();
  std::error_code failed;
  if (file) std::filesystem::rename(unfinished(), path_, failed);
  if (!file || failed) throw std::runtime_error("cannot write " + path_);
  written_ = true;
}

std::string html_text(const std::string& text) {
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

std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, value < 10 ? "%.2f" : value < 1000 ? "%.1f" : "%.0f", value);
  return text;
}

std::string svg_at(const char* name, double value) {
  return std::string(" ") + name + "=\"" + short_number(value) + "\"";
}

std::string svg_label(double x, double y, const char* anchor, const std::string& text) {
  return "<text" + svg_at("x", x) + svg_at("y", y) + " text-anchor=\"" + anchor + "\">" + html_text(text) +
         "</text>\n";
}

std::string report_chart(const ReportChart& chart) {
  REPRISE_CHECK(chart.curves.size() <= kMaxCurves, "the chart has too many curves");
  double least = INFINITY, most = -INFINITY;
  for (const ReportCurve& curve : chart.curves) {
    REPRISE_CHECK(curve.values.size() == chart.places.size(),
                  "a curve does not have one value for each position");
    for (const std::optional<double>& value : curve.values) {
      if (!value) continue;
      least = std::min(least, *value);
      most = std::max(most, *value);
    }
  }
  if (!(most >= least) || (chart.by_powers && least <= 0)) return {};
  const std::vector<double> ticks = ticks_of(chart, least, most);
  const auto scaled = [&](double value) { return chart.by_powers ? std::log10(value) : value; };
  const double low = scaled(ticks.front()), high = scaled(ticks.back());
  const auto y = [&](double value) { return kTop + kHeight * (high - scaled(value)) / (high - low); };
  const double gaps = std::max<double>(1, static_cast<double>(chart.places.size()) - 1);
  const auto x = [&](std::size_t place) { return kLeft + kWidth * static_cast<double>(place) / gaps; };

  std::string out =
      "<figure><svg viewBox=\"0 0 760 330\" role=\"img\" aria-label=\"" + html_text(chart.title) + "\">\n";
  for (const double tick : ticks) {
    out += "<line class=\"grid\"" + svg_at("x1", kLeft) + svg_at("x2", kLeft + kWidth) +
           svg_at("y1", y(tick)) + svg_at("y2", y(tick)) + "/>\n";
    char value[32];
    std::snprintf(value, sizeof value, "%g", tick);
    out += svg_label(kLeft - 8, y(tick) + 4, "end", value + (" " + chart.unit));
  }
  for (std::size_t place = 0; place < chart.places.size(); ++place) {
    out += svg_label(x(place), kTop + kHeight + 20, "middle", chart.places[place]);
  }
  std::string legend;
  for (std::size_t i = 0; i < chart.curves.size(); ++i) {
    const ReportCurve& curve = chart.curves[i];
    const std::string color = kCurveColors[i];
    std::string points, marks;
    for (std::size_t place = 0; place < curve.values.size(); ++place) {
      if (!curve.values[place]) continue;
      const double value = *curve.values[place];
      points += short_number(x(place)) + "," + short_number(y(value)) + " ";
      marks +=
          "<circle r=\"4\"" + svg_at("cx", x(place)) + svg_at("cy", y(value)) + " fill=\"" + color +
          "\"><title>" +
          html_text(curve.name + ", " + chart.places[place] + ": " + short_number(value) + " " + chart.unit) +
          "</title></circle>\n";
    }
    out += "<polyline fill=\"none\" stroke-width=\"2\" stroke=\"" + color + "\" points=\"" + points +
           "\"/>\n" + marks;
    legend += "<span style=\"color:" + color + "\">&#9679; " + html_text(curve.name) + "</span> ";
  }
  out += svg_label(kLeft + kWidth / 2, kTop + kHeight + 42, "middle", chart.across) + "</svg>\n";
  return out + "<figcaption>" + legend + "</figcaption></figure>\n";
}

}  // namespace reprise::tools
