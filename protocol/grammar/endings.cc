#include "protocol/grammar/endings.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "base/utf8.h"
#include "protocol/grammar/work_budget.h"

namespace reprise::protocol::grammar {
namespace {

constexpr std::uint64_t kSteps = 4'000'000;
constexpr std::uint64_t kStepsOfOne = 200'000;  // per ending
constexpr std::uint32_t kMaxSweeps = 256;
constexpr std::uint32_t kMaxDepth = 128;
constexpr std::size_t kMaxKeyStates = 200'000;  // states examined for the keys of one object

std::uint32_t sum(std::uint32_t a, std::uint32_t b) {
  if (a == Endings::kNone || b == Endings::kNone) return Endings::kNone;
  const std::uint64_t both = std::uint64_t{a} + b;
  return both > Endings::kMaxBytes ? Endings::kNone : static_cast<std::uint32_t>(both);
}

std::uint32_t times(std::uint32_t count, std::uint32_t cost) {
  if (count == 0) return 0;
  if (cost == Endings::kNone) return Endings::kNone;
  const std::uint64_t all = std::uint64_t{count} * cost;
  return all > Endings::kMaxBytes ? Endings::kNone : static_cast<std::uint32_t>(all);
}

bool is_plain_ascii(std::uint32_t c, bool json) {
  return c >= 0x20 && c < 0x7F && !(json && (c == '"' || c == '\\'));
}

/// Returns the character of an edge with the shortest encoding; empty if the edge has only surrogates.
std::string char_of(const CharDfa::Edge& edge, bool json) {
  for (const std::uint32_t c : {'a', '0', ' '}) {
    if (c >= edge.low && c <= edge.high) return std::string(1, static_cast<char>(c));
  }
  for (std::uint32_t c = std::max(edge.low, 0x20U); c <= std::min(edge.high, 0x7EU); ++c) {
    if (is_plain_ascii(c, json)) return std::string(1, static_cast<char>(c));
  }
  std::uint32_t c = edge.low;
  if (c < 0x80 && json && edge.high >= 0xA0) c = 0xA0;
  if (c >= 0xD800 && c <= 0xDFFF) c = 0xE000;
  if (c > edge.high) return {};
  std::string text;
  if (json && (c == '"' || c == '\\')) return std::string("\\") + static_cast<char>(c);
  if (json && c < 0x20) {
    constexpr const char* kDigits = "0123456789abcdef";
    return std::string("\\u00") + kDigits[c >> 4] + kDigits[c & 15];
  }
  append_utf8(text, static_cast<char32_t>(c));
  return text;
}

}  // namespace

Endings::Endings(const Program& program)
    : program_(program),
      budget_("finding endings", program.limits, {.steps = kSteps, .bytes = program.limits.mask_bytes}),
      costs_(program.nodes.size(), kNone) {
  try {
    find_space_costs();
    find_costs();
  } catch (const GrammarError&) {
    known_ = false;
    max_cost_ = 0;
  }
  bytes_ = sizeof *this + budget_.bytes() + costs_.size() * sizeof(std::uint32_t);
  budget_.begin({});
}

void Endings::begin_one() const {
  budget_.begin({}, kStepsOfOne);
}

// -- costs

void Endings::find_space_costs() {
  const auto& states = program_.space.states;
  spaces_.resize(states.size());
  has_space_.resize(states.size());
  constexpr const char* kBytes = " \t\n\r";
  for (std::size_t i = 0; i < states.size(); ++i) has_space_[i] = states[i].may_end;
  for (bool changed = true; changed;) {
    changed = false;
    budget_.charge(states.size());
    for (std::size_t i = 0; i < states.size(); ++i) {
      for (std::size_t kind = 0; kind < 4 && !has_space_[i]; ++kind) {
        const std::uint32_t next = states[i].next[kind];
        if (next == kNowhere || !has_space_[next] || spaces_[next].size() >= kMaxBytes) continue;
        budget_.take(spaces_[next].size());
        spaces_[i] = kBytes[kind] + spaces_[next];
        has_space_[i] = true;
        changed = true;
      }
    }
  }
}

void Endings::find_costs() {
  keys_.resize(program_.objects.size());
  for (std::size_t i = 0; i < program_.objects.size(); ++i) {
    const ObjectSpec& spec = program_.objects[i];
    budget_.take((spec.properties.size() + spec.others.size() + 1) * sizeof(std::string));
    keys_[i].resize(spec.properties.size() + spec.others.size() + 1);
    if (spec.keys == kNowhere) continue;
    static_cast<void>(char_costs(spec.keys, true));
    for (Path& path : paths(
             spec.keys, 0, [](std::uint32_t) { return true; }, keys_[i].size(), kMaxKeyStates)) {
      budget_.take(path.text.size());
      keys_[i][path.label] = '"' + path.text + '"';
    }
  }
  bool changed = true;
  for (std::uint32_t sweep = 0; changed && sweep < kMaxSweeps; ++sweep) {
    changed = false;
    for (NodeId node = 0; node < program_.nodes.size(); ++node) {
      budget_.charge();
      const std::uint32_t cost = find_cost(program_.nodes[node]);
      if (cost >= costs_[node]) continue;
      costs_[node] = cost;
      changed = true;
    }
  }
  for (const std::uint32_t cost : costs_) {
    if (cost != kNone) max_cost_ = std::max(max_cost_, cost);
  }
}

std::uint32_t Endings::find_cost(const Node& node) {
  const auto with_next = [&](std::uint32_t cost) { return sum(cost, costs_[node.next]); };
  switch (node.op) {
    case Op::kReturn:
      return 0;
    case Op::kFail:
      return kNone;
    case Op::kSplit: {
      std::uint32_t min = kNone;
      budget_.charge(program_.lists[node.arg].size());
      for (const NodeId choice : program_.lists[node.arg]) min = std::min(min, costs_[choice]);
      return min;
    }
    case Op::kLiteral:
    case Op::kMark:
      return with_next(times(1, static_cast<std::uint32_t>(
                                    std::min<std::size_t>(program_.texts[node.arg].size(), kMaxBytes + 1))));
    case Op::kDfa:
      return with_next(char_costs(node.arg, false).cost[0]);
    case Op::kEmbedded: {
      const EmbeddedSpec& spec = program_.embedded[node.arg];
      return spec.mark != kNowhere ? kNone : with_next(char_costs(spec.dfa, true).cost[0]);
    }
    case Op::kString: {
      const JsonStringSpec& spec = program_.strings[node.arg];
      return with_next(
          sum(2, spec.dfa != kNowhere ? char_costs(spec.dfa, true).cost[0] : times(spec.min, 1)));
    }
    case Op::kCall:
      return with_next(costs_[node.arg]);
    case Op::kRepeat: {
      const RepeatSpec& spec = program_.repeats[node.arg];
      return with_next(times(spec.min, costs_[spec.body]));
    }
    case Op::kObject:
      return with_next(object_cost(node.arg));
    case Op::kArray:
      return with_next(array_cost(program_.arrays[node.arg]));
    case Op::kText: {
      const TextSpec& spec = program_.free_texts[node.arg];
      return spec.may_end
                 ? 0
                 : with_next(static_cast<std::uint32_t>(std::min<std::size_t>(spec.mark.size(), kMaxBytes)));
    }
  }
  return kNone;
}

std::uint32_t Endings::member_cost(std::uint32_t object, std::uint32_t label) const {
  const ObjectSpec& spec = program_.objects[object];
  const std::string& key = keys_[object][label];
  const NodeId value = label <= spec.properties.size() ? spec.properties[label - 1].value
                                                       : spec.others[label - 1 - spec.properties.size()];
  if (key.empty() || value == kNowhere) return kNone;
  return sum(static_cast<std::uint32_t>(std::min<std::size_t>(key.size(), kMaxBytes)), sum(2, costs_[value]));
}

std::uint32_t Endings::max_other_cost(std::uint32_t object) const {
  const ObjectSpec& spec = program_.objects[object];
  std::uint32_t max = 0;
  for (std::size_t label = spec.properties.size() + 1; label < keys_[object].size(); ++label) {
    const std::uint32_t cost = member_cost(object, static_cast<std::uint32_t>(label));
    if (cost != kNone) max = std::max(max, cost);
  }
  return max;
}

std::uint32_t Endings::object_cost(std::uint32_t object) {
  std::vector<std::uint32_t> labels;
  if (!members_to_come(object, {}, 0, 0, labels)) return kNone;
  std::uint32_t cost = 2;
  for (const std::uint32_t label : labels) cost = sum(cost, member_cost(object, label));
  return cost;
}

std::uint32_t Endings::array_cost(const ArraySpec& spec) const {
  std::uint32_t cost = 2;
  if (spec.min > kMaxBytes) return kNone;
  for (std::uint32_t i = 0; i < spec.min && cost != kNone; ++i) {
    budget_.charge();
    const NodeId item = spec.item(i);
    cost = item == kNowhere ? kNone : sum(cost, sum(1, costs_[item]));
  }
  return cost;
}

bool Endings::members_to_come(std::uint32_t object, const std::vector<std::uint64_t>& seen,
                              std::uint32_t count, std::uint32_t first,
                              std::vector<std::uint32_t>& labels) const {
  const ObjectSpec& spec = program_.objects[object];
  const auto properties = static_cast<std::uint32_t>(spec.properties.size());
  budget_.charge(1 + properties / 2);
  std::vector<std::uint64_t> wanted = seen;
  wanted.resize(properties / 64 + 1);
  const auto is_wanted = [&](std::uint32_t p) { return (wanted[p / 64] >> (p % 64) & 1) != 0; };
  const auto want = [&](std::uint32_t p) {
    if (is_wanted(p)) return false;
    wanted[p / 64] |= std::uint64_t{1} << (p % 64);
    labels.push_back(p + 1);
    return true;
  };
  const auto want_needs = [&] {
    for (bool changed = true; changed;) {
      changed = false;
      for (const ObjectSpec::Need& need : spec.needs) {
        budget_.charge(1 + need.needs.size() / 2);
        if (!is_wanted(need.property)) continue;
        for (const std::uint32_t p : need.needs) changed = want(p) || changed;
      }
    }
  };
  labels.clear();
  bool has_other = false;
  if (first > properties) {
    labels.push_back(first);
    has_other = true;
  } else if (first > 0 && !want(first - 1)) {
    return false;
  }
  for (std::uint32_t p = 0; p < properties; ++p) {
    if (spec.properties[p].required) want(p);
  }
  want_needs();
  while (std::uint64_t{count} + labels.size() < spec.min) {
    std::uint32_t best = 0;
    std::uint32_t min = kNone;
    for (std::uint32_t label = 1; label < keys_[object].size(); ++label) {
      budget_.charge();
      if (label <= properties ? is_wanted(label - 1) : has_other) continue;
      const std::uint32_t cost = member_cost(object, label);
      if (cost < min) {
        min = cost;
        best = label;
      }
    }
    if (best == 0) return false;
    if (best > properties) {
      labels.push_back(best);
      has_other = true;
    } else {
      want(best - 1);
      want_needs();
    }
  }
  return true;
}

const Endings::CharCosts& Endings::char_costs(std::uint32_t dfa, bool json) {
  const auto [found, is_new] = chars_.try_emplace({dfa, json});
  CharCosts& costs = found->second;
  if (!is_new) return costs;
  const CharDfa& of = program_.dfas[dfa];
  budget_.take(of.states.size() * 2 * sizeof(std::uint32_t));
  costs.cost.assign(of.states.size(), kNone);
  costs.edge.assign(of.states.size(), kNowhere);
  if (of.states.empty()) costs.cost.push_back(kNone);
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t s = of.states.size(); s-- > 0;) {
      const CharDfa::State& state = of.states[s];
      budget_.charge(1 + state.edges_end - state.edges);
      std::uint32_t& cost = costs.cost[s];
      if (state.label != 0 && cost != 0) {
        cost = 0;
        changed = true;
      }
      if (cost == 0) continue;
      for (std::uint32_t e = state.edges; e < state.edges_end; ++e) {
        const std::uint32_t rest = costs.cost[of.edges[e].target];
        if (rest == kNone || (cost != kNone && rest >= cost)) continue;
        const std::string text = char_of(of.edges[e], json);
        if (text.empty()) continue;
        const std::uint32_t whole = sum(rest, static_cast<std::uint32_t>(text.size()));
        if (whole >= cost) continue;
        cost = whole;
        costs.edge[s] = e;
        changed = true;
      }
    }
  }
  for (const std::uint32_t cost : costs.cost) costs.max = std::max(costs.max, cost == kNone ? 0 : cost);
  return costs;
}

std::uint32_t Endings::max_chars_cost(std::uint32_t dfa) const {
  const auto found = chars_.find({dfa, true});
  return found == chars_.end() ? 0 : found->second.max;
}

std::vector<Endings::Path> Endings::paths(std::uint32_t dfa, std::uint32_t state, const IsUsable& is_usable,
                                          std::size_t max_paths, std::size_t max_states) const {
  const CharDfa& of = program_.dfas[dfa];
  struct Step {
    std::uint32_t state = 0;
    std::uint32_t from = 0;  // index of the previous step
    std::uint32_t edge = kNowhere;
  };
  std::vector<Path> found;
  std::vector<Step> steps = {{.state = state}};
  std::set<std::uint32_t> labels;
  std::vector<bool> met(of.states.size());
  met[state] = true;
  for (std::uint32_t at = 0; at < steps.size() && found.size() < max_paths; ++at) {
    const CharDfa::State& here = of.states[steps[at].state];
    budget_.charge(2 + here.edges_end - here.edges);
    if (here.label != 0 && labels.insert(here.label).second && is_usable(here.label)) {
      std::vector<std::uint32_t> edges;
      for (std::uint32_t i = at; steps[i].edge != kNowhere; i = steps[i].from) edges.push_back(steps[i].edge);
      Path path{.label = here.label};
      for (std::size_t i = edges.size(); i-- > 0;) path.text += char_of(of.edges[edges[i]], true);
      budget_.charge(path.text.size());
      found.push_back(std::move(path));
    }
    for (std::uint32_t e = here.edges; e < here.edges_end && steps.size() < max_states; ++e) {
      const std::uint32_t target = of.edges[e].target;
      if (met[target] || char_of(of.edges[e], true).empty()) continue;
      met[target] = true;
      steps.push_back({.state = target, .from = at, .edge = e});
    }
  }
  return found;
}

// -- texts

bool Endings::write_chars(std::uint32_t dfa, std::uint32_t state, bool json, std::string& out) const {
  const auto found = chars_.find({dfa, json});
  if (found == chars_.end() || state >= found->second.cost.size()) return false;
  const CharCosts& costs = found->second;
  const CharDfa& of = program_.dfas[dfa];
  if (costs.cost[state] == kNone) return false;
  while (costs.cost[state] != 0) {
    const CharDfa::Edge& edge = of.edges[costs.edge[state]];
    out += char_of(edge, json);
    state = edge.target;
  }
  return true;
}

bool Endings::write_space(std::uint32_t state, std::string& out) const {
  if (state >= has_space_.size() || !has_space_[state]) return false;
  out += spaces_[state];
  return true;
}

bool Endings::write_value(std::uint32_t object, std::uint32_t label, Ending& out, std::uint32_t depth) const {
  const ObjectSpec& spec = program_.objects[object];
  if (label == 0) return false;
  const NodeId value = label <= spec.properties.size() ? spec.properties[label - 1].value
                                                       : spec.others[label - 1 - spec.properties.size()];
  return value != kNowhere && write(value, out, depth + 1);
}

bool Endings::write_after_key(std::uint32_t object, std::uint32_t label, Ending& out,
                              std::uint32_t depth) const {
  out.text += ':';
  return write_space(program_.space.after_separator, out.text) && write_value(object, label, out, depth);
}

bool Endings::write_members(std::uint32_t object, const std::vector<std::uint32_t>& labels, bool comma,
                            Ending& out, std::uint32_t depth) const {
  const JsonSpace& space = program_.space;
  for (const std::uint32_t label : labels) {
    const std::string& key = keys_[object][label];
    if (key.empty()) return false;
    if (comma) {
      out.text += ',';
      if (!write_space(space.after_separator, out.text)) return false;
    }
    out.text += key;
    if (!write_after_key(object, label, out, depth)) return false;
    if (!write_space(space.around_brackets, out.text)) return false;
    comma = true;
  }
  out.text += '}';
  return out.text.size() <= kMaxBytes;
}

bool Endings::write_items(const ArraySpec& spec, std::uint32_t index, bool comma, Ending& out,
                          std::uint32_t depth) const {
  const JsonSpace& space = program_.space;
  for (; index < spec.min; ++index) {
    const NodeId item = spec.item(index);
    if (item == kNowhere || out.text.size() > kMaxBytes) return false;
    if (comma) {
      out.text += ',';
      if (!write_space(space.after_separator, out.text)) return false;
    }
    if (!write(item, out, depth + 1)) return false;
    if (!write_space(space.around_brackets, out.text)) return false;
    comma = true;
  }
  out.text += ']';
  return out.text.size() <= kMaxBytes;
}

bool Endings::write(NodeId node, Ending& out, std::uint32_t depth) const {
  if (depth > kMaxDepth) return false;
  for (std::uint32_t guard = 0; guard < 4 * kMaxBytes; ++guard) {
    budget_.charge();  // parts with empty text may repeat more often than the text is long
    if (costs_[node] == kNone || out.text.size() > kMaxBytes) return false;
    const Node& at = program_.nodes[node];
    switch (at.op) {
      case Op::kReturn:
        return true;
      case Op::kFail:
        return false;
      case Op::kSplit: {
        NodeId best = kNowhere;
        for (const NodeId choice : program_.lists[at.arg]) {
          if (costs_[choice] != kNone && (best == kNowhere || costs_[choice] < costs_[best])) best = choice;
        }
        if (best == kNowhere) return false;
        node = best;
        continue;
      }
      case Op::kMark:
        out.marks.push_back({.begin = static_cast<std::uint32_t>(out.text.size()),
                             .bytes = static_cast<std::uint32_t>(program_.texts[at.arg].size())});
        out.text += program_.texts[at.arg];
        break;
      case Op::kLiteral:
        out.text += program_.texts[at.arg];
        break;
      case Op::kDfa:
        if (!write_chars(at.arg, 0, false, out.text)) return false;
        break;
      case Op::kEmbedded:
        if (!write_chars(program_.embedded[at.arg].dfa, 0, true, out.text)) return false;
        break;
      case Op::kString: {
        const JsonStringSpec& spec = program_.strings[at.arg];
        out.text += '"';
        if (spec.dfa == kNowhere) {
          out.text.append(spec.min, 'a');
        } else if (!write_chars(spec.dfa, 0, true, out.text)) {
          return false;
        }
        out.text += '"';
        break;
      }
      case Op::kCall:
        if (!write(at.arg, out, depth + 1)) return false;
        break;
      case Op::kRepeat: {
        const RepeatSpec& spec = program_.repeats[at.arg];
        for (std::uint32_t i = 0; i < spec.min; ++i) {
          if (i > kMaxBytes || !write(spec.body, out, depth + 1)) return false;
        }
        break;
      }
      case Op::kObject: {
        std::vector<std::uint32_t> labels;
        out.text += '{';
        if (!write_space(program_.space.around_brackets, out.text) ||
            !members_to_come(at.arg, {}, 0, 0, labels) || !write_members(at.arg, labels, false, out, depth)) {
          return false;
        }
        break;
      }
      case Op::kArray:
        out.text += '[';
        if (!write_space(program_.space.around_brackets, out.text) ||
            !write_items(program_.arrays[at.arg], 0, false, out, depth)) {
          return false;
        }
        break;
      case Op::kText: {
        const TextSpec& spec = program_.free_texts[at.arg];
        if (spec.may_end) return true;
        out.marks.push_back({.begin = static_cast<std::uint32_t>(out.text.size()),
                             .bytes = static_cast<std::uint32_t>(spec.mark.size())});
        out.text += spec.mark;
        break;
      }
    }
    node = at.next;
  }
  return false;
}

// -- from a location

bool LocationEndings::write(const Location& location, Ending& out) const {
  const Node& node = program_.nodes[location.node];
  const auto add_mark = [&](const std::string& text) {
    if (location.a == 0) {
      out.marks.push_back({.begin = static_cast<std::uint32_t>(out.text.size()),
                           .bytes = static_cast<std::uint32_t>(text.size())});
    }
    out.text += text.substr(location.a);
  };
  switch (node.op) {
    case Op::kLiteral:
      out.text += program_.texts[node.arg].substr(location.a);
      break;
    case Op::kMark:
      add_mark(program_.texts[node.arg]);
      break;
    case Op::kText:
      add_mark(program_.free_texts[node.arg].mark);
      break;
    case Op::kDfa:
      if (!endings_.write_chars(node.arg, location.a, false, out.text)) return false;
      break;
    case Op::kEmbedded: {
      const EmbeddedSpec& spec = program_.embedded[node.arg];
      if (spec.mark != kNowhere || !endings_.write_chars(spec.dfa, location.a, true, out.text)) return false;
      break;
    }
    case Op::kString: {
      const JsonStringSpec& spec = program_.strings[node.arg];
      if (location.phase == 0) return endings_.write(location.node, out) && write_frames(location.stack, out);
      if (spec.dfa == kNowhere) {
        const std::uint32_t missing = spec.min - std::min(spec.min, location.a);
        if (missing > Endings::kMaxBytes) return false;
        out.text.append(missing, 'a');
      } else if (!endings_.write_chars(spec.dfa, location.a, true, out.text)) {
        return false;
      }
      out.text += '"';
      break;
    }
    case Op::kObject:
      return write_object(location, out);
    case Op::kArray:
      return write_array(location, out);
    default:
      return false;
  }
  return endings_.write(node.next, out) && write_frames(location.stack, out);
}

// Completes all enclosing values and rules, innermost first.
bool LocationEndings::write_frames(std::uint32_t stack, Ending& out) const {
  const JsonSpace& space = program_.space;
  while (stack != 0) {
    if (out.text.size() > Endings::kMaxBytes) return false;
    const Stacks::Frame& top = stacks_[stack];
    const Node& node = program_.nodes[top.node];
    switch (node.op) {
      case Op::kCall:
        break;
      case Op::kRepeat: {
        const RepeatSpec& spec = program_.repeats[node.arg];
        if (spec.min > Endings::kMaxBytes) return false;
        for (std::uint32_t done = top.value + 1; done < spec.min; ++done) {
          if (!endings_.write(spec.body, out)) return false;
        }
        break;
      }
      case Op::kObject:
        if (!endings_.write_space(space.around_brackets, out.text)) return false;
        if (!write_rest(node.arg, top.value, out)) return false;
        break;
      case Op::kArray:
        if (!endings_.write_space(space.around_brackets, out.text)) return false;
        if (!endings_.write_items(program_.arrays[node.arg], top.value + 1, true, out)) return false;
        break;
      default:
        return false;
    }
    if (!endings_.write(node.next, out)) return false;
    stack = top.below;
  }
  return true;
}

bool LocationEndings::write_rest(std::uint32_t object, std::uint32_t members, Ending& out) const {
  std::vector<std::uint32_t> labels;
  const Stacks::Members& so_far = stacks_.members(members);
  return endings_.members_to_come(object, so_far.seen, so_far.count, 0, labels) &&
         endings_.write_members(object, labels, true, out);
}

bool LocationEndings::write_object(const Location& location, Ending& out) const {
  const Node& node = program_.nodes[location.node];
  const Phase phase = phase_of(location.phase);
  if (phase == Phase::kOpen) return endings_.write(location.node, out) && write_frames(location.stack, out);
  const Stacks::Frame& top = stacks_[location.stack];
  const Stacks::Members& members = stacks_.members(top.value);
  std::vector<std::uint32_t> labels;
  bool written = false;
  switch (phase) {
    case Phase::kOpen:
      break;
    case Phase::kFirst:
      written = endings_.write_space(space_of(location.phase), out.text) &&
                endings_.members_to_come(node.arg, members.seen, members.count, 0, labels) &&
                endings_.write_members(node.arg, labels, false, out);
      break;
    case Phase::kAfter:
      written =
          endings_.write_space(space_of(location.phase), out.text) && write_rest(node.arg, top.value, out);
      break;
    case Phase::kNext:
      written = endings_.write_space(space_of(location.phase), out.text) &&
                members_after_comma(node.arg, members, labels) &&
                endings_.write_members(node.arg, labels, false, out);
      break;
    case Phase::kKey:
      written = write_key(location, out);
      break;
    case Phase::kColon:
    case Phase::kValue:
      written = (phase == Phase::kColon ? endings_.write_after_key(node.arg, location.a, out)
                                        : endings_.write_space(space_of(location.phase), out.text) &&
                                              endings_.write_value(node.arg, location.a, out)) &&
                endings_.write_space(program_.space.around_brackets, out.text) &&
                write_rest(node.arg, top.value, out);
      break;
  }
  return written && endings_.write(node.next, out) && write_frames(top.below, out);
}

// Sets `labels` to the members after a comma, at least one.
bool LocationEndings::members_after_comma(std::uint32_t object, const Stacks::Members& members,
                                          std::vector<std::uint32_t>& labels) const {
  if (!endings_.members_to_come(object, members.seen, members.count, 0, labels)) return false;
  if (!labels.empty()) return true;
  const ObjectSpec& spec = program_.objects[object];
  const auto properties = static_cast<std::uint32_t>(spec.properties.size());
  std::uint32_t best = 0;
  std::uint32_t min = Endings::kNone;
  for (std::uint32_t label = 1; label <= properties + spec.others.size(); ++label) {
    const std::uint32_t cost = endings_.member_cost(object, label);
    if (cost >= min) continue;
    if (label <= properties ? !stacks_.can_add(spec, members, label - 1)
                            : !stacks_.can_add_other(spec, members))
      continue;
    min = cost;
    best = label;
  }
  return best != 0 && endings_.members_to_come(object, members.seen, members.count, best, labels);
}

bool LocationEndings::write_key(const Location& location, Ending& out) const {
  constexpr std::size_t kMaxPaths = 16;  // nearest labels only, because this runs for every state
  constexpr std::size_t kMaxStates = 4096;
  const std::uint32_t object = program_.nodes[location.node].arg;
  const ObjectSpec& spec = program_.objects[object];
  const Stacks::Members& members = stacks_.members(stacks_[location.stack].value);
  const auto properties = static_cast<std::uint32_t>(spec.properties.size());
  const auto is_usable = [&](std::uint32_t label) {
    if (endings_.member_cost(object, label) == Endings::kNone) return false;
    return label <= properties ? stacks_.can_add(spec, members, label - 1)
                               : stacks_.can_add_other(spec, members);
  };
  std::optional<Endings::Path> best;
  std::uint64_t min = 0;
  for (Endings::Path& path : endings_.paths(spec.keys, location.a, is_usable, kMaxPaths, kMaxStates)) {
    // A required property costs nothing extra.
    const bool required = path.label <= properties && spec.properties[path.label - 1].required;
    const std::uint64_t cost = path.text.size() + (required ? 0 : endings_.member_cost(object, path.label));
    if (best && cost >= min) continue;
    min = cost;
    best = std::move(path);
  }
  std::vector<std::uint32_t> labels;
  if (!best || !endings_.members_to_come(object, members.seen, members.count, best->label, labels))
    return false;
  out.text += best->text + '"';
  if (!endings_.write_after_key(object, best->label, out)) return false;
  if (!endings_.write_space(program_.space.around_brackets, out.text)) return false;
  labels.erase(labels.begin());
  return endings_.write_members(object, labels, true, out);
}

bool LocationEndings::write_array(const Location& location, Ending& out) const {
  const Node& node = program_.nodes[location.node];
  const ArraySpec& spec = program_.arrays[node.arg];
  const Phase phase = phase_of(location.phase);
  if (phase == Phase::kOpen) return endings_.write(location.node, out) && write_frames(location.stack, out);
  const Stacks::Frame& top = stacks_[location.stack];
  if (!endings_.write_space(space_of(location.phase), out.text)) return false;
  std::uint32_t done = top.value;
  if (phase == Phase::kNext) {  // an item must follow the comma
    const NodeId item = spec.item(done);
    if (item == kNowhere || !endings_.write(item, out) ||
        !endings_.write_space(program_.space.around_brackets, out.text)) {
      return false;
    }
    ++done;
  }
  return endings_.write_items(spec, done, phase != Phase::kFirst, out) && endings_.write(node.next, out) &&
         write_frames(top.below, out);
}

}  // namespace reprise::protocol::grammar
