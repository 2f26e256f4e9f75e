#include "models/sampling/ranking.h"

#include <algorithm>
#include <limits>

namespace reprise::models {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::size_t kGrowth = 8;  // each part is this many times larger than the last
constexpr std::size_t kBlock = 32;  // logits that are tested, and mostly skipped, together

bool before(const RankedToken& a, const RankedToken& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

bool any_between(const float* block, float low, float high) {
  unsigned any = 0;
  for (std::size_t i = 0; i < kBlock; ++i) any |= unsigned{block[i] > low} & unsigned{block[i] <= high};
  return any != 0;
}

}  // namespace

Ranking::Ranking(std::span<const float> logits, std::vector<RankedToken>& storage, std::size_t first)
    : logits_(logits), known_(storage), part_(std::max<std::size_t>(first, 1)) {
  known_.clear();
}

void Ranking::extend() {
  const std::size_t known = known_.size();
  const std::size_t wanted = std::min(part_, logits_.size() - known);
  const RankedToken last = known == 0 ? RankedToken{kInfinity, -1} : known_.back();

  // Candidates for the next part are appended to the known tokens. Whenever there are twice as many as
  // needed, the worse half is dropped, and from then on a token must beat the worst that remained. Tokens are
  // scanned by ascending id, so a later equal never beats it.
  float to_beat = -kInfinity;
  const std::size_t full = known + 2 * wanted;
  const auto keep_best = [&] {
    const auto begin = known_.begin() + static_cast<std::ptrdiff_t>(known);
    const auto worst = begin + static_cast<std::ptrdiff_t>(wanted - 1);
    std::nth_element(begin, worst, known_.end(), before);
    to_beat = worst->logit;
    known_.resize(known + wanted);
  };
  const auto consider = [&](std::size_t i) {
    const RankedToken candidate{logits_[i], static_cast<TokenId>(i)};
    if (!(candidate.logit > to_beat) || !before(last, candidate)) return;
    known_.push_back(candidate);
    if (known_.size() == full) keep_best();
  };

  std::size_t i = 0;
  for (; i + kBlock <= logits_.size(); i += kBlock) {
    if (!any_between(&logits_[i], to_beat, last.logit)) continue;
    for (std::size_t j = i; j < i + kBlock; ++j) consider(j);
  }
  for (; i < logits_.size(); ++i) consider(i);

  if (known_.size() > known + wanted) keep_best();
  complete_ = known_.size() < known + wanted || known_.size() == logits_.size();
  std::sort(known_.begin() + static_cast<std::ptrdiff_t>(known), known_.end(), before);
  part_ *= kGrowth;
}

}  // namespace reprise::models
