// Objects and arrays: brackets, commas, keys, and what may still be a member.

#include <algorithm>

#include "protocol/grammar/json_phase.h"
#include "protocol/grammar/matcher.h"

namespace reprise::protocol::grammar {
namespace {

bool is_seen(const std::vector<std::uint64_t>& seen, std::uint32_t property) {
  return property / 64 < seen.size() && (seen[property / 64] >> (property % 64) & 1) != 0;
}

void set_seen(std::vector<std::uint64_t>& seen, std::uint32_t property) {
  if (seen.size() <= property / 64) seen.resize(property / 64 + 1);
  seen[property / 64] |= std::uint64_t{1} << (property % 64);
}

bool counts(const ObjectSpec& spec) {
  return spec.least > 0 || spec.most != kUnbounded;
}

}  // namespace

// Members that must still come if `property` does (kNowhere: as it is).
std::uint32_t Matcher::missing(const ObjectSpec& spec, const Members& members, std::uint32_t property) const {
  budget_.charge(1 + spec.properties.size() / 2);
  std::vector<std::uint64_t> wanted = members.seen;
  std::uint32_t count = 0;
  const auto want = [&](std::uint32_t p) {
    if (is_seen(wanted, p)) return false;
    set_seen(wanted, p);
    ++count;
    return true;
  };
  if (property != kNowhere) want(property);
  for (std::uint32_t p = 0; p < spec.properties.size(); ++p) {
    if (spec.properties[p].required) want(p);
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (const ObjectSpec::Need& need : spec.needs) {
      budget_.charge(1 + need.needs.size() / 2);
      if (!is_seen(wanted, need.property)) continue;
      for (const std::uint32_t p : need.needs) changed = want(p) || changed;
    }
  }
  return count;
}

bool Matcher::can_add(const ObjectSpec& spec, const Members& members, std::uint32_t property) const {
  if (spec.properties[property].value == kNowhere || is_seen(members.seen, property)) return false;
  return spec.most == kUnbounded || members.count + missing(spec, members, property) <= spec.most;
}

bool Matcher::can_add_other(const ObjectSpec& spec, const Members& members) const {
  return spec.most == kUnbounded || members.count + 1 + missing(spec, members, kNowhere) <= spec.most;
}

bool Matcher::can_add_any(const ObjectSpec& spec, const Members& members) const {
  return spec.keys != kNowhere && leads_to_key(spec, members, 0);
}

bool Matcher::leads_to_key(const ObjectSpec& spec, const Members& members, std::uint32_t state) const {
  const ObjectSpec::Reach& reach = spec.reach[state];
  if (reach.others && can_add_other(spec, members)) return true;
  for (std::uint32_t p = reach.low; p < reach.high; ++p) {
    budget_.charge();
    if (can_add(spec, members, p)) return true;
  }
  return false;
}

bool Matcher::may_close(const ObjectSpec& spec, const Members& members) const {
  return members.count >= spec.least && missing(spec, members, kNowhere) == 0;
}

std::uint32_t Matcher::with_property(const ObjectSpec& spec, std::uint32_t members, std::uint32_t property) {
  Members more = members_[members];
  budget_.charge(1 + more.seen.size() / 4);
  set_seen(more.seen, property);
  if (counts(spec)) more.count = std::min(more.count + 1, spec.most == kUnbounded ? spec.least : kUnbounded);
  return intern_members(std::move(more));
}

std::uint32_t Matcher::with_other(const ObjectSpec& spec, std::uint32_t members) {
  if (!counts(spec)) return members;
  Members more = members_[members];
  more.count = std::min(more.count + 1, spec.most == kUnbounded ? spec.least : kUnbounded);
  return intern_members(std::move(more));
}

void Matcher::advance_object(const Place& place, std::uint8_t byte, std::vector<Place>& open) {
  const Node& node = program_->nodes[place.node];
  const ObjectSpec& spec = program_->objects[node.arg];
  const Phase phase = phase_of(place.phase);
  const auto go_to = [&](Phase next, std::uint32_t a = 0) {
    open.push_back({.node = place.node, .a = a, .phase = begun(next, program_->space), .stack = place.stack});
  };
  if (phase == Phase::kOpen) {
    if (byte != '{') return;
    open.push_back({.node = place.node,
                    .phase = begun(Phase::kFirst, program_->space),
                    .stack = frame(place.node, 0, place.stack)});
    return;
  }
  if (phase == Phase::kKey) return advance_key(place, byte, open);
  if (phase == Phase::kColon) {
    if (byte == ':') go_to(Phase::kValue, place.a);
    return;
  }
  const JsonSpace& spaces = program_->space;
  if (const auto space = spaces.step(space_of(place.phase), byte); space != kNowhere) {
    Place next = place;
    next.phase = in_phase(phase, space);
    open.push_back(next);
    return;
  }
  if (!spaces.states[space_of(place.phase)].may_end) return;
  const Members& members = members_[frames_[place.stack].value];
  if (byte == '"' && (phase == Phase::kFirst || phase == Phase::kNext)) {
    if (can_add_any(spec, members)) go_to(Phase::kKey);
  } else if (byte == '}' && (phase == Phase::kFirst || phase == Phase::kAfter)) {
    if (may_close(spec, members)) enter(node.next, frames_[place.stack].below, open);
  } else if (byte == ',' && phase == Phase::kAfter) {
    if (can_add_any(spec, members)) go_to(Phase::kNext);
  }
}

void Matcher::advance_key(const Place& place, std::uint8_t byte, std::vector<Place>& open) {
  const ObjectSpec& spec = program_->objects[program_->nodes[place.node].arg];
  const CharDfa& keys = program_->dfas[spec.keys];
  const Frame top = frames_[place.stack];
  const CharStep step = json_step(place.b, byte);
  const auto possible = [&](std::uint32_t state) { return leads_to_key(spec, members_[top.value], state); };
  Place next = place;
  switch (step.kind) {
    case CharStep::Kind::kBad:
      return;
    case CharStep::Kind::kWhole:
      next.b = 0;
      next.a = keys.step(place.a, step.code_point);
      if (next.a == CharDfa::kDead || !possible(next.a)) return;
      break;
    case CharStep::Kind::kPart: {
      // One of the characters that it may become must lead to a key.
      const CharDfa::State& state = keys.states[place.a];
      bool leads_on = false;
      for (std::uint32_t e = state.edges; e < state.edges_end && !leads_on; ++e) {
        budget_.charge();
        const CharDfa::Edge& edge = keys.edges[e];
        const auto meets = [&](const CharRange& range) {
          return edge.low <= range.high && edge.high >= range.low;
        };
        leads_on = (meets(step.possible) || meets(step.possible2)) && possible(edge.target);
      }
      if (!leads_on) return;
      next.b = step.progress;
      break;
    }
    case CharStep::Kind::kQuote:
      return leave_key(place, keys.states[place.a].label, open);
  }
  open.push_back(next);
}

// By the quote behind a key, where the automaton has that label.
void Matcher::leave_key(const Place& place, std::uint32_t label, std::vector<Place>& open) {
  if (label == 0) return;
  const ObjectSpec& spec = program_->objects[program_->nodes[place.node].arg];
  const Frame top = frames_[place.stack];
  std::uint32_t members = top.value;
  if (label <= spec.properties.size()) {
    if (!can_add(spec, members_[top.value], label - 1)) return;
    members = with_property(spec, top.value, label - 1);
  } else {
    if (spec.others[label - 1 - spec.properties.size()] == kNowhere) return;
    if (!can_add_other(spec, members_[top.value])) return;
    members = with_other(spec, top.value);
  }
  open.push_back({.node = place.node,
                  .a = label,
                  .phase = in_phase(Phase::kColon),
                  .stack = frame(place.node, members, top.below)});
}

void Matcher::advance_array(const Place& place, std::uint8_t byte, std::vector<Place>& open) {
  const Node& node = program_->nodes[place.node];
  const ArraySpec& spec = program_->arrays[node.arg];
  const Phase phase = phase_of(place.phase);
  if (phase == Phase::kOpen) {
    if (byte != '[') return;
    open.push_back({.node = place.node,
                    .phase = begun(Phase::kFirst, program_->space),
                    .stack = frame(place.node, 0, place.stack)});
    return;
  }
  const JsonSpace& spaces = program_->space;
  if (const auto space = spaces.step(space_of(place.phase), byte); space != kNowhere) {
    Place next = place;
    next.phase = in_phase(phase, space);
    open.push_back(next);
    return;
  }
  if (!spaces.states[space_of(place.phase)].may_end) return;
  const Frame top = frames_[place.stack];
  if (byte == ']' && (phase == Phase::kFirst || phase == Phase::kAfter)) {
    if (top.value >= spec.least) enter(node.next, top.below, open);
  } else if (byte == ',' && phase == Phase::kAfter) {
    if (spec.item(top.value) == kNowhere) return;
    open.push_back({.node = place.node, .phase = begun(Phase::kNext, program_->space), .stack = place.stack});
  }
}

}  // namespace reprise::protocol::grammar
