#include "actors/cache/checkpoint_plan.h"

#include <algorithm>
#include <map>

namespace reprise::actors {

using protocol::Origin;

std::vector<std::uint32_t> spaced_positions(std::uint32_t end, const CheckpointRules& rules) {
  std::vector<std::uint32_t> positions;
  for (std::uint64_t at = rules.spaced_from; at < end; at = (at * 4 + 2) / 3) {
    positions.push_back(static_cast<std::uint32_t>(at));
  }
  if (rules.max_spaced == 0) return {};
  const std::size_t step = (positions.size() + rules.max_spaced - 1) / rules.max_spaced;
  if (step > 1) {
    std::vector<std::uint32_t> fewer;
    for (std::size_t i = (positions.size() - 1) % step; i < positions.size(); i += step)
      fewer.push_back(positions[i]);
    positions = std::move(fewer);
  }
  return positions;
}

std::vector<PlannedCheckpoint> plan_checkpoints(std::span<const TokenId> prompt,
                                                const protocol::MessageBorders& borders,
                                                std::uint32_t restored, std::optional<std::uint32_t> branch,
                                                std::span<const std::uint32_t> wanted,
                                                const CheckpointRules& rules,
                                                std::span<const BreakpointPosition> breakpoints) {
  if (prompt.size() < 2) return {};
  const auto last = static_cast<std::uint32_t>(prompt.size() - 1);
  struct Reason {
    Origin origin;
    std::chrono::seconds ttl;
  };
  std::map<std::uint32_t, Reason> positions;
  // The first reason for a position wins, so those with the longest life come first.
  const auto add_one = [&](CheckpointRules::Candidate one, std::chrono::seconds ttl = {}) {
    one.at = std::min(one.at, last);
    const std::uint32_t at = one.at / rules.grid * rules.grid;
    if (rules.plans(one) && at > restored) positions.emplace(at, Reason{one.origin, ttl});
  };
  const auto add = [&](std::optional<std::uint32_t> position, Origin origin) {
    if (position) add_one({.origin = origin, .at = *position});
  };
  add(borders.first_user, Origin::kSystem);
  add(borders.last_user, Origin::kLastUser);
  add(branch, Origin::kBranch);
  for (const std::uint32_t position : wanted) {
    add_one({.origin = Origin::kBranch, .at = position, .is_awaited = true});
  }
  for (const std::uint32_t position : spaced_positions(last, rules)) add(position, Origin::kSpaced);
  add(borders.last_opener, borders.after_tool ? Origin::kTool : Origin::kHistory);
  add(borders.after_last_user, Origin::kHistory);
  for (const BreakpointPosition& one : breakpoints) {
    if (one.is_block) add(one.at, Origin::kHistory);
  }
  add_one({.origin = Origin::kPromptEnd,
           .at = rules.any_token ? last : std::min(last, rules.max_restored),
           .is_end = true});
  std::vector<BreakpointPosition> by_life(breakpoints.begin(), breakpoints.end());
  std::stable_sort(by_life.begin(), by_life.end(),
                   [](const auto& a, const auto& b) { return a.ttl > b.ttl; });
  for (const BreakpointPosition& one : by_life) {
    if (!one.is_block) add_one({.origin = Origin::kBreakpoint, .at = one.at}, one.ttl);
  }
  std::vector<PlannedCheckpoint> plan;
  for (const auto& [at, why] : positions) plan.push_back({at, why.origin, why.ttl});
  return plan;
}

std::vector<PlannedCheckpoint> reply_positions(std::uint32_t restored, std::uint32_t end,
                                               const CheckpointRules& rules) {
  std::vector<PlannedCheckpoint> positions;
  if (rules.reply_every == 0 || rules.max_in_reply == 0 || end <= restored) return positions;
  const std::uint32_t wide = std::max(rules.reply_every, (end - restored) / rules.max_in_reply);
  const std::uint32_t step = (wide + rules.grid - 1) / rules.grid * rules.grid;
  for (std::uint32_t at = restored / rules.grid * rules.grid + step; at < end; at += step) {
    if (rules.plans({.origin = Origin::kReply, .at = at}) && positions.size() < rules.max_in_reply)
      positions.push_back({.at = at, .origin = Origin::kReply});
  }
  return positions;
}

}  // namespace reprise::actors
