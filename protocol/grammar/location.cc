#include "protocol/grammar/location.h"

#include <algorithm>

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
  return spec.min > 0 || spec.max != kUnbounded;
}

}  // namespace

Stacks::Stacks(WorkBudget& budget) : budget_(budget), frames_(1), members_(1) {}

std::uint32_t Stacks::push(NodeId node, std::uint32_t value, std::uint32_t below) {
  const Frame wanted{node, value, below};
  const std::uint64_t hash = mix(mix(node, value), below);
  const auto [begin, end] = frame_index_.equal_range(hash);
  for (auto at = begin; at != end; ++at) {
    if (frames_[at->second] == wanted) return at->second;
  }
  frames_.push_back(wanted);
  const auto id = static_cast<std::uint32_t>(frames_.size() - 1);
  frame_index_.emplace(hash, id);
  keep_bytes(sizeof(Frame) + 48);
  return id;
}

std::uint32_t Stacks::intern_members(Members members) {
  std::uint64_t hash = members.count;
  for (const std::uint64_t word : members.seen) hash = mix(hash, word);
  const auto [begin, end] = member_index_.equal_range(hash);
  for (auto at = begin; at != end; ++at) {
    if (members_[at->second] == members) return at->second;
  }
  keep_bytes(sizeof(Members) + members.seen.size() * 8 + 48);
  members_.push_back(std::move(members));
  const auto id = static_cast<std::uint32_t>(members_.size() - 1);
  member_index_.emplace(hash, id);
  return id;
}

// Returns how many members are still required after adding `property` (kNowhere: none).
std::uint32_t Stacks::missing(const ObjectSpec& spec, const Members& members, std::uint32_t property) const {
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

bool Stacks::can_add(const ObjectSpec& spec, const Members& members, std::uint32_t property) const {
  if (spec.properties[property].value == kNowhere || is_seen(members.seen, property)) return false;
  return spec.max == kUnbounded || members.count + missing(spec, members, property) <= spec.max;
}

bool Stacks::can_add_other(const ObjectSpec& spec, const Members& members) const {
  return spec.max == kUnbounded || members.count + 1 + missing(spec, members, kNowhere) <= spec.max;
}

bool Stacks::can_add_any(const ObjectSpec& spec, const Members& members) const {
  return spec.keys != kNowhere && leads_to_key(spec, members, 0);
}

bool Stacks::leads_to_key(const ObjectSpec& spec, const Members& members, std::uint32_t state) const {
  const ObjectSpec::Reach& reach = spec.reach[state];
  if (reach.others && can_add_other(spec, members)) return true;
  for (std::uint32_t p = reach.low; p < reach.high; ++p) {
    budget_.charge();
    if (can_add(spec, members, p)) return true;
  }
  return false;
}

bool Stacks::may_close(const ObjectSpec& spec, const Members& members) const {
  return members.count >= spec.min && missing(spec, members, kNowhere) == 0;
}

std::uint32_t Stacks::with_property(const ObjectSpec& spec, std::uint32_t members, std::uint32_t property) {
  Members more = members_[members];
  budget_.charge(1 + more.seen.size() / 4);
  set_seen(more.seen, property);
  if (counts(spec)) more.count = std::min(more.count + 1, spec.max == kUnbounded ? spec.min : kUnbounded);
  return intern_members(std::move(more));
}

std::uint32_t Stacks::with_other(const ObjectSpec& spec, std::uint32_t members) {
  if (!counts(spec)) return members;
  Members more = members_[members];
  more.count = std::min(more.count + 1, spec.max == kUnbounded ? spec.min : kUnbounded);
  return intern_members(std::move(more));
}

}  // namespace reprise::protocol::grammar
