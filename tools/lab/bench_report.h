#pragma once
// A report of benchmarks: one HTML page with drawings of what those of one run have found. The page needs nothing but itself:
// no script, and nothing that is loaded from elsewhere (it forbids both to the browser).
//
// Threading: one thread.

#include <optional>
#include <string>
#include <vector>

namespace reprise::tools {

class BenchReport {
 public:
  /// Will be written to `path`; empty: nowhere. Throws UsageError at once if it cannot be.
  explicit BenchReport(std::string path);
  ~BenchReport();  // leaves nothing behind that is not whole
  BenchReport(const BenchReport&) = delete;
  BenchReport& operator=(const BenchReport&) = delete;

  /// HTML from a benchmark; `title` and `facts` are plain text.
  void add(const std::string& title, const std::string& facts, const std::string& body);
  /// Throws std::runtime_error.
  void write();

 private:
  std::string unfinished() const { return path_ + ".part"; }

  const std::string path_;
  std::string sections_;
  bool written_ = false;
};

// -- curves, as SVG that is part of the page: places across, values up

struct ReportCurve {
  std::string name;
  std::vector<std::optional<double>> values;  // one for each place; nothing: not measured
};

struct ReportChart {
  std::string title;                // for who cannot see it
  std::string across;               // what the places are
  std::string unit;                 // of the values
  bool by_powers = false;           // of ten, up; values are then above 0. Else from 0
  std::optional<double> up_to{};    // the top, where it is known: 100 of percents
  std::vector<std::string> places;  // in their order, at equal distances
  std::vector<ReportCurve> curves;  // at most kMostCurves
};
inline constexpr std::size_t kMostCurves = 6;

/// With a legend. Nothing where nothing was measured.
std::string report_chart(const ReportChart& chart);

/// For text between tags and in attributes.
std::string html_text(const std::string& text);
/// With as many digits as a reader wants.
std::string short_number(double value);
/// <text>, at a place of a drawing; `anchor`: "start", "middle" or "end".
std::string svg_label(double x, double y, const char* anchor, const std::string& text);
/// ` name="value"`.
std::string svg_at(const char* name, double value);

}  // namespace reprise::tools
