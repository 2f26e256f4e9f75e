#pragma once
// An HTML report with charts of a benchmark run. Self-contained: no scripts or external resources (its policy
// forbids both).

#include <optional>
#include <string>
#include <vector>

namespace reprise::tools {

class BenchReport {
 public:
  /// Writes to `path`; empty: no report. Throws UsageError if `path` cannot be written.
  explicit BenchReport(std::string path);
  ~BenchReport();  // removes an incomplete file
  BenchReport(const BenchReport&) = delete;
  BenchReport& operator=(const BenchReport&) = delete;

  /// Adds a section; `body` is HTML, `title` and `facts` are plain text.
  void add(const std::string& title, const std::string& facts, const std::string& body);
  /// Throws std::runtime_error.
  void write();

 private:
  std::string unfinished() const { return path_ + ".part"; }

  const std::string path_;
  std::string sections_;
  bool written_ = false;
};

// -- line charts, as inline SVG: `places` on the x axis

struct ReportCurve {
  std::string name;
  std::vector<std::optional<double>> values;  // one per place; nullopt: not measured
};

struct ReportChart {
  std::string title;                // accessible title
  std::string across;               // x axis label
  std::string unit;                 // of the values
  bool by_powers = false;           // logarithmic y axis, values > 0; otherwise the axis starts at 0
  std::optional<double> up_to{};    // top of the y axis, e.g. 100 for percentages; nullopt: from the values
  std::vector<std::string> places;  // x axis categories, evenly spaced
  std::vector<ReportCurve> curves;  // at most kMaxCurves
};
inline constexpr std::size_t kMaxCurves = 6;

/// Returns the chart with a legend; empty if there are no values.
std::string report_chart(const ReportChart& chart);

std::string html_text(const std::string& text);
std::string short_number(double value);
/// Returns a <text> element; `anchor`: "start", "middle" or "end".
std::string svg_label(double x, double y, const char* anchor, const std::string& text);
/// Returns ` name="value"`.
std::string svg_at(const char* name, double value);

}  // namespace reprise::tools
