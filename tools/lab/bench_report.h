#pragma once
// BenchReport: what the benchmarks of one run have found, as one HTML page with drawings. The page needs nothing but
// itself: no script, and nothing that is loaded from elsewhere (it forbids both to the browser).
//
// Threading: one thread.

#include <string>

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

}  // namespace reprise::tools
