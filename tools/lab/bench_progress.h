#pragma once
// How far a long benchmark is: a bar where stderr is a terminal, a line for each step elsewhere.
//
// Threading: one thread.

#include <cstdint>
#include <cstdio>
#include <string>

#include "tools/reprise/progress.h"

namespace reprise::tools {

class BenchProgress {
 public:
  BenchProgress(std::string part, std::uint64_t steps)
      : part_(std::move(part)), steps_(steps), bar_(part_.c_str()) {}

  /// The next step begins.
  void next(const std::string& step) {
    if (!bar_.is_shown()) std::fprintf(stderr, "reprise: %s: %s\n", part_.c_str(), step.c_str());
    advance();
  }
  /// The same of many small steps, which have no lines.
  void advance() { bar_.show(done_++, steps_); }

 private:
  const std::string part_;
  const std::uint64_t steps_;
  std::uint64_t done_ = 0;
  ProgressBar bar_;
};

}  // namespace reprise::tools
