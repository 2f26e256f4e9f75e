#include "models/cuda/waves.h"

#include <algorithm>

#include "gpu/cuda/batch.h"

namespace reprise::models::cuda {

Waves::Waves(const Slice& slice, std::size_t ahead) : slice_(slice), ahead_(ahead) {
  for (SlotExport wanted : slice.exports) {
    if (wanted.after < ahead) {
      early_.push_back(wanted);
    } else {
      wanted.after -= static_cast<std::uint32_t>(ahead);
      late_.push_back(wanted);
    }
  }
}

std::optional<Waves> Waves::of(std::span<const Slice> slices) {
  if (slices.size() != 1) return std::nullopt;
  const Slice& slice = slices.front();
  const std::size_t rows = slice.tokens.size();
  if (rows < kLeastRows || rows > kMostRows || slice.adapter != 0 || slice.tail != nullptr)
    return std::nullopt;
  const std::size_t ahead = (rows / 2 + gpu::cuda::kGrid - 1) / gpu::cuda::kGrid * gpu::cuda::kGrid;
  const bool meets = std::any_of(slice.exports.begin(), slice.exports.end(),
                                 [&](const SlotExport& wanted) { return wanted.after == ahead; });
  if (meets) return std::nullopt;
  return Waves(slice, ahead);
}

Slice Waves::first() const {
  Slice out = slice_;
  out.tokens = slice_.tokens.first(ahead_);
  if (out.logits == Slice::Logits::kLast) out.logits = Slice::Logits::kNone;
  out.exports = early_;
  out.plan = nullptr;
  out.drawn = nullptr;
  return out;
}

Slice Waves::second() const {
  Slice out = slice_;
  out.tokens = slice_.tokens.subspan(ahead_);
  out.exports = late_;
  return out;
}

}  // namespace reprise::models::cuda
