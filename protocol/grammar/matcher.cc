#include "protocol/grammar/matcher.h"

#include <algorithm>
#include <string_view>

#include "base/check.h"
#include "protocol/grammar/location.h"

namespace reprise::protocol::grammar {
namespace {

/// Returns whether the node may connect two automata of one embedded text, or is one.
bool is_of_text(Op op) {
  return op == Op::kEmbedded || op == Op::kReturn || op == Op::kSplit || op == Op::kCall || op == Op::kRepeat;
}

/// Returns the bytes of the mark that match after another byte (Knuth-Morris-Pratt); its length: the mark is
/// complete.
std::uint32_t read_of_mark(const TextSpec& spec, std::uint32_t read, std::uint8_t byte) {
  while (read > 0 && static_cast<std::uint8_t>(spec.mark[read]) != byte) read = spec.borders[read];
  return static_cast<std::uint8_t>(spec.mark[read]) == byte ? read + 1 : read;
}

std::uint32_t one_more(std::uint32_t count, std::uint32_t enough, std::uint32_t max) {
  return max == kUnbounded ? std::min(count + 1, enough) : count + 1;
}

// Returns the representative of `count`: equally far from both bounds, or farther than any token is long.
std::uint32_t typical_count(const JsonStringSpec& spec, std::uint32_t count) {
  constexpr std::uint32_t kFar = Matcher::kManyChars;
  const std::uint32_t remaining = spec.max == kUnbounded ? kUnbounded : spec.max - count;
  if (count >= spec.min) return remaining >= kFar ? spec.min : count;
  return spec.min - count >= kFar ? spec.min - kFar : count;
}

constexpr std::size_t kMaxLocations = 256;  // states with more get no ending
constexpr std::size_t kMaxCharBytes = 12;   // bytes of an escaped surrogate pair

// Bytes that may continue a character, shortest continuations first.
constexpr std::string_view kInCharacter = "n\"\\/0123456789abcdefDCu";

}  // namespace

Matcher::Matcher(std::shared_ptr<const Program> program, WorkBudget& budget)
    : program_(std::move(program)), budget_(budget), stacks_(budget) {
  states_.emplace_back();  // kDead
  states_[kDead].next = std::make_unique<Transitions>();
  states_[kDead].next->fill(kDead);
  std::vector<Location> open;
  enter(program_->start, 0, open);
  start_ = intern(std::move(open));
}

Matcher::State Matcher::step(State state, std::string_view bytes) {
  for (const char byte : bytes) state = step(state, static_cast<std::uint8_t>(byte));
  return state;
}

Matcher::State Matcher::find_step(State state, std::uint8_t byte) {
  std::vector<Location> open;
  budget_.charge(1 + states_[state].locations.size());
  for (std::size_t i = 0; i < states_[state].locations.size(); ++i) {
    const Location location = states_[state].locations[i];
    advance(location, byte, open);
  }
  const State next = open.empty() ? kDead : intern(std::move(open));
  keep_step(states_[state], byte, next);
  return next;
}

void Matcher::keep_step(StateData& data, std::uint8_t byte, State next) {
  if (data.next == nullptr && data.few_count < kFew) {
    data.few_bytes[data.few_count] = byte;
    data.few[data.few_count++] = next;
    return;
  }
  if (data.next == nullptr) {
    data.next = std::make_unique<Transitions>();
    data.next->fill(kUnknown);
    for (std::size_t i = 0; i < kFew; ++i) (*data.next)[data.few_bytes[i]] = data.few[i];
    keep_bytes(sizeof(Transitions));
  }
  (*data.next)[byte] = next;
}

Matcher::State Matcher::step_special(State state, std::string_view text) {
  std::vector<Location> marked;
  std::vector<Location> in_text;
  budget_.charge(states_[state].locations.size());
  for (const Location& location : states_[state].locations) {
    const Node& node = program_->nodes[location.node];
    if (node.op == Op::kMark && location.a == 0 && program_->texts[node.arg] == text) {
      enter(node.next, location.stack, marked);
    } else if (node.op == Op::kText) {
      in_text.push_back(location);
    }
  }
  if (!in_text.empty()) {
    const State through = step(intern(std::move(in_text)), text);
    if (marked.empty()) return through;
    const std::vector<Location>& locations = states_[through].locations;
    marked.insert(marked.end(), locations.begin(), locations.end());
  }
  return marked.empty() ? kDead : intern(std::move(marked));
}

// -- states

Matcher::State Matcher::intern(std::vector<Location> open, bool accepts) {
  StateData data;
  data.accepts = accepts;
  close(open, data.locations, data.accepts);
  if (data.locations.empty() && !data.accepts) return kDead;
  std::sort(data.locations.begin(), data.locations.end());
  budget_.charge(1 + data.locations.size());
  std::uint64_t hash = data.accepts;
  for (const Location& location : data.locations) {
    hash = mix(hash, std::uint64_t{location.node} << 32 | location.stack);
    hash = mix(hash, std::uint64_t{location.a} << 32 | location.b);
    hash = mix(hash, location.phase);
  }
  const auto [begin, end] = state_index_.equal_range(hash);
  for (auto at = begin; at != end; ++at) {
    budget_.charge();
    const StateData& other = states_[at->second];
    if (other.accepts == data.accepts && other.locations == data.locations) return at->second;
  }
  for (const Location& location : data.locations) {
    const Node& node = program_->nodes[location.node];
    data.takes_special =
        data.takes_special || node.op == Op::kText || (node.op == Op::kMark && location.a == 0);
    data.free = data.free || leads_to_free(location);
  }
  keep_bytes(sizeof(StateData) + data.locations.size() * sizeof(Location) + 64);
  states_.push_back(std::move(data));
  const auto state = static_cast<State>(states_.size() - 1);
  state_index_.emplace(hash, state);
  return state;
}

// Expands newly reached locations (epsilon closure) to those that wait for a byte.
void Matcher::close(std::vector<Location>& open, std::vector<Location>& locations, bool& accepts) {
  met_.clear();
  while (!open.empty()) {
    const Location location = open.back();
    open.pop_back();
    budget_.charge();
    if (!first_met(location)) continue;
    if (met_.size() > program_->limits.configurations) {
      throw GrammarError("the grammar is too ambiguous: more than " +
                         std::to_string(program_->limits.configurations) + " alternatives at once");
    }
    const Node& node = program_->nodes[location.node];
    const std::size_t before = open.size();
    switch (node.op) {
      case Op::kReturn:
        leave(location.stack, open, accepts);
        break;
      case Op::kFail:
        break;
      case Op::kSplit:
        budget_.charge(program_->lists[node.arg].size() / 2);
        for (const NodeId choice : program_->lists[node.arg]) enter(choice, location.stack, open);
        break;
      case Op::kCall:
        if (program_->nodes[node.next].op == Op::kReturn) {
          enter(node.arg, location.stack, open);  // tail call
        } else {
          enter(node.arg, stacks_.push(location.node, 0, location.stack), open);
        }
        break;
      case Op::kRepeat: {
        const RepeatSpec& spec = program_->repeats[node.arg];
        if (spec.min == 0) enter(node.next, location.stack, open);
        if (spec.max > 0) enter(spec.body, stacks_.push(location.node, 0, location.stack), open);
        break;
      }
      case Op::kDfa: {
        const CharDfa& dfa = program_->dfas[node.arg];
        if (location.b == 0 && dfa.states[location.a].label != 0) enter(node.next, location.stack, open);
        if (location.b != 0 || dfa.leads_on(location.a)) locations.push_back(location);
        break;
      }
      case Op::kEmbedded: {
        const CharDfa& dfa = program_->dfas[program_->embedded[node.arg].dfa];
        if (location.b == 0 && dfa.states[location.a].label != 0) enter(node.next, location.stack, open);
        if (location.b != 0 || dfa.leads_on(location.a)) locations.push_back(location);
        break;
      }
      case Op::kText:
        if (program_->free_texts[node.arg].may_end) accepts = true;
        locations.push_back(location);
        break;
      case Op::kObject: {
        const ObjectSpec& spec = program_->objects[node.arg];
        if (phase_of(location.phase) == Phase::kValue &&
            program_->space.states[space_of(location.phase)].may_end) {
          const std::size_t properties = spec.properties.size();
          enter(location.a <= properties ? spec.properties[location.a - 1].value
                                         : spec.others[location.a - 1 - properties],
                location.stack, open);
        }
        locations.push_back(location);
        break;
      }
      case Op::kArray: {
        const Phase phase = phase_of(location.phase);
        if ((phase == Phase::kFirst || phase == Phase::kNext) &&
            program_->space.states[space_of(location.phase)].may_end) {
          const NodeId item = program_->arrays[node.arg].item(stacks_[location.stack].value);
          if (item != kNowhere) enter(item, location.stack, open);
        }
        locations.push_back(location);
        break;
      }
      case Op::kLiteral:
      case Op::kMark:
      case Op::kString:
        locations.push_back(location);
        break;
    }
    if (location.phase == 0 || !is_of_text(node.op)) continue;
    for (std::size_t i = before; i < open.size(); ++i) {
      if (is_of_text(program_->nodes[open[i].node].op)) open[i].phase = location.phase;
    }
  }
}

// Returns true once per location. Few are compared linearly; more use an open-addressing table.
bool Matcher::first_met(const Location& location) {
  constexpr std::size_t kFew = 16;
  if (met_.size() < kFew) {
    if (std::find(met_.begin(), met_.end(), location) != met_.end()) return false;
    met_.push_back(location);
    return true;
  }
  const auto slot_of = [this](const Location& one) -> std::uint32_t& {
    const std::size_t last = met_table_.size() - 1;
    const std::uint64_t hash =
        mix(mix(mix(one.phase, std::uint64_t{one.node} << 32 | one.stack), one.a), one.b);
    std::size_t at = (hash >> 20) & last;
    while (met_table_[at] != 0 && met_[met_table_[at] - 1] != one) at = (at + 1) & last;
    return met_table_[at];
  };
  if (met_.size() == kFew || 2 * met_.size() >= met_table_.size()) {
    met_table_.assign(met_.size() == kFew ? 4 * kFew : 2 * met_table_.size(), 0);
    for (std::uint32_t i = 0; i < met_.size(); ++i) slot_of(met_[i]) = i + 1;
  }
  std::uint32_t& slot = slot_of(location);
  if (slot != 0) return false;
  met_.push_back(location);
  slot = static_cast<std::uint32_t>(met_.size());
  return true;
}

void Matcher::enter(NodeId node, std::uint32_t stack, std::vector<Location>& open) const {
  open.push_back({.node = node, .stack = stack});
}

// Ends a rule or value and continues in the enclosing frame.
void Matcher::leave(std::uint32_t stack, std::vector<Location>& open, bool& accepts) {
  if (stack == 0) {
    accepts = true;
    return;
  }
  const Stacks::Frame top = stacks_[stack];
  const Node& node = program_->nodes[top.node];
  switch (node.op) {
    case Op::kCall:
      return enter(node.next, top.below, open);
    case Op::kRepeat: {
      const RepeatSpec& spec = program_->repeats[node.arg];
      const std::uint32_t done = one_more(top.value, spec.min, spec.max);
      if (done >= spec.min) enter(node.next, top.below, open);
      if (done < spec.max) enter(spec.body, stacks_.push(top.node, done, top.below), open);
      return;
    }
    case Op::kObject:
      open.push_back({.node = top.node, .phase = begun(Phase::kAfter, program_->space), .stack = stack});
      return;
    case Op::kArray: {
      const ArraySpec& spec = program_->arrays[node.arg];
      const auto enough = std::max(spec.min, static_cast<std::uint32_t>(spec.first.size()));
      const std::uint32_t done = one_more(top.value, enough, spec.max);
      open.push_back({.node = top.node,
                      .phase = begun(Phase::kAfter, program_->space),
                      .stack = stacks_.push(top.node, done, top.below)});
      return;
    }
    default:
      REPRISE_CHECK(false, "the node's kind has no stack frame");
  }
}

// -- one byte

void Matcher::advance(const Location& location, std::uint8_t byte, std::vector<Location>& open) {
  const Node& node = program_->nodes[location.node];
  switch (node.op) {
    case Op::kLiteral:
    case Op::kMark: {
      const std::string& text = program_->texts[node.arg];
      if (static_cast<std::uint8_t>(text[location.a]) != byte) return;
      if (location.a + 1 == text.size()) return enter(node.next, location.stack, open);
      open.push_back({.node = location.node, .a = location.a + 1, .stack = location.stack});
      return;
    }
    case Op::kText: {
      const TextSpec& spec = program_->free_texts[node.arg];
      const std::uint32_t read = read_of_mark(spec, location.a, byte);
      if (read == spec.mark.size()) return enter(node.next, location.stack, open);
      open.push_back({.node = location.node, .a = read, .stack = location.stack});
      return;
    }
    case Op::kDfa:
      return advance_dfa(location, byte, open);
    case Op::kEmbedded:
      return advance_embedded(location, byte, open);
    case Op::kString:
      return advance_string(location, byte, open);
    case Op::kObject:
      return advance_object(location, byte, open);
    case Op::kArray:
      return advance_array(location, byte, open);
    default:
      REPRISE_CHECK(false, "the parser's state takes no byte");
  }
}

void Matcher::advance_dfa(const Location& location, std::uint8_t byte, std::vector<Location>& open) {
  const CharDfa& dfa = program_->dfas[program_->nodes[location.node].arg];
  const CharStep step = utf8_step(location.b, byte);
  if (step.kind == CharStep::Kind::kWhole) {
    const std::uint32_t next = dfa.step(location.a, step.code_point);
    if (next != CharDfa::kDead) open.push_back({.node = location.node, .a = next, .stack = location.stack});
  } else if (step.kind == CharStep::Kind::kPart &&
             dfa.leads_on(location.a, step.possible.low, step.possible.high)) {
    open.push_back({.node = location.node, .a = location.a, .b = step.progress, .stack = location.stack});
  }
}

// The quote that ends a JSON string is not part of the embedded text; the program has it as a literal.
void Matcher::advance_embedded(const Location& location, std::uint8_t byte, std::vector<Location>& open) {
  const EmbeddedSpec& spec = program_->embedded[program_->nodes[location.node].arg];
  const CharDfa& dfa = program_->dfas[spec.dfa];
  Location next = location;
  if (spec.mark != kNowhere) {
    const TextSpec& mark = program_->free_texts[spec.mark];
    next.phase = read_of_mark(mark, location.phase, byte);
    if (next.phase == mark.mark.size()) return;
  }
  const CharStep step = spec.mark != kNowhere ? utf8_step(location.b, byte) : json_step(location.b, byte);
  if (step.kind == CharStep::Kind::kWhole) {
    next.a = dfa.step(location.a, step.code_point);
    next.b = 0;
    if (next.a != CharDfa::kDead) open.push_back(next);
  } else if (step.kind == CharStep::Kind::kPart &&
             (dfa.leads_on(location.a, step.possible.low, step.possible.high) ||
              dfa.leads_on(location.a, step.possible2.low, step.possible2.high))) {
    next.b = step.progress;
    open.push_back(next);
  }
}

void Matcher::advance_string(const Location& location, std::uint8_t byte, std::vector<Location>& open) {
  const Node& node = program_->nodes[location.node];
  const JsonStringSpec& spec = program_->strings[node.arg];
  if (location.phase == 0) {
    if (byte == '"') open.push_back({.node = location.node, .phase = 1, .stack = location.stack});
    return;
  }
  const CharDfa* dfa = spec.dfa == kNowhere ? nullptr : &program_->dfas[spec.dfa];
  const CharStep step = json_step(location.b, byte);
  Location next = location;
  switch (step.kind) {
    case CharStep::Kind::kBad:
      return;
    case CharStep::Kind::kQuote:
      if (dfa != nullptr ? dfa->states[location.a].label != 0 : location.a >= spec.min) {
        enter(node.next, location.stack, open);
      }
      return;
    case CharStep::Kind::kWhole:
      next.b = 0;
      next.a =
          dfa != nullptr ? dfa->step(location.a, step.code_point) : one_more(location.a, spec.min, spec.max);
      if (dfa != nullptr ? next.a == CharDfa::kDead : next.a > spec.max) return;
      break;
    case CharStep::Kind::kPart:
      next.b = step.progress;
      if (dfa != nullptr ? !dfa->leads_on(location.a, step.possible.low, step.possible.high) &&
                               !dfa->leads_on(location.a, step.possible2.low, step.possible2.high)
                         : spec.max != kUnbounded && location.a >= spec.max) {
        return;
      }
      break;
  }
  open.push_back(next);
}

// -- objects and arrays: brackets, commas, keys

void Matcher::advance_object(const Location& location, std::uint8_t byte, std::vector<Location>& open) {
  const Node& node = program_->nodes[location.node];
  const ObjectSpec& spec = program_->objects[node.arg];
  const Phase phase = phase_of(location.phase);
  const auto go_to = [&](Phase next, std::uint32_t a = 0) {
    open.push_back(
        {.node = location.node, .a = a, .phase = begun(next, program_->space), .stack = location.stack});
  };
  if (phase == Phase::kOpen) {
    if (byte != '{') return;
    open.push_back({.node = location.node,
                    .phase = begun(Phase::kFirst, program_->space),
                    .stack = stacks_.push(location.node, 0, location.stack)});
    return;
  }
  if (phase == Phase::kKey) return advance_key(location, byte, open);
  if (phase == Phase::kColon) {
    if (byte == ':') go_to(Phase::kValue, location.a);
    return;
  }
  const JsonSpace& spaces = program_->space;
  if (const auto space = spaces.step(space_of(location.phase), byte); space != kNowhere) {
    Location next = location;
    next.phase = in_phase(phase, space);
    open.push_back(next);
    return;
  }
  if (!spaces.states[space_of(location.phase)].may_end) return;
  const Stacks::Members& members = stacks_.members(stacks_[location.stack].value);
  if (byte == '"' && (phase == Phase::kFirst || phase == Phase::kNext)) {
    if (stacks_.can_add_any(spec, members)) go_to(Phase::kKey);
  } else if (byte == '}' && (phase == Phase::kFirst || phase == Phase::kAfter)) {
    if (stacks_.may_close(spec, members)) enter(node.next, stacks_[location.stack].below, open);
  } else if (byte == ',' && phase == Phase::kAfter) {
    if (stacks_.can_add_any(spec, members)) go_to(Phase::kNext);
  }
}

void Matcher::advance_key(const Location& location, std::uint8_t byte, std::vector<Location>& open) {
  const ObjectSpec& spec = program_->objects[program_->nodes[location.node].arg];
  const CharDfa& keys = program_->dfas[spec.keys];
  const Stacks::Frame top = stacks_[location.stack];
  const CharStep step = json_step(location.b, byte);
  const auto possible = [&](std::uint32_t state) {
    return stacks_.leads_to_key(spec, stacks_.members(top.value), state);
  };
  Location next = location;
  switch (step.kind) {
    case CharStep::Kind::kBad:
      return;
    case CharStep::Kind::kWhole:
      next.b = 0;
      next.a = keys.step(location.a, step.code_point);
      if (next.a == CharDfa::kDead || !possible(next.a)) return;
      break;
    case CharStep::Kind::kPart: {
      // Some character that it may become must lead to a key.
      const CharDfa::State& state = keys.states[location.a];
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
      return leave_key(location, keys.states[location.a].label, open);
  }
  open.push_back(next);
}

// Handles the quote after a key, if the automaton accepts with that label.
void Matcher::leave_key(const Location& location, std::uint32_t label, std::vector<Location>& open) {
  if (label == 0) return;
  const ObjectSpec& spec = program_->objects[program_->nodes[location.node].arg];
  const Stacks::Frame top = stacks_[location.stack];
  std::uint32_t members = top.value;
  if (label <= spec.properties.size()) {
    if (!stacks_.can_add(spec, stacks_.members(top.value), label - 1)) return;
    members = stacks_.with_property(spec, top.value, label - 1);
  } else {
    if (spec.others[label - 1 - spec.properties.size()] == kNowhere) return;
    if (!stacks_.can_add_other(spec, stacks_.members(top.value))) return;
    members = stacks_.with_other(spec, top.value);
  }
  open.push_back({.node = location.node,
                  .a = label,
                  .phase = in_phase(Phase::kColon),
                  .stack = stacks_.push(location.node, members, top.below)});
}

void Matcher::advance_array(const Location& location, std::uint8_t byte, std::vector<Location>& open) {
  const Node& node = program_->nodes[location.node];
  const ArraySpec& spec = program_->arrays[node.arg];
  const Phase phase = phase_of(location.phase);
  if (phase == Phase::kOpen) {
    if (byte != '[') return;
    open.push_back({.node = location.node,
                    .phase = begun(Phase::kFirst, program_->space),
                    .stack = stacks_.push(location.node, 0, location.stack)});
    return;
  }
  const JsonSpace& spaces = program_->space;
  if (const auto space = spaces.step(space_of(location.phase), byte); space != kNowhere) {
    Location next = location;
    next.phase = in_phase(phase, space);
    open.push_back(next);
    return;
  }
  if (!spaces.states[space_of(location.phase)].may_end) return;
  const Stacks::Frame top = stacks_[location.stack];
  if (byte == ']' && (phase == Phase::kFirst || phase == Phase::kAfter)) {
    if (top.value >= spec.min) enter(node.next, top.below, open);
  } else if (byte == ',' && phase == Phase::kAfter) {
    if (spec.item(top.value) == kNowhere) return;
    open.push_back(
        {.node = location.node, .phase = begun(Phase::kNext, program_->space), .stack = location.stack});
  }
}

// -- locations within strings, and merging of counts

Matcher::State Matcher::typical(State state) {
  const StateData& data = states_[state];
  std::vector<Location> locations = data.locations;
  budget_.charge(locations.size());
  for (Location& location : locations) {
    const Node& node = program_->nodes[location.node];
    if (node.op == Op::kDfa) {
      location.a = program_->dfas[node.arg].states[location.a].alike;
    } else if (node.op == Op::kEmbedded) {
      location.a = program_->dfas[program_->embedded[node.arg].dfa].states[location.a].alike;
    } else if (node.op == Op::kString && location.phase == 1) {
      const JsonStringSpec& spec = program_->strings[node.arg];
      location.a = spec.dfa != kNowhere ? program_->dfas[spec.dfa].states[location.a].alike
                                        : typical_count(spec, location.a);
    }
  }
  return locations == data.locations ? state : intern(std::move(locations), data.accepts);
}

// Returns whether all plain tokens may follow.
bool Matcher::leads_to_free(const Location& location) const {
  const Node& node = program_->nodes[location.node];
  if (location.b != 0) return false;
  if (node.op == Op::kString && location.phase == 1) {
    const JsonStringSpec& spec = program_->strings[node.arg];
    if (spec.dfa != kNowhere) return program_->dfas[spec.dfa].states[location.a].free;
    return spec.max == kUnbounded || spec.max - location.a >= kManyChars;
  }
  if (node.op == Op::kObject && phase_of(location.phase) == Phase::kKey) {
    const ObjectSpec& spec = program_->objects[node.arg];
    return program_->dfas[spec.keys].states[location.a].free &&
           stacks_.can_add_other(spec, stacks_.members(stacks_[location.stack].value));
  }
  return false;
}

std::vector<Matcher::Within> Matcher::within(State state) const {
  std::vector<Within> found;
  const std::vector<Location>& locations = states_[state].locations;
  budget_.charge(locations.size());
  for (std::uint32_t i = 0; i < locations.size(); ++i) {
    const Location& location = locations[i];
    const Node& node = program_->nodes[location.node];
    if (node.op == Op::kString && location.phase == 1) {
      const JsonStringSpec& spec = program_->strings[node.arg];
      Within one{.rule = {.dfa = spec.dfa}, .location = location, .index = i};
      if (spec.dfa == kNowhere) {
        // Shift the counts as if the string began here.
        one.rule.min = spec.min > location.a ? std::min(spec.min - location.a, kManyChars) : 0;
        if (spec.max != kUnbounded && spec.max - location.a < kManyChars)
          one.rule.max = spec.max - location.a;
        one.location.a = 0;
      }
      found.push_back(one);
    } else if (node.op == Op::kObject && phase_of(location.phase) == Phase::kKey) {
      const ObjectSpec& spec = program_->objects[node.arg];
      if (!spec.reach[location.a].others ||
          !stacks_.can_add_other(spec, stacks_.members(stacks_[location.stack].value)))
        continue;
      found.push_back({.rule = {.dfa = spec.keys, .object = node.arg}, .location = location, .index = i});
    }
  }
  return found;
}

Matcher::State Matcher::without(State state, const std::vector<Within>& these) {
  std::vector<Location> rest;
  const std::vector<Location>& locations = states_[state].locations;
  auto next = these.begin();  // ordered like the locations
  for (std::uint32_t i = 0; i < locations.size(); ++i) {
    if (next != these.end() && next->index == i) {
      ++next;
    } else {
      rest.push_back(locations[i]);
    }
  }
  return rest.empty() ? kDead : intern(std::move(rest));
}

Matcher::State Matcher::left(const Location& location, std::uint32_t label) {
  std::vector<Location> open;
  const Node& node = program_->nodes[location.node];
  if (node.op == Op::kString) {
    enter(node.next, location.stack, open);
  } else {
    leave_key(location, label, open);
  }
  return open.empty() ? kDead : intern(std::move(open));
}

Matcher::State Matcher::moved(Location location, std::uint32_t a, std::uint32_t b) {
  location.a = a;
  location.b = b;
  return intern({location});
}

Matcher::State Matcher::alone(State state, const Within& one) {
  return intern({states_[state].locations[one.index]});
}

// -- the end of a reply

std::optional<Ending> Matcher::ending(State state, const Endings& endings) {
  if (!endings.are_known()) return std::nullopt;
  const LocationEndings from_location(*program_, stacks_, endings);
  std::string begun;
  for (std::size_t hops = 0; hops <= kMaxCharBytes && state != kDead; ++hops) {
    if (accepts(state)) return Ending{.text = std::move(begun)};
    const std::vector<Location> locations = states_[state].locations;
    if (locations.size() > kMaxLocations) return std::nullopt;
    // Prefer the lexicographically lesser of equally long ones, as the order of locations depends on history.
    std::optional<Ending> best;
    for (std::size_t i = 0; i < locations.size(); ++i) {
      if (locations[i].b != 0) continue;
      Ending one{.text = begun};
      try {
        endings.begin_one();
        if (!from_location.write(locations[i], one)) continue;
      } catch (const GrammarError&) {
        continue;
      }
      if (one.text.size() > Endings::kMaxBytes) continue;
      const bool better = !best || one.text.size() < best->text.size() ||
                          (one.text.size() == best->text.size() && one.text < best->text);
      if (better) best = std::move(one);
    }
    if (best) return best;
    // All locations are within a character: complete it first.
    State next = kDead;
    std::uint8_t byte = 0;
    for (std::uint32_t i = 0; i < kInCharacter.size() + 0x40 && next == kDead; ++i) {
      byte = i < kInCharacter.size() ? static_cast<std::uint8_t>(kInCharacter[i])
                                     : static_cast<std::uint8_t>(0x80 + (i - kInCharacter.size()));
      next = step(state, byte);
    }
    begun += static_cast<char>(byte);
    state = next;
  }
  return std::nullopt;
}

}  // namespace reprise::protocol::grammar
