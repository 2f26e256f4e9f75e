#include "protocol/grammar/matcher.h"

#include <algorithm>
#include <string_view>

#include "base/check.h"
#include "protocol/grammar/places.h"

namespace reprise::protocol::grammar {
namespace {

/// Nodes that stand between two automata of one embedded text, and these.
bool is_of_text(Op op) {
  return op == Op::kEmbedded || op == Op::kReturn || op == Op::kSplit || op == Op::kCall || op == Op::kRepeat;
}

/// How much of the mark has been read behind another byte; all of it: the mark ends there.
std::uint32_t read_of_mark(const TextSpec& spec, std::uint32_t read, std::uint8_t byte) {
  while (read > 0 && static_cast<std::uint8_t>(spec.mark[read]) != byte) read = spec.borders[read];
  return static_cast<std::uint8_t>(spec.mark[read]) == byte ? read + 1 : read;
}

std::uint32_t one_more(std::uint32_t count, std::uint32_t enough, std::uint32_t most) {
  return most == kUnbounded ? std::min(count + 1, enough) : count + 1;
}

// The count that stands for `count`: one that is as far from both bounds, or so far that no token can tell.
std::uint32_t typical_count(const JsonStringSpec& spec, std::uint32_t count) {
  constexpr std::uint32_t kFar = Matcher::kManyChars;
  const std::uint32_t room = spec.most == kUnbounded ? kUnbounded : spec.most - count;
  if (count >= spec.least) return room >= kFar ? spec.least : count;
  return spec.least - count >= kFar ? spec.least - kFar : count;
}

constexpr std::size_t kMaxPlaces = 256;    // of a state; with more of them no ending is looked for
constexpr std::size_t kMaxCharBytes = 12;  // of an escaped pair of surrogates

// Bytes that may go on in a character, those of short ones first.
constexpr std::string_view kInCharacter = "n\"\\/0123456789abcdefDCu";

}  // namespace

Matcher::Matcher(std::shared_ptr<const Program> program, WorkBudget& budget)
    : program_(std::move(program)), budget_(budget), stacks_(budget) {
  states_.emplace_back();  // kDead
  states_[kDead].next = std::make_unique<Transitions>();
  states_[kDead].next->fill(kDead);
  std::vector<Place> open;
  enter(program_->start, 0, open);
  start_ = intern(std::move(open));
}

Matcher::State Matcher::step(State state, std::string_view bytes) {
  for (const char byte : bytes) state = step(state, static_cast<std::uint8_t>(byte));
  return state;
}

Matcher::State Matcher::find_step(State state, std::uint8_t byte) {
  std::vector<Place> open;
  budget_.charge(1 + states_[state].places.size());
  for (std::size_t i = 0; i < states_[state].places.size(); ++i) {
    const Place place = states_[state].places[i];
    advance(place, byte, open);
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
  std::vector<Place> marked;
  std::vector<Place> in_text;
  budget_.charge(states_[state].places.size());
  for (const Place& place : states_[state].places) {
    const Node& node = program_->nodes[place.node];
    if (node.op == Op::kMark && place.a == 0 && program_->texts[node.arg] == text) {
      enter(node.next, place.stack, marked);
    } else if (node.op == Op::kText) {
      in_text.push_back(place);
    }
  }
  if (!in_text.empty()) {
    const State through = step(intern(std::move(in_text)), text);
    if (marked.empty()) return through;
    const std::vector<Place>& places = states_[through].places;
    marked.insert(marked.end(), places.begin(), places.end());
  }
  return marked.empty() ? kDead : intern(std::move(marked));
}

// -- states

Matcher::State Matcher::intern(std::vector<Place> open, bool accepts) {
  StateData data;
  data.accepts = accepts;
  close(open, data.places, data.accepts);
  if (data.places.empty() && !data.accepts) return kDead;
  std::sort(data.places.begin(), data.places.end());
  budget_.charge(1 + data.places.size());
  std::uint64_t hash = data.accepts;
  for (const Place& place : data.places) {
    hash = mix(hash, std::uint64_t{place.node} << 32 | place.stack);
    hash = mix(hash, std::uint64_t{place.a} << 32 | place.b);
    hash = mix(hash, place.phase);
  }
  const auto [begin, end] = state_index_.equal_range(hash);
  for (auto at = begin; at != end; ++at) {
    budget_.charge();
    const StateData& other = states_[at->second];
    if (other.accepts == data.accepts && other.places == data.places) return at->second;
  }
  for (const Place& place : data.places) {
    const Node& node = program_->nodes[place.node];
    data.takes_special = data.takes_special || node.op == Op::kText || (node.op == Op::kMark && place.a == 0);
    data.free = data.free || leads_to_free(place);
  }
  keep_bytes(sizeof(StateData) + data.places.size() * sizeof(Place) + 64);
  states_.push_back(std::move(data));
  const auto state = static_cast<State>(states_.size() - 1);
  state_index_.emplace(hash, state);
  return state;
}

// From places that have just been reached to those that wait for a byte.
void Matcher::close(std::vector<Place>& open, std::vector<Place>& places, bool& accepts) {
  met_.clear();
  while (!open.empty()) {
    const Place place = open.back();
    open.pop_back();
    budget_.charge();
    if (!first_met(place)) continue;
    if (met_.size() > program_->limits.configurations) {
      throw GrammarError("the grammar is too ambiguous: more than " +
                         std::to_string(program_->limits.configurations) + " alternatives at once");
    }
    const Node& node = program_->nodes[place.node];
    const std::size_t before = open.size();
    switch (node.op) {
      case Op::kReturn:
        leave(place.stack, open, accepts);
        break;
      case Op::kFail:
        break;
      case Op::kSplit:
        budget_.charge(program_->lists[node.arg].size() / 2);
        for (const NodeId choice : program_->lists[node.arg]) enter(choice, place.stack, open);
        break;
      case Op::kCall:
        if (program_->nodes[node.next].op == Op::kReturn) {
          enter(node.arg, place.stack, open);  // nothing to come back to
        } else {
          enter(node.arg, stacks_.push(place.node, 0, place.stack), open);
        }
        break;
      case Op::kRepeat: {
        const RepeatSpec& spec = program_->repeats[node.arg];
        if (spec.least == 0) enter(node.next, place.stack, open);
        if (spec.most > 0) enter(spec.body, stacks_.push(place.node, 0, place.stack), open);
        break;
      }
      case Op::kDfa: {
        const CharDfa& dfa = program_->dfas[node.arg];
        if (place.b == 0 && dfa.states[place.a].label != 0) enter(node.next, place.stack, open);
        if (place.b != 0 || dfa.leads_on(place.a)) places.push_back(place);
        break;
      }
      case Op::kEmbedded: {
        const CharDfa& dfa = program_->dfas[program_->embedded[node.arg].dfa];
        if (place.b == 0 && dfa.states[place.a].label != 0) enter(node.next, place.stack, open);
        if (place.b != 0 || dfa.leads_on(place.a)) places.push_back(place);
        break;
      }
      case Op::kText:
        if (program_->free_texts[node.arg].may_end) accepts = true;
        places.push_back(place);
        break;
      case Op::kObject: {
        const ObjectSpec& spec = program_->objects[node.arg];
        if (phase_of(place.phase) == Phase::kValue && program_->space.states[space_of(place.phase)].may_end) {
          const std::size_t properties = spec.properties.size();
          enter(place.a <= properties ? spec.properties[place.a - 1].value
                                      : spec.others[place.a - 1 - properties],
                place.stack, open);
        }
        places.push_back(place);
        break;
      }
      case Op::kArray: {
        const Phase phase = phase_of(place.phase);
        if ((phase == Phase::kFirst || phase == Phase::kNext) &&
            program_->space.states[space_of(place.phase)].may_end) {
          const NodeId item = program_->arrays[node.arg].item(stacks_[place.stack].value);
          if (item != kNowhere) enter(item, place.stack, open);
        }
        places.push_back(place);
        break;
      }
      case Op::kLiteral:
      case Op::kMark:
      case Op::kString:
        places.push_back(place);
        break;
    }
    if (place.phase == 0 || !is_of_text(node.op)) continue;
    for (std::size_t i = before; i < open.size(); ++i) {
      if (is_of_text(program_->nodes[open[i].node].op)) open[i].phase = place.phase;
    }
  }
}

// Few are compared one by one; the rest has a table of open addresses.
bool Matcher::first_met(const Place& place) {
  constexpr std::size_t kFew = 16;
  if (met_.size() < kFew) {
    if (std::find(met_.begin(), met_.end(), place) != met_.end()) return false;
    met_.push_back(place);
    return true;
  }
  const auto slot_of = [this](const Place& one) -> std::uint32_t& {
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
  std::uint32_t& slot = slot_of(place);
  if (slot != 0) return false;
  met_.push_back(place);
  slot = static_cast<std::uint32_t>(met_.size());
  return true;
}

void Matcher::enter(NodeId node, std::uint32_t stack, std::vector<Place>& open) const {
  open.push_back({.node = node, .stack = stack});
}

// A rule or value has ended: what it stood in goes on.
void Matcher::leave(std::uint32_t stack, std::vector<Place>& open, bool& accepts) {
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
      const std::uint32_t done = one_more(top.value, spec.least, spec.most);
      if (done >= spec.least) enter(node.next, top.below, open);
      if (done < spec.most) enter(spec.body, stacks_.push(top.node, done, top.below), open);
      return;
    }
    case Op::kObject:
      open.push_back({.node = top.node, .phase = begun(Phase::kAfter, program_->space), .stack = stack});
      return;
    case Op::kArray: {
      const ArraySpec& spec = program_->arrays[node.arg];
      const auto enough = std::max(spec.least, static_cast<std::uint32_t>(spec.first.size()));
      const std::uint32_t done = one_more(top.value, enough, spec.most);
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

void Matcher::advance(const Place& place, std::uint8_t byte, std::vector<Place>& open) {
  const Node& node = program_->nodes[place.node];
  switch (node.op) {
    case Op::kLiteral:
    case Op::kMark: {
      const std::string& text = program_->texts[node.arg];
      if (static_cast<std::uint8_t>(text[place.a]) != byte) return;
      if (place.a + 1 == text.size()) return enter(node.next, place.stack, open);
      open.push_back({.node = place.node, .a = place.a + 1, .stack = place.stack});
      return;
    }
    case Op::kText: {
      const TextSpec& spec = program_->free_texts[node.arg];
      const std::uint32_t read = read_of_mark(spec, place.a, byte);
      if (read == spec.mark.size()) return enter(node.next, place.stack, open);
      open.push_back({.node = place.node, .a = read, .stack = place.stack});
      return;
    }
    case Op::kDfa:
      return advance_dfa(place, byte, open);
    case Op::kEmbedded:
      return advance_embedded(place, byte, open);
    case Op::kString:
      return advance_string(place, byte, open);
    case Op::kObject:
      return advance_object(place, byte, open);
    case Op::kArray:
      return advance_array(place, byte, open);
    default:
      REPRISE_CHECK(false, "the parser's state takes no byte");
  }
}

void Matcher::advance_dfa(const Place& place, std::uint8_t byte, std::vector<Place>& open) {
  const CharDfa& dfa = program_->dfas[program_->nodes[place.node].arg];
  const CharStep step = utf8_step(place.b, byte);
  if (step.kind == CharStep::Kind::kWhole) {
    const std::uint32_t next = dfa.step(place.a, step.code_point);
    if (next != CharDfa::kDead) open.push_back({.node = place.node, .a = next, .stack = place.stack});
  } else if (step.kind == CharStep::Kind::kPart &&
             dfa.leads_on(place.a, step.possible.low, step.possible.high)) {
    open.push_back({.node = place.node, .a = place.a, .b = step.progress, .stack = place.stack});
  }
}

// A quote that ends a JSON string is no part of its text: the program has it as a literal.
void Matcher::advance_embedded(const Place& place, std::uint8_t byte, std::vector<Place>& open) {
  const EmbeddedSpec& spec = program_->embedded[program_->nodes[place.node].arg];
  const CharDfa& dfa = program_->dfas[spec.dfa];
  Place next = place;
  if (spec.mark != kNowhere) {
    const TextSpec& mark = program_->free_texts[spec.mark];
    next.phase = read_of_mark(mark, place.phase, byte);
    if (next.phase == mark.mark.size()) return;
  }
  const CharStep step = spec.mark != kNowhere ? utf8_step(place.b, byte) : json_step(place.b, byte);
  if (step.kind == CharStep::Kind::kWhole) {
    next.a = dfa.step(place.a, step.code_point);
    next.b = 0;
    if (next.a != CharDfa::kDead) open.push_back(next);
  } else if (step.kind == CharStep::Kind::kPart &&
             (dfa.leads_on(place.a, step.possible.low, step.possible.high) ||
              dfa.leads_on(place.a, step.possible2.low, step.possible2.high))) {
    next.b = step.progress;
    open.push_back(next);
  }
}

void Matcher::advance_string(const Place& place, std::uint8_t byte, std::vector<Place>& open) {
  const Node& node = program_->nodes[place.node];
  const JsonStringSpec& spec = program_->strings[node.arg];
  if (place.phase == 0) {
    if (byte == '"') open.push_back({.node = place.node, .phase = 1, .stack = place.stack});
    return;
  }
  const CharDfa* dfa = spec.dfa == kNowhere ? nullptr : &program_->dfas[spec.dfa];
  const CharStep step = json_step(place.b, byte);
  Place next = place;
  switch (step.kind) {
    case CharStep::Kind::kBad:
      return;
    case CharStep::Kind::kQuote:
      if (dfa != nullptr ? dfa->states[place.a].label != 0 : place.a >= spec.least) {
        enter(node.next, place.stack, open);
      }
      return;
    case CharStep::Kind::kWhole:
      next.b = 0;
      next.a =
          dfa != nullptr ? dfa->step(place.a, step.code_point) : one_more(place.a, spec.least, spec.most);
      if (dfa != nullptr ? next.a == CharDfa::kDead : next.a > spec.most) return;
      break;
    case CharStep::Kind::kPart:
      next.b = step.progress;
      if (dfa != nullptr ? !dfa->leads_on(place.a, step.possible.low, step.possible.high) &&
                               !dfa->leads_on(place.a, step.possible2.low, step.possible2.high)
                         : spec.most != kUnbounded && place.a >= spec.most) {
        return;
      }
      break;
  }
  open.push_back(next);
}

// -- objects and arrays: brackets, commas, keys

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
                    .stack = stacks_.push(place.node, 0, place.stack)});
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
  const Stacks::Members& members = stacks_.members(stacks_[place.stack].value);
  if (byte == '"' && (phase == Phase::kFirst || phase == Phase::kNext)) {
    if (stacks_.can_add_any(spec, members)) go_to(Phase::kKey);
  } else if (byte == '}' && (phase == Phase::kFirst || phase == Phase::kAfter)) {
    if (stacks_.may_close(spec, members)) enter(node.next, stacks_[place.stack].below, open);
  } else if (byte == ',' && phase == Phase::kAfter) {
    if (stacks_.can_add_any(spec, members)) go_to(Phase::kNext);
  }
}

void Matcher::advance_key(const Place& place, std::uint8_t byte, std::vector<Place>& open) {
  const ObjectSpec& spec = program_->objects[program_->nodes[place.node].arg];
  const CharDfa& keys = program_->dfas[spec.keys];
  const Stacks::Frame top = stacks_[place.stack];
  const CharStep step = json_step(place.b, byte);
  const auto possible = [&](std::uint32_t state) {
    return stacks_.leads_to_key(spec, stacks_.members(top.value), state);
  };
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
  const Stacks::Frame top = stacks_[place.stack];
  std::uint32_t members = top.value;
  if (label <= spec.properties.size()) {
    if (!stacks_.can_add(spec, stacks_.members(top.value), label - 1)) return;
    members = stacks_.with_property(spec, top.value, label - 1);
  } else {
    if (spec.others[label - 1 - spec.properties.size()] == kNowhere) return;
    if (!stacks_.can_add_other(spec, stacks_.members(top.value))) return;
    members = stacks_.with_other(spec, top.value);
  }
  open.push_back({.node = place.node,
                  .a = label,
                  .phase = in_phase(Phase::kColon),
                  .stack = stacks_.push(place.node, members, top.below)});
}

void Matcher::advance_array(const Place& place, std::uint8_t byte, std::vector<Place>& open) {
  const Node& node = program_->nodes[place.node];
  const ArraySpec& spec = program_->arrays[node.arg];
  const Phase phase = phase_of(place.phase);
  if (phase == Phase::kOpen) {
    if (byte != '[') return;
    open.push_back({.node = place.node,
                    .phase = begun(Phase::kFirst, program_->space),
                    .stack = stacks_.push(place.node, 0, place.stack)});
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
  const Stacks::Frame top = stacks_[place.stack];
  if (byte == ']' && (phase == Phase::kFirst || phase == Phase::kAfter)) {
    if (top.value >= spec.least) enter(node.next, top.below, open);
  } else if (byte == ',' && phase == Phase::kAfter) {
    if (spec.item(top.value) == kNowhere) return;
    open.push_back({.node = place.node, .phase = begun(Phase::kNext, program_->space), .stack = place.stack});
  }
}

// -- places within strings, apart from what the strings stand in; and counts, as far as a token can tell them apart

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
           stacks_.can_add_other(spec, stacks_.members(stacks_[place.stack].value));
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
      if (!spec.reach[place.a].others ||
          !stacks_.can_add_other(spec, stacks_.members(stacks_[place.stack].value)))
        continue;
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

// -- the end of a reply

std::optional<Ending> Matcher::ending(State state, const Endings& endings) {
  if (!endings.are_known()) return std::nullopt;
  const PlaceEndings from_place(*program_, stacks_, endings);
  std::string begun;
  for (std::size_t hops = 0; hops <= kMaxCharBytes && state != kDead; ++hops) {
    if (accepts(state)) return Ending{.text = std::move(begun)};
    const std::vector<Place> places = states_[state].places;
    if (places.size() > kMaxPlaces) return std::nullopt;
    // Of two of the same length the lesser one: the order of places depends on what was met before.
    std::optional<Ending> best;
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (places[i].b != 0) continue;
      Ending one{.text = begun};
      try {
        endings.begin_one();
        if (!from_place.write(places[i], one)) continue;
      } catch (const GrammarError&) {
        continue;
      }
      if (one.text.size() > Endings::kMaxBytes) continue;
      const bool better = !best || one.text.size() < best->text.size() ||
                          (one.text.size() == best->text.size() && one.text < best->text);
      if (better) best = std::move(one);
    }
    if (best) return best;
    // All are within a character: it becomes whole.
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
