#pragma once
// A bar on stderr while something takes long, where stderr is a terminal; nothing elsewhere.
//
// Threading: one thread.

#include <cstdint>

namespace reprise::tools {

class ProgressBar {
 public:
  explicit ProgressBar(const char* label);
  ~ProgressBar();  // takes the bar away

  void show(std::uint64_t done, std::uint64_t total);
  /// Whether there is somebody to see it.
  bool is_shown() const { return terminal_; }

 private:
  const char* label_;
  bool terminal_;
  int shown_ = -1;  // percent
};

}  // namespace reprise::tools
