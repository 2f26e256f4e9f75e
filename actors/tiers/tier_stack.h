#pragma once
// TierStack presents all tiers below the devices as one. A fetch asks the tiers, from the nearest to the
// farthest, how many tokens of the prompt they have, and loads from the one with the most; among equals, from
// the nearest. If that fails, the next best is tried. A tier that does not answer in time is skipped, and not
// asked for a while, so that it delays few requests and none of the other tiers. Stores and removals go to all
// tiers.
//
// Failure: it has no state; an exception from a handler restarts it.
// Threading: a re-entrant actor on the pool.

#include <chrono>
#include <vector>

#include "protocol/tier.h"
#include "runtime/actor.h"

namespace reprise::actors {

struct TierLimits {
  std::chrono::milliseconds find{8'000};  // a namespace that is new to a tier is read completely
  std::chrono::milliseconds fetch{60'000};
  std::chrono::milliseconds rest{60'000};  // after one of these has passed
};

class TierStack : public runtime::Actor {
 public:
  using Accepts = runtime::Messages<protocol::FetchState, protocol::StoreState, protocol::ForgetStates,
                                    protocol::UnloadStates, protocol::StoreTurn, protocol::FetchTurns>;
  static constexpr const char* kName = "tiers";
  static constexpr std::uint32_t kMaxRestarts = 10;
  static constexpr std::chrono::minutes kRestartWindow{1};
  static constexpr std::uint32_t kConcurrentHandlers = 65'536;
  static constexpr std::uint32_t kWorthMore = 64;  // tokens that a farther tier must have more

  /// `tiers` is ordered from the nearest to the farthest. `turn_stores` are those that also keep turns, and
  /// `host` is the one in host memory; it may be null.
  explicit TierStack(std::vector<protocol::OneTierRef> tiers,
                     std::vector<protocol::TurnStoreRef> turn_stores = {},
                     runtime::Ref<protocol::UnloadStates> host = {}, TierLimits limits = {})
      : tiers_(std::move(tiers)),
        turn_stores_(std::move(turn_stores)),
        host_(std::move(host)),
        limits_(limits),
        rests_until_(tiers_.size()) {}

  runtime::Task<protocol::Fetched> on(protocol::FetchState job);
  void on(protocol::StoreState job);
  void on(protocol::ForgetStates job);
  void on(protocol::UnloadStates job);
  void on(protocol::StoreTurn job);
  /// Returns each turn from the nearest store that has it.
  runtime::Task<protocol::FetchTurns::Reply> on(protocol::FetchTurns job);

 private:
  bool rests(std::size_t tier) const { return runtime::Clock::now() < rests_until_[tier]; }
  /// A tier did not answer.
  void note_failure(std::size_t tier, const runtime::Error& error);

  const std::vector<protocol::OneTierRef> tiers_;
  const std::vector<protocol::TurnStoreRef> turn_stores_;
  const runtime::Ref<protocol::UnloadStates> host_;
  const TierLimits limits_;
  std::vector<runtime::TimePoint> rests_until_;  // per tier
};

}  // namespace reprise::actors
