#include "actors/tiers/tier_stack.h"

#include <algorithm>

namespace reprise::actors {

using protocol::Fetched;
using protocol::FoundState;
using protocol::MissReason;
using runtime::Result;
using runtime::Task;

namespace {

constexpr std::chrono::seconds kTurnsDeadline{8};

struct Candidate {
  std::size_t tier = 0;
  std::uint32_t at = 0;
};

}  // namespace

void TierStack::note_failure(std::size_t tier, const runtime::Error& error) {
  if (error.code == runtime::ErrorCode::kDeadline) rests_until_[tier] = runtime::Clock::now() + limits_.rest;
}

Task<Fetched> TierStack::on(protocol::FetchState job) {
  Fetched answer;
  std::vector<Candidate> candidates;
  for (std::size_t i = 0; i < tiers_.size(); ++i) {
    if (rests(i)) continue;
    auto asked = tiers_[i].ask(protocol::FindState{job}, runtime::deadline_after(limits_.find));
    const Result<FoundState> found = co_await asked;
    if (!found.ok()) {
      note_failure(i, found.error());
      continue;
    }
    if (found->at == 0) {
      if (answer.reason == MissReason::kNeverSeen) answer.reason = found->reason;
      continue;
    }
    candidates.push_back({.tier = i, .at = found->at});
    if (found->at + kWorthMore > job.at_most) break;  // no tier can have enough more
  }
  // By tokens, in units of kWorthMore; the nearest first among equals.
  std::stable_sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return a.at / kWorthMore > b.at / kWorthMore;
  });
  for (const Candidate& candidate : candidates) {
    protocol::FetchState request = job;
    request.at_most = candidate.at;
    auto asked = tiers_[candidate.tier].ask(std::move(request), runtime::deadline_after(limits_.fetch));
    Result<Fetched> fetched = co_await asked;
    if (!fetched.ok()) {
      note_failure(candidate.tier, fetched.error());
      continue;
    }
    if (fetched->state) co_return std::move(*fetched);
    if (fetched->reason != MissReason::kNeverSeen) answer.reason = fetched->reason;
  }
  co_return answer;
}

void TierStack::on(protocol::StoreState job) {
  for (const protocol::OneTierRef& tier : tiers_) tier.tell(protocol::StoreState(job));
}

void TierStack::on(protocol::StoreTurn job) {
  for (const protocol::TurnStoreRef& store : turn_stores_) store.tell(protocol::StoreTurn(job));
}

Task<protocol::FetchTurns::Reply> TierStack::on(protocol::FetchTurns job) {
  protocol::FetchTurns::Reply all;
  for (const protocol::TurnStoreRef& store : turn_stores_) {
    if (job.names.empty()) break;
    auto asked = store.ask(protocol::FetchTurns(job), runtime::deadline_after(kTurnsDeadline));
    Result<protocol::FetchTurns::Reply> found = co_await asked;
    if (!found.ok()) continue;
    for (protocol::SharedTurn& turn : *found) {
      std::erase(job.names, turn->name);
      all.push_back(std::move(turn));
    }
  }
  co_return all;
}

void TierStack::on(protocol::ForgetStates job) {
  for (const protocol::OneTierRef& tier : tiers_) tier.tell(protocol::ForgetStates(job));
}

void TierStack::on(protocol::UnloadStates job) {
  if (host_) host_.tell(std::move(job));
}

}  // namespace reprise::actors
