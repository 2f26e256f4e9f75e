#pragma once
// TierStack: all tiers below the devices, as one. It asks how far each would bring a prompt, from the nearest to the
// farthest, and lets the one bring it that brings it furthest; among equals the nearest. Where that fails the next is
// asked. What is to be kept, or forgotten, all are told.
//
// A tier that does not say in time what it has is passed over.
//
// Failure: it holds nothing; what leaves a handler makes it start anew.
// Threading: an actor on the pool, re-entrant.

#include <chrono>
#include <vector>

#include "protocol/tier.h"
#include "runtime/actor.h"

namespace reprise::actors {

class TierStack : public runtime::Actor {
 public:
  using Accepts = runtime::Messages<protocol::FetchState, protocol::StoreState, protocol::ForgetStates,
                                    protocol::StoreTurn, protocol::FetchTurns>;
  static constexpr const char* kName = "tiers";
  static constexpr std::uint32_t kMostRestarts = 10;
  static constexpr std::chrono::minutes kRestartWindow{1};
  static constexpr std::uint32_t kConcurrentHandlers = 65'536;
  static constexpr std::uint32_t kWorthMore = 64;  // tokens that a tier further away must bring more

  /// From the nearest to the farthest. `turn_stores`: those that keep turns as well.
  explicit TierStack(std::vector<protocol::OneTierRef> tiers,
                     std::vector<protocol::TurnStoreRef> turn_stores = {})
      : tiers_(std::move(tiers)), turn_stores_(std::move(turn_stores)) {}

  runtime::Task<protocol::Fetched> on(protocol::FetchState job);
  void on(protocol::StoreState job);
  void on(protocol::ForgetStates job);
  void on(protocol::StoreTurn job);
  /// Answers with each turn as the nearest store that holds it has it.
  runtime::Task<protocol::FetchTurns::Reply> on(protocol::FetchTurns job);

 private:
  const std::vector<protocol::OneTierRef> tiers_;
  const std::vector<protocol::TurnStoreRef> turn_stores_;
};

}  // namespace reprise::actors
