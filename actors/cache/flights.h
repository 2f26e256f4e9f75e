#pragma once
// Flights are the prompts in flight of a registry (protocol/registry.h), from Announce to EndFlight.
//
// A flight is known to the prefix cache, and can be followed, until it has landed: it has computed all its
// tokens, or has ended. Coroutines wait for its events with `changed`; those that serve the flight itself pass
// the token of `ended`, so that they end with it.
//
// WrongStates remembers the states that were dropped because they proved wrong. A flight that was computing at
// that time may have restored such a state, directly or by another flight's checkpoint, or may have made it:
// its later checkpoints of the same tokens are not kept. Each flight records the moment of its lookup, and only
// what was found wrong after that moment concerns it. At most kMax states are remembered; flights that are
// older than the forgotten ones may keep nothing.
//
// Threading: the registry's.

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "actors/cache/checkpoint_plan.h"
#include "actors/cache/prefix_cache.h"
#include "protocol/registry.h"
#include "protocol/tier.h"
#include "runtime/cancel.h"
#include "runtime/event.h"
#include "runtime/task.h"

namespace reprise::actors {

class WrongStates {
 public:
  using Moment = std::uint64_t;
  static constexpr std::size_t kMax = 64;

  Moment now() const { return moment_; }
  /// Records that the state of the first `length` tokens is wrong.
  void add(std::string name_space, SharedTokens tokens, std::uint32_t length);
  /// Returns true if the state of these tokens may derive from one that was found wrong after `since`.
  bool may_spoil(std::string_view name_space, std::span<const TokenId> tokens, Moment since) const;
  /// Forgets what no computation that is as old as `oldest` needs.
  void forget(Moment oldest);
  std::size_t size() const { return wrong_.size(); }

 private:
  struct Wrong {
    Moment found;
    std::string name_space;
    SharedTokens tokens;
    std::uint32_t length;
  };
  std::deque<Wrong> wrong_;  // in order of `found`
  Moment moment_ = 0;
  Moment forgotten_ = 0;  // the last that had to be forgotten
};

struct Flight {
  FlightId in_cache = 0;
  bool landed = false;  // no longer in the cache, and not followed
  EntryId lease = 0;    // 0: none
  std::string name_space;
  SharedTokens prompt;
  std::uint32_t max_tokens = UINT32_MAX;  // maximum to restore
  std::uint32_t known = 0;
  bool diverges = false;           // the prompt diverges from a known path
  std::uint32_t tokens_after = 0;  // Sighting::tokens_after at the announcement
  std::uint32_t lost = 0;          // tokens that the last lookup reported as lost
  protocol::MissReason why_lost = protocol::MissReason::kNone;
  protocol::SequenceId sequence{};  // null: not computing yet
  WrongStates::Moment since = 0;    // moment of the last lookup or, before it, of the announcement
  std::vector<std::uint32_t> wanted;
  std::uint32_t passed = 0;               // position of its last checkpoint, taken or missed
  std::uint32_t reports = 0;              // checkpoint reports received
  std::uint32_t settled = 0;              // reports handled: adopted or given up
  std::uint32_t kept = 0;                 // prompt tokens up to the deepest adopted checkpoint
  bool cut_off = false;                   // its worker is gone: no report will come
  bool fetching = false;                  // the tier below was asked
  WrongStates::Moment fetched_since = 0;  // when the tier was asked
  protocol::Fetched fetched{};            // the tier's result, until a lookup takes it
  std::uint32_t looked_up = 0;            // tokens found by the last lookup
  runtime::Event changed;                 // signals any change of the above
  runtime::CancelSource ended;
};

class Flights {
 public:
  /// `cache` must outlive it.
  explicit Flights(PrefixCache& cache) : cache_(cache) {}

  /// `seen`: what the cache knew of the prompt before.
  Flight& begin(const protocol::Announce& announce, const Sighting& seen, CacheTime now);
  /// Returns nullptr if the flight is unknown. The address is valid until end().
  Flight* find(protocol::FlightNumber number);
  /// Returns the flight that takes the plan's checkpoints, or whose reply they are in.
  Flight* find(const protocol::CheckpointPlan& plan) {
    return find(plan.flight == 0 ? plan.request : plan.flight);
  }
  /// Returns the number of a flight in the cache; 0: it has landed.
  protocol::FlightNumber number_of(FlightId in_cache) const;
  std::unordered_map<protocol::FlightNumber, Flight>& all() { return flights_; }

  /// The flight has taken or missed its checkpoint at this position.
  void pass(Flight& flight, std::uint32_t up_to);
  void land(Flight& flight);
  /// Lands and forgets the flight; ends all waits for it. Requires: its lease has ended.
  void end(protocol::FlightNumber number);

  /// Returns true if the flight passes that position or ends, before the deadline and before `gone`.
  runtime::Task<bool> passes(protocol::FlightNumber number, std::uint32_t at, runtime::TimePoint deadline,
                             runtime::CancelToken gone);

  WrongStates& wrong() { return wrong_; }

 private:
  PrefixCache& cache_;
  WrongStates wrong_;
  std::unordered_map<protocol::FlightNumber, Flight> flights_;
  std::unordered_map<FlightId, protocol::FlightNumber> numbers_;  // flights in the cache
};

}  // namespace reprise::actors
