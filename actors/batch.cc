#include "actors/batch.h"

#include <algorithm>

namespace reprise::actors {
namespace {

using protocol::Priority;

// How much of `wish` tokens from `at` a slice may take: up to its stop, or else to a place on the grid.
std::uint32_t slice_length(const Runnable& prefill, std::uint32_t wish, std::uint32_t grid) {
  const std::uint32_t left = prefill.stop_at - prefill.at;
  if (wish >= left) return left;
  const std::uint32_t end = (prefill.at + wish) / grid * grid;
  return end > prefill.at ? end - prefill.at : 0;
}

std::vector<Runnable> chosen(std::span<const Runnable> runnable, bool decodes, Priority priority) {
  std::vector<Runnable> result;
  for (const Runnable& one : runnable) {
    if (one.decodes == decodes && one.priority == priority) result.push_back(one);
  }
  return result;
}

void add_prefills(std::vector<Runnable> prefills, std::uint32_t tokens, std::uint32_t grid,
                  std::vector<BatchSlice>& batch) {
  if (prefills.empty()) return;
  std::sort(prefills.begin(), prefills.end(),
            [](const Runnable& a, const Runnable& b) { return a.order < b.order; });
  tokens = std::max(tokens, grid);
  std::vector<std::uint32_t> taken(prefills.size());
  std::uint32_t left = tokens;
  for (std::size_t i = 0; i < prefills.size() && left > 0; ++i) {
    const bool oldest_of_many = i == 0 && prefills.size() > 1;
    const std::uint32_t wish = oldest_of_many ? std::max((left + 1) / 2, grid) : left;
    taken[i] = slice_length(prefills[i], std::min(wish, left), grid);
    left -= taken[i];
  }
  // What is left over goes to the oldest.
  Runnable rest = prefills.front();
  rest.at += taken[0];
  taken[0] += slice_length(rest, left, grid);
  for (std::size_t i = 0; i < prefills.size(); ++i) {
    if (taken[i] > 0) batch.push_back({.key = prefills[i].key, .decodes = false, .tokens = taken[i]});
  }
}

}  // namespace

std::vector<BatchSlice> plan_batch(std::span<const Runnable> runnable, const BatchLimits& limits) {
  std::vector<BatchSlice> batch;
  std::vector<Runnable> decoders = chosen(runnable, true, Priority::kNormal);
  std::stable_sort(decoders.begin(), decoders.end(),
                   [](const Runnable& a, const Runnable& b) { return a.last_step < b.last_step; });
  if (decoders.size() > limits.rows) decoders.resize(limits.rows);
  for (const Runnable& one : decoders) batch.push_back({.key = one.key, .decodes = true, .tokens = 1});
  add_prefills(chosen(runnable, false, Priority::kNormal),
               batch.empty() ? limits.tokens : limits.tokens_beside, limits.grid, batch);
  if (!batch.empty()) return batch;
  for (const Runnable& one : chosen(runnable, true, Priority::kIdle)) {
    batch.push_back({.key = one.key, .decodes = true, .tokens = 1});
  }
  add_prefills(chosen(runnable, false, Priority::kIdle), limits.idle_tokens, limits.grid, batch);
  return batch;
}

}  // namespace reprise::actors
