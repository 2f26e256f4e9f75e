#include "actors/cache/checkpoint_plan.h"

#include <algorithm>
#include <map>

namespace reprise::actors {

using protocol::Origin;

std::vector<std::uint32_t> spaced_places(std::uint32_t end, const PlanRules& rules) {
  std::vector<std::uint32_t> places;
  for (std::uint64_t at = rules.spaced_from; at < end; at = (at * 4 + 2) / 3) {
    places.push_back(static_cast<std::uint32_t>(at));
  }
  if (rules.max_spaced == 0) return {};
  const std::size_t step = (places.size() + rules.max_spaced - 1) / rules.max_spaced;
  if (step > 1) {
    std::vector<std::uint32_t> fewer;
    for (std::size_t i = (places.size() - 1) % step; i < places.size(); i += step) fewer.push_back(places[i]);
    places = std::move(fewer);
  }
  return places;
}

std::vector<PlannedCheckpoint> plan_checkpoints(std::span<const TokenId> prompt,
                                                const protocol::MessageBorders& borders,
                                                std::uint32_t restored, std::optional<std::uint32_t> branch,
                                                std::span<const std::uint32_t> wanted, const PlanRules& rules,
                                                std::span<const PlacedBreakpoint> breakpoints) {
  if (prompt.size() < 2) return {};
  const auto last = static_cast<std::uint32_t>(prompt.size() - 1);
  struct Reason {
    Origin origin;
    std::chrono::seconds ttl;
  };
  std::map<std::uint32_t, Reason> places;
  // The first reason for a position wins, so those with the longest life come first.
  const auto add = [&](std::optional<std::uint32_t> place, Origin origin, std::chrono::seconds ttl = {}) {
    if (!place) return;
    const std::uint32_t at = std::min(*place, last) / rules.grid * rules.grid;
    if (at > restored) places.emplace(at, Reason{origin, ttl});
  };
  const auto add_worthy = [&](std::optional<std::uint32_t> place, Origin origin) {
    if (place && std::min(*place, last) >= rules.min_tokens) add(place, origin);
  };
  if (!rules.any_token) {
    add_worthy(borders.first_user, Origin::kSystem);
    add_worthy(borders.last_user, Origin::kLastUser);
    add_worthy(branch, Origin::kBranch);
    for (const std::uint32_t place : wanted) add(place, Origin::kBranch);
    for (const std::uint32_t place : spaced_places(last, rules)) add_worthy(place, Origin::kSpaced);
    add_worthy(borders.last_opener, borders.behind_tool ? Origin::kTool : Origin::kHistory);
    add_worthy(borders.after_last_user, Origin::kHistory);
    for (const PlacedBreakpoint& one : breakpoints) {
      if (one.is_block) add_worthy(one.at, Origin::kHistory);
    }
  }
  add_worthy(rules.any_token ? last : std::min(last, rules.max_restored), Origin::kPromptEnd);
  if (!rules.any_token) {
    std::vector<PlacedBreakpoint> by_life(breakpoints.begin(), breakpoints.end());
    std::stable_sort(by_life.begin(), by_life.end(),
                     [](const auto& a, const auto& b) { return a.ttl > b.ttl; });
    for (const PlacedBreakpoint& one : by_life) {
      if (!one.is_block) add(one.at, Origin::kBreakpoint, one.ttl);
    }
  }
  std::vector<PlannedCheckpoint> plan;
  for (const auto& [at, why] : places) plan.push_back({at, why.origin, why.ttl});
  return plan;
}

std::vector<PlannedCheckpoint> reply_places(std::uint32_t restored, std::uint32_t end, const PlanRules& rules,
                                            const ReplySpacing& spacing) {
  std::vector<PlannedCheckpoint> places;
  if (spacing.every == 0 || spacing.most == 0 || rules.any_token || end <= restored) return places;
  const std::uint32_t wide = std::max(spacing.every, (end - restored) / spacing.most);
  const std::uint32_t step = (wide + rules.grid - 1) / rules.grid * rules.grid;
  for (std::uint32_t at = restored / rules.grid * rules.grid + step; at < end; at += step) {
    if (at >= rules.min_tokens && places.size() < spacing.most)
      places.push_back({.at = at, .origin = protocol::Origin::kReply});
  }
  return places;
}

}  // namespace reprise::actors
