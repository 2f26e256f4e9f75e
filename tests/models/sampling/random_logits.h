#pragma once
// Reproducible random logits for property tests.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace reprise::models::test {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class RandomLogits {
 public:
  explicit RandomLogits(std::uint64_t seed) : engine_(seed) {}

  /// In [0, n).
  std::size_t below(std::size_t n) { return engine_() % n; }

  /// Multiples of 1/8 between about -8 and 8, so that ties are common in large vectors.
  std::vector<float> make(std::size_t size) {
    std::vector<float> logits(size);
    for (float& logit : logits) {
      int sum = 0;
      for (int i = 0; i < 4; ++i) sum += static_cast<int>(below(33));
      logit = static_cast<float>(sum - 64) / 8;
    }
    return logits;
  }

  /// Like make(), with practically no ties.
  std::vector<float> make_distinct(std::size_t size) {
    std::vector<float> logits = make(size);
    for (float& logit : logits) logit += static_cast<float>(below(1u << 20)) * 0x1p-23f;
    return logits;
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace reprise::models::test
