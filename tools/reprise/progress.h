#pragma once
// A progress bar on stderr, if stderr is a terminal.

#include <cstdint>

namespace reprise::tools {

class ProgressBar {
 public:
  explicit ProgressBar(const char* label);
  ~ProgressBar();  // erases the bar

  void show(std::uint64_t done, std::uint64_t total);
  /// Returns whether stderr is a terminal.
  bool is_shown() const { return terminal_; }

 private:
  const char* label_;
  bool terminal_;
  int shown_ = -1;  // percent
};

}  // namespace reprise::tools
