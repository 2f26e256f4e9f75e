#pragma once
// Logits in rank order: descending, equal ones by ascending token id; NaN and -infinity are left out.
//
// Sorts lazily, because a sampler mostly needs the first few dozen of 250,000 tokens: an access past the
// known part scans all logits once for the next, larger part and sorts that part alone.
//
// Not thread-safe. The logits must outlive the ranking, unchanged.

#include <cstddef>
#include <span>
#include <vector>

#include "base/sampling.h"

namespace reprise::models {

struct RankedToken {
  float logit;
  TokenId token;
};

class Ranking {
 public:
  /// `storage` is overwritten with the known part; reuse it across rankings to avoid allocations. The first
  /// access finds the best `first` tokens.
  Ranking(std::span<const float> logits, std::vector<RankedToken>& storage, std::size_t first = 64);

  /// Returns the token of this rank, from 0, or null past the last. The pointer is valid until the next call.
  const RankedToken* at(std::size_t rank) {
    while (rank >= known_.size()) {
      if (complete_) return nullptr;
      extend();
    }
    return &known_[rank];
  }

 private:
  void extend();

  std::span<const float> logits_;
  std::vector<RankedToken>& known_;
  std::size_t part_;  // tokens that the next extend() adds
  bool complete_ = false;
};

}  // namespace reprise::models
