#pragma once
// What the benchmarks do with the times of their repetitions.
//
// Threading: plain values.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <vector>

namespace reprise::tools {

/// Seconds of every repetition. median() and spread() need at least one.
struct Times {
  std::vector<double> all{};

  bool empty() const { return all.empty(); }
  double median() const {
    std::vector<double> sorted = all;
    std::sort(sorted.begin(), sorted.end());
    const std::size_t half = sorted.size() / 2;
    return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
  }
  /// Slowest minus fastest, as a share of the median.
  double spread() const {
    const auto [least, most] = std::minmax_element(all.begin(), all.end());
    return (*most - *least) / median();
  }
};

inline double seconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace reprise::tools
