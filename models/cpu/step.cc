#include "models/cpu/step.h"

#include <algorithm>
#include <cmath>

namespace reprise::models::cpu {

std::size_t RopeTables::add(const std::shared_ptr<const RopeConfig>& rope) {
  const auto found = std::find(ropes_.begin(), ropes_.end(), rope);
  const auto index = static_cast<std::size_t>(found - ropes_.begin());
  if (found == ropes_.end()) ropes_.push_back(rope);
  return index;
}

void RopeTables::make(Step& step, std::span<const std::size_t> positions) const {
  for (const auto& rope : ropes_) {
    const std::vector<float>& inv_freq = rope->inv_freq;
    const float factor = rope->attention_factor;
    const std::size_t pairs = inv_freq.size();
    float* cosine = step.scratch.floats(positions.size() * pairs);
    float* sine = step.scratch.floats(positions.size() * pairs);
    for (std::size_t row = 0; row < positions.size(); ++row) {
      const auto position = static_cast<float>(positions[row]);
      for (std::size_t pair = 0; pair < pairs; ++pair) {
        const float angle = position * inv_freq[pair];
        cosine[row * pairs + pair] = std::cos(angle) * factor;
        sine[row * pairs + pair] = std::sin(angle) * factor;
      }
    }
    step.ropes.push_back({.cosine = cosine, .sine = sine});
  }
}

}  // namespace reprise::models::cpu
