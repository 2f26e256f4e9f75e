#include "tools/reprise/progress.h"

#include <unistd.h>

#include <cstdio>
#include <string>

namespace reprise::tools {

namespace {
constexpr int kWidth = 40;
}

ProgressBar::ProgressBar(const char* label) : label_(label), terminal_(isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  if (shown_ >= 0) std::fputs("\r\033[K", stderr);
}

void ProgressBar::show(std::uint64_t done, std::uint64_t total) {
  if (!terminal_ || total == 0) return;
  const int percent = static_cast<int>(done * 100 / total);
  if (percent == shown_) return;
  shown_ = percent;
  const std::string filled(static_cast<std::size_t>(percent * kWidth / 100), '#');
  std::fprintf(stderr, "\r%s [%-*s] %3d%%", label_, kWidth, filled.c_str(), percent);
  std::fflush(stderr);
}

}  // namespace reprise::tools
