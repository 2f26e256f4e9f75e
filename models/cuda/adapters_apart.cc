// Decoded rows with an adapter and rows without, one group after the other (CudaModel::mixes).

#include <algorithm>
#include <array>

#include "models/cuda/model.h"

namespace reprise::models::cuda {
namespace {

/// Places of slices: those without an adapter, those with one.
std::array<std::vector<std::size_t>, 2> groups_of(std::span<const Slice> slices) {
  std::array<std::vector<std::size_t>, 2> groups;
  for (std::size_t i = 0; i < slices.size(); ++i) groups[slices[i].adapter != 0 ? 1 : 0].push_back(i);
  return groups;
}

/// Rows of groups that come in the order of groups, to be read in that of slices.
class RowsByPlace {
 public:
  explicit RowsByPlace(std::size_t slices) : rows_(slices) {}

  void put(std::size_t place, std::span<const float> row) { rows_[place].assign(row.begin(), row.end()); }
  /// Those that were put, one after another.
  void move_to(std::vector<float>& all) const {
    all.clear();
    for (const std::vector<float>& row : rows_) all.insert(all.end(), row.begin(), row.end());
  }

 private:
  std::vector<std::vector<float>> rows_;
};

}  // namespace

bool CudaModel::mixes(std::span<const Slice> slices) const {
  const auto has_adapter = [](const Slice& slice) { return slice.adapter != 0; };
  return leaves_rows_ && std::any_of(slices.begin(), slices.end(), has_adapter) &&
         !std::all_of(slices.begin(), slices.end(), has_adapter);
}

std::span<const float> CudaModel::forward_apart(std::span<const Slice> slices) {
  const std::size_t vocab = config().vocab;
  RowsByPlace rows(slices.size());
  for (const std::vector<std::size_t>& group : groups_of(slices)) {
    std::vector<Slice> some;
    for (const std::size_t place : group) some.push_back(slices[place]);
    std::span<const float> logits = forward(some, Phase::kDecode);
    for (const std::size_t place : group) {
      if (slices[place].logits == Slice::Logits::kNone) continue;
      rows.put(place, logits.first(vocab));
      logits = logits.subspan(vocab);
    }
  }
  rows.move_to(apart_);
  return apart_;
}

void CudaModel::decode_apart(DecodePass& pass) {
  const std::size_t vocab = config().vocab;
  RowsByPlace rows(pass.slices.size());
  pass.drawn.assign(pass.slices.size(), std::nullopt);
  for (const std::vector<std::size_t>& group : groups_of(pass.slices)) {
    DecodePass some;
    for (const std::size_t place : group) {
      some.slices.push_back(pass.slices[place]);
      some.plans.push_back(pass.plans[place]);
    }
    decode(some);
    std::span<const float> logits = some.logits;
    for (std::size_t i = 0; i < group.size(); ++i) {
      const std::size_t place = group[i];
      pass.plans[place] = some.plans[i];
      pass.drawn[place] = some.drawn[i];
      if (some.drawn[i]) continue;
      rows.put(place, logits.first(vocab));
      logits = logits.subspan(vocab);
    }
  }
  rows.move_to(apart_);
  pass.logits = apart_;
}

}  // namespace reprise::models::cuda
