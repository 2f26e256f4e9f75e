#include "models/cpu/expert_rows.h"

#include <cstring>

namespace reprise::models {

ExpertRows::ExpertRows(std::span<const std::uint32_t> chosen, std::size_t per_row, std::size_t experts)
    : per_row_(per_row), row_at_(chosen.size()), place_of_(chosen.size()) {
  std::vector<std::uint32_t> next(experts, 0);  // counts, then the next place of each expert
  for (const std::uint32_t expert : chosen) ++next[expert];
  std::uint32_t first = 0;
  for (std::size_t expert = 0; expert < experts; ++expert) {
    const std::uint32_t count = next[expert];
    if (count != 0) runs_.push_back({.expert = expert, .first = first, .count = count});
    next[expert] = first;
    first += count;
  }
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const std::uint32_t place = next[chosen[i]]++;
    row_at_[place] = static_cast<std::uint32_t>(i / per_row);
    place_of_[i] = place;
  }
}

std::size_t row_bytes_of(const gpu::ActivationForm& form, std::size_t columns) {
  return form.row_bytes == nullptr ? columns * sizeof(float) : form.row_bytes(columns);
}

const void* GatheredInput::of(const ExpertRows::Run& run, const gpu::ActivationForm& form, Step& step) {
  const auto* all = static_cast<const std::byte*>(input_.as(form, step, columns_));
  const std::size_t row_bytes = row_bytes_of(form, columns_);
  if (rows_.is_consecutive(run)) return all + rows_.row_at()[run.first] * row_bytes;
  return gathered(form, all, row_bytes, step) + run.first * row_bytes;
}

const std::byte* GatheredInput::gathered(const gpu::ActivationForm& form, const std::byte* from,
                                         std::size_t row_bytes, Step& step) {
  for (const auto& [known, rows] : gathered_) {
    if (known == &form) return rows;
  }
  std::byte* to = step.scratch.bytes(rows_.places() * row_bytes);
  step.threads.for_ranges(rows_.places(), 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t place = begin; place < end; ++place) {
      std::memcpy(to + place * row_bytes, from + rows_.row_at()[place] * row_bytes, row_bytes);
    }
  });
  gathered_.emplace_back(&form, to);
  return to;
}

}  // namespace reprise::models
