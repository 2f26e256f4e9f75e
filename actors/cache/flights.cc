#include "actors/cache/flights.h"

#include <algorithm>
#include <utility>

namespace reprise::actors {

using runtime::Result;
using runtime::Task;

// -- wrong states

void WrongStates::add(std::string name_space, SharedTokens tokens, std::uint32_t length) {
  wrong_.push_back({++moment_, std::move(name_space), std::move(tokens), length});
  if (wrong_.size() <= kMax) return;
  forgotten_ = wrong_.front().found;
  wrong_.pop_front();
}

bool WrongStates::may_spoil(std::string_view name_space, std::span<const TokenId> tokens,
                            Moment since) const {
  if (since < forgotten_) return true;
  return std::any_of(wrong_.begin(), wrong_.end(), [&](const Wrong& wrong) {
    return wrong.found > since && wrong.name_space == name_space && wrong.length <= tokens.size() &&
           std::equal(tokens.begin(), tokens.begin() + wrong.length, wrong.tokens->begin());
  });
}

void WrongStates::forget(Moment oldest) {
  while (!wrong_.empty() && wrong_.front().found <= oldest) wrong_.pop_front();
}

// -- flights

Flight& Flights::begin(const protocol::Announce& announce, const Sighting& seen, CacheTime now) {
  Flight& flight = flights_[announce.flight];
  flight.in_cache = cache_.begin_flight(announce.name_space, *announce.prompt, now);
  numbers_[flight.in_cache] = announce.flight;
  flight.name_space = announce.name_space;
  flight.prompt = announce.prompt;
  flight.max_tokens = announce.max_tokens;
  flight.known = seen.known;
  flight.diverges = seen.diverges;
  flight.tokens_after = seen.tokens_after;
  flight.since = wrong_.now();
  return flight;
}

Flight* Flights::find(protocol::FlightNumber number) {
  const auto found = flights_.find(number);
  return found == flights_.end() ? nullptr : &found->second;
}

protocol::FlightNumber Flights::number_of(FlightId in_cache) const {
  const auto found = numbers_.find(in_cache);
  return found == numbers_.end() ? 0 : found->second;
}

void Flights::pass(Flight& flight, std::uint32_t up_to) {
  flight.passed = std::max(flight.passed, up_to);
  flight.changed.signal();
}

void Flights::land(Flight& flight) {
  if (std::exchange(flight.landed, true)) return;
  cache_.end_flight(flight.in_cache);
  numbers_.erase(flight.in_cache);
  pass(flight, UINT32_MAX);
}

void Flights::end(protocol::FlightNumber number) {
  const auto found = flights_.find(number);
  if (found == flights_.end()) return;
  land(found->second);
  found->second.changed.signal();  // wakes waiters for it to settle
  found->second.ended.cancel();
  flights_.erase(found);
  if (wrong_.size() == 0) return;
  WrongStates::Moment oldest = wrong_.now();
  for (const auto& [other, flight] : flights_) {
    oldest = std::min(
        {oldest, flight.since, flight.fetching || flight.fetched.state ? flight.fetched_since : oldest});
  }
  wrong_.forget(oldest);
}

Task<bool> Flights::passes(protocol::FlightNumber number, std::uint32_t at, runtime::TimePoint deadline,
                           runtime::CancelToken gone) {
  for (;;) {
    Flight* flight = find(number);
    if (flight == nullptr || at <= flight->passed) co_return true;
    auto waiting = flight->changed.wait(deadline, gone);
    const Result<void> woken = co_await waiting;
    if (!woken.ok()) co_return false;
  }
}

}  // namespace reprise::actors
