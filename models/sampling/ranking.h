#pragma once
// Logits in rank order: higher logits first, equal ones by ascending token id. The order is found only as far
// as somebody looks, because of a vocabulary of 250,000 tokens a sampler mostly wants the first few dozen.
//
// What is no number has no rank: NaN and -infinity are left out.
//
// Each look past the known end scans all logits once for the next, larger part of the order and sorts that
// part alone.
//
// Threading: one thread. The logits must outlive the ranking and stay as they are.

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
  /// `storage` holds the known part and is overwritten; keep it for the next ranking, to save allocating.
  /// The first look finds the best `first` tokens; name the number if it is known.
  Ranking(std::span<const float> logits, std::vector<RankedToken>& storage, std::size_t first = 64);

  /// The token of this rank, from 0; null past the last. Valid until the next call.
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
