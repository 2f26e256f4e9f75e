#include "actors/device/batch.h"

#include <algorithm>

namespace reprise::actors {
namespace {

using protocol::Priority;

// Returns how many of `wanted` tokens a slice may take: up to its stop, else up to a multiple of the grid.
std::uint32_t slice_length(const Runnable& prefill, std::uint32_t wanted, std::uint32_t grid) {
  const std::uint32_t left = prefill.stop_at - prefill.at;
  if (wanted >= left) return left;
  const std::uint32_t end = (prefill.at + wanted) / grid * grid;
  return end > prefill.at ? end - prefill.at : 0;
}

std::vector<Runnable> chosen(std::span<const Runnable> runnable, bool decodes, bool idle) {
  std::vector<Runnable> result;
  for (const Runnable& one : runnable) {
    if (one.decodes == decodes && (one.priority == Priority::kIdle) == idle) result.push_back(one);
  }
  return result;
}

// Puts the oldest first and sorts the others by priority, then by tokens left.
void sort_prefills(std::vector<Runnable>& prefills) {
  const auto older = [](const Runnable& a, const Runnable& b) { return a.order < b.order; };
  std::iter_swap(prefills.begin(), std::min_element(prefills.begin(), prefills.end(), older));
  const auto before = [](const Runnable& a, const Runnable& b) {
    if (a.priority != b.priority) return a.priority > b.priority;
    const std::uint32_t left_a = a.end - a.at;
    const std::uint32_t left_b = b.end - b.at;
    return left_a != left_b ? left_a < left_b : a.order < b.order;
  };
  std::sort(prefills.begin() + 1, prefills.end(), before);
}

void add_prefills(std::vector<Runnable> prefills, std::uint32_t tokens, std::uint32_t grid,
                  std::uint64_t step, std::vector<BatchSlice>& batch) {
  if (prefills.empty()) return;
  sort_prefills(prefills);
  tokens = std::max(tokens, grid);
  if (tokens < 2 * grid && prefills.size() > 1) {  // too few tokens to split
    if (prefills[0].last_step != 0 && prefills[0].last_step + 1 == step) std::swap(prefills[0], prefills[1]);
    prefills.resize(1);
  }
  std::vector<std::uint32_t> taken(prefills.size());
  std::uint32_t left = tokens;
  for (std::size_t i = 0; i < prefills.size() && left > 0; ++i) {
    const bool oldest_of_many = i == 0 && prefills.size() > 1;
    const std::uint32_t wanted = oldest_of_many ? std::max((left + 1) / 2, grid) : left;
    taken[i] = slice_length(prefills[i], std::min(wanted, left), grid);
    left -= taken[i];
  }
  Runnable rest = prefills.front();
  rest.at += taken[0];
  taken[0] += slice_length(rest, left, grid);
  for (std::size_t i = 0; i < prefills.size(); ++i) {
    if (taken[i] > 0) batch.push_back({.key = prefills[i].key, .decodes = false, .tokens = taken[i]});
  }
}

// Returns true if the prefills of this step are put off to the next, where more of them may share it.
bool are_gathered(std::span<const Runnable> prefills, std::size_t decoders, const BatchLimits& limits,
                  std::uint64_t step) {
  // If only one slice fits, prefills alternate by step parity already.
  if (limits.gather_from == 0 || decoders < limits.gather_from ||
      limits.tokens_with_decoding < 2 * limits.grid) {
    return false;
  }
  std::uint64_t left = 0;
  for (const Runnable& one : prefills) {
    if (one.priority == Priority::kHigh) return false;
    left += one.end - one.at;
  }
  return left < limits.tokens_with_decoding && step % 2 == 1;
}

}  // namespace

std::vector<BatchSlice> plan_batch(std::span<const Runnable> runnable, const BatchLimits& limits,
                                   std::uint64_t step) {
  std::vector<BatchSlice> batch;
  std::vector<Runnable> decoders = chosen(runnable, true, false);
  std::stable_sort(decoders.begin(), decoders.end(),
                   [](const Runnable& a, const Runnable& b) { return a.last_step < b.last_step; });
  if (decoders.size() > limits.rows) decoders.resize(limits.rows);
  for (const Runnable& one : decoders) batch.push_back({.key = one.key, .decodes = true, .tokens = 1});
  std::vector<Runnable> prefills = chosen(runnable, false, false);
  if (are_gathered(prefills, decoders.size(), limits, step)) prefills.clear();
  add_prefills(std::move(prefills), batch.empty() ? limits.tokens : limits.tokens_with_decoding, limits.grid,
               step, batch);
  if (!batch.empty() || !limits.idle_work) return batch;
  for (const Runnable& one : chosen(runnable, true, true)) {
    batch.push_back({.key = one.key, .decodes = true, .tokens = 1});
  }
  add_prefills(chosen(runnable, false, true), limits.idle_tokens, limits.grid, step, batch);
  return batch;
}

}  // namespace reprise::actors
