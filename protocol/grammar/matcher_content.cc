// Places within strings, apart from what the strings stand in; and counts, as far as a token can tell them apart.

#include <algorithm>

#include "protocol/grammar/json_phase.h"
#include "protocol/grammar/matcher.h"

namespace reprise::protocol::grammar {
namespace {

// The count that stands for `count`: one that is as far from both bounds, or so far that no token can tell.
std::uint32_t typical_count(const JsonStringSpec& spec, std::uint32_t count) {
  constexpr std::uint32_t kFar = Matcher::kManyChars;
  const std::uint32_t room = spec.most == kUnbounded ? kUnbounded : spec.most - count;
  if (count >= spec.least) return room >= kFar ? spec.least : count;
  return spec.least - count >= kFar ? spec.least - kFar : count;
}

}  // namespace

Matcher::State Matcher::typical(State state) {
  const StateData& data = states_[state];
  std::vector<Place> places = data.places;
  budget_.charge(places.size());
  for (Place& place : places) {
    const Node& node = program_->nodes[place.node];
    if (node.op == Op::kDfa) {
      place.a = program_->dfas[node.arg].states[place.a].alike;
    } else if (node.op == Op::kEmbedded) {
      place.a = program_->dfas[program_->embedded[node.arg].dfa].states[place.a].alike;
    } else if (node.op == Op::kString && place.phase == 1) {
      const JsonStringSpec& spec = program_->strings[node.arg];
      place.a = spec.dfa != kNowhere ? program_->dfas[spec.dfa].states[place.a].alike
                                     : typical_count(spec, place.a);
    }
  }
  return places == data.places ? state : intern(std::move(places), data.accepts);
}

// All plain tokens may follow.
bool Matcher::leads_to_free(const Place& place) const {
  const Node& node = program_->nodes[place.node];
  if (place.b != 0) return false;
  if (node.op == Op::kString && place.phase == 1) {
    const JsonStringSpec& spec = program_->strings[node.arg];
    if (spec.dfa != kNowhere) return program_->dfas[spec.dfa].states[place.a].free;
    return spec.most == kUnbounded || spec.most - place.a >= kManyChars;
  }
  if (node.op == Op::kObject && phase_of(place.phase) == Phase::kKey) {
    const ObjectSpec& spec = program_->objects[node.arg];
    return program_->dfas[spec.keys].states[place.a].free &&
           can_add_other(spec, members_[frames_[place.stack].value]);
  }
  return false;
}

std::vector<Matcher::Within> Matcher::within(State state) const {
  std::vector<Within> found;
  const std::vector<Place>& places = states_[state].places;
  budget_.charge(places.size());
  for (std::uint32_t i = 0; i < places.size(); ++i) {
    const Place& place = places[i];
    const Node& node = program_->nodes[place.node];
    if (node.op == Op::kString && place.phase == 1) {
      const JsonStringSpec& spec = program_->strings[node.arg];
      Within one{.rule = {.dfa = spec.dfa}, .place = place, .index = i};
      if (spec.dfa == kNowhere) {
        // As if the string began here.
        one.rule.least = spec.least > place.a ? std::min(spec.least - place.a, kManyChars) : 0;
        if (spec.most != kUnbounded && spec.most - place.a < kManyChars) one.rule.most = spec.most - place.a;
        one.place.a = 0;
      }
      found.push_back(one);
    } else if (node.op == Op::kObject && phase_of(place.phase) == Phase::kKey) {
      const ObjectSpec& spec = program_->objects[node.arg];
      if (!spec.reach[place.a].others || !can_add_other(spec, members_[frames_[place.stack].value])) continue;
      found.push_back({.rule = {.dfa = spec.keys, .object = node.arg}, .place = place, .index = i});
    }
  }
  return found;
}

Matcher::State Matcher::without(State state, const std::vector<Within>& these) {
  std::vector<Place> rest;
  const std::vector<Place>& places = states_[state].places;
  auto next = these.begin();  // in the order of the places
  for (std::uint32_t i = 0; i < places.size(); ++i) {
    if (next != these.end() && next->index == i) {
      ++next;
    } else {
      rest.push_back(places[i]);
    }
  }
  return rest.empty() ? kDead : intern(std::move(rest));
}

Matcher::State Matcher::left(const Place& place, std::uint32_t label) {
  std::vector<Place> open;
  const Node& node = program_->nodes[place.node];
  if (node.op == Op::kString) {
    enter(node.next, place.stack, open);
  } else {
    leave_key(place, label, open);
  }
  return open.empty() ? kDead : intern(std::move(open));
}

Matcher::State Matcher::moved(Place place, std::uint32_t a, std::uint32_t b) {
  place.a = a;
  place.b = b;
  return intern({place});
}

Matcher::State Matcher::alone(State state, const Within& one) {
  return intern({states_[state].places[one.index]});
}

}  // namespace reprise::protocol::grammar
