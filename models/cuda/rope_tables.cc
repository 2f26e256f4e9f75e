#include "models/cuda/rope_tables.h"

#include <algorithm>

namespace reprise::models::cuda {

std::size_t RopeTables::add(const std::shared_ptr<const RopeConfig>& rope, WeightStore& weights) {
  const auto found =
      std::find_if(ropes_.begin(), ropes_.end(), [&](const Rope& known) { return known.config == rope; });
  const auto index = static_cast<std::size_t>(found - ropes_.begin());
  if (found == ropes_.end()) ropes_.push_back({.config = rope, .inv_freq = weights.vector(rope->inv_freq)});
  return index;
}

std::size_t RopeTables::workspace(int rows) const {
  std::size_t bytes = 0;
  for (const Rope& rope : ropes_) {
    bytes += 2 * Workspace::rounded(static_cast<std::size_t>(rows) * rope.pairs() * sizeof(float));
  }
  return bytes;
}

std::vector<RopeTable> RopeTables::take(Workspace& workspace, int rows) const {
  std::vector<RopeTable> tables;
  for (const Rope& rope : ropes_) {
    const std::size_t angles = static_cast<std::size_t>(rows) * rope.pairs();
    tables.push_back({.cosine = workspace.take<float>(angles), .sine = workspace.take<float>(angles)});
  }
  return tables;
}

void RopeTables::make(const gc::Batch& batch, std::span<const RopeTable> tables, std::size_t first,
                      gc::StreamHandle stream) const {
  for (std::size_t i = first; i < ropes_.size(); ++i) {
    gc::rope_table(rows_of(batch, tables, i), batch.rows, stream);
  }
}

gc::RopeRows RopeTables::rows_of(const gc::Batch& batch, std::span<const RopeTable> tables,
                                 std::size_t index) const {
  if (index >= ropes_.size()) return {};
  const Rope& rope = ropes_[index];
  return {.positions = batch.positions,
          .inv_freq = rope.inv_freq,
          .pairs = static_cast<int>(rope.pairs()),
          .factor = rope.config->attention_factor,
          .cosine = tables[index].cosine,
          .sine = tables[index].sine};
}

}  // namespace reprise::models::cuda
