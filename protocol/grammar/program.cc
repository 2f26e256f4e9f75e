#include "protocol/grammar/program.h"

#include <algorithm>

#include "protocol/grammar/regex.h"

namespace reprise::protocol::grammar {
namespace {

// Finds the nodes that can reach the end, propagating from nodes that surely do to nodes that depend on them.
class EndFinder {
 public:
  EndFinder(const Program& program, WorkBudget& budget)
      : program_(program), budget_(budget), held_(budget), ends_(program.nodes.size()) {
    find_users();
    std::vector<NodeId> found;
    const auto look_at = [&](NodeId node) {
      if (ends_[node] || !can_end(program.nodes[node])) return;
      ends_[node] = true;
      found.push_back(node);
    };
    for (NodeId i = 0; i < program.nodes.size(); ++i) look_at(i);
    // first in, first out: an object comes after its last member
    for (std::size_t at = 0; at < found.size(); ++at) {
      const NodeId node = found[at];
      for (std::uint32_t i = first_user_[node]; i < first_user_[node + 1]; ++i) look_at(users_[i]);
    }
  }

  bool operator()(NodeId node) const { return node != kNowhere && ends_[node]; }

 private:
  template <class Visit>
  void for_each_used(const Node& node, const Visit& visit) const {
    const auto visit_all = [&](const std::vector<NodeId>& list) {
      std::for_each(list.begin(), list.end(), visit);
    };
    switch (node.op) {
      case Op::kReturn:
      case Op::kFail:
        return;
      case Op::kSplit:
        return visit_all(program_.lists[node.arg]);
      case Op::kCall:
        visit(node.arg);
        break;
      case Op::kRepeat:
        visit(program_.repeats[node.arg].body);
        break;
      case Op::kObject: {
        const ObjectSpec& spec = program_.objects[node.arg];
        for (const ObjectSpec::Property& property : spec.properties) visit(property.value);
        visit_all(spec.others);
        break;
      }
      case Op::kArray: {
        const ArraySpec& spec = program_.arrays[node.arg];
        visit_all(spec.first);
        visit(spec.rest);
        break;
      }
      default:
        break;
    }
    visit(node.next);
  }

  // Fills users_ with the users of each node, grouped by node.
  void find_users() {
    first_user_.resize(program_.nodes.size() + 1);
    std::size_t count = 0;
    for (const Node& node : program_.nodes) {
      for_each_used(node, [&](NodeId used) {
        if (used == kNowhere) return;
        ++first_user_[used + 1];
        ++count;
      });
    }
    held_.add(count * sizeof(NodeId) + 3 * first_user_.size() * sizeof(std::uint32_t));
    budget_.charge(count + program_.nodes.size());
    for (std::size_t i = 1; i < first_user_.size(); ++i) first_user_[i] += first_user_[i - 1];
    users_.resize(count);
    std::vector<std::uint32_t> next = first_user_;
    for (NodeId i = 0; i < program_.nodes.size(); ++i) {
      for_each_used(program_.nodes[i], [&](NodeId used) {
        if (used != kNowhere) users_[next[used]++] = i;
      });
    }
  }

  bool can_end(const Node& node) const {
    const auto fits = [this](NodeId id) { return (*this)(id); };
    budget_.charge();
    switch (node.op) {
      case Op::kReturn:
        return true;
      case Op::kFail:
        return false;
      case Op::kSplit: {
        const auto& list = program_.lists[node.arg];
        budget_.charge(list.size() / 4);
        return std::any_of(list.begin(), list.end(), fits);
      }
      case Op::kCall:
        return fits(node.arg) && fits(node.next);
      case Op::kRepeat: {
        const RepeatSpec& spec = program_.repeats[node.arg];
        return (spec.min == 0 || fits(spec.body)) && fits(node.next);
      }
      case Op::kObject:
        return object_ends(program_.objects[node.arg]) && fits(node.next);
      case Op::kArray:
        return array_ends(program_.arrays[node.arg]) && fits(node.next);
      case Op::kText:
        return program_.free_texts[node.arg].may_end || fits(node.next);
      default:
        return fits(node.next);
    }
  }

  bool object_ends(const ObjectSpec& spec) const {
    budget_.charge((spec.properties.size() + spec.others.size()) / 4);
    std::uint64_t available = 0;
    std::uint64_t required = 0;
    for (const ObjectSpec::Property& property : spec.properties) {
      const bool ends = (*this)(property.value);
      if (property.required && !ends) return false;
      available += ends ? 1 : 0;
      required += property.required ? 1 : 0;
    }
    const bool others =
        std::any_of(spec.others.begin(), spec.others.end(), [this](NodeId value) { return (*this)(value); });
    return required <= spec.max && spec.min <= spec.max && (others || available >= spec.min);
  }

  bool array_ends(const ArraySpec& spec) const {
    if (spec.min > spec.max) return false;
    budget_.charge(spec.first.size() / 4);
    for (std::uint32_t i = 0; i < spec.min; ++i) {
      if (!(*this)(spec.item(i))) return false;
      if (i >= spec.first.size()) break;  // further items are all the same
    }
    return true;
  }

  const Program& program_;
  WorkBudget& budget_;
  WorkBudget::Held held_;
  std::vector<bool> ends_;
  std::vector<std::uint32_t> first_user_;
  std::vector<NodeId> users_;
};

}  // namespace

std::size_t Program::bytes() const {
  std::size_t sum = sizeof *this + nodes.size() * sizeof(Node) + strings.size() * sizeof(JsonStringSpec) +
                    repeats.size() * sizeof(RepeatSpec);
  for (const auto& list : lists) sum += sizeof list + list.size() * sizeof(NodeId);
  for (const std::string& text : texts) sum += sizeof text + text.size();
  for (const CharDfa& dfa : dfas) {
    sum += sizeof dfa + dfa.states.size() * sizeof(CharDfa::State) + dfa.edges.size() * sizeof(CharDfa::Edge);
  }
  for (const ObjectSpec& spec : objects) {
    sum += sizeof spec + spec.properties.size() * sizeof(ObjectSpec::Property) +
           spec.others.size() * sizeof(NodeId) + spec.reach.size() * sizeof(ObjectSpec::Reach);
    for (const ObjectSpec::Need& need : spec.needs) sum += sizeof need + need.needs.size() * 4;
  }
  for (const ArraySpec& spec : arrays) sum += sizeof spec + spec.first.size() * sizeof(NodeId);
  for (const TextSpec& spec : free_texts) sum += sizeof spec + spec.mark.size() * 5;
  sum += embedded.size() * sizeof(EmbeddedSpec) + space.states.size() * sizeof(SpaceState);
  return sum;
}

NodeId ProgramBuilder::add(Op op, NodeId next, std::uint32_t arg) {
  if (program_.nodes.size() >= budget_.limits().nodes) {
    throw GrammarError("it is too large: more than " + std::to_string(budget_.limits().nodes) + " nodes");
  }
  budget_.take(sizeof(Node));
  program_.nodes.push_back({op, next, arg});
  return static_cast<NodeId>(program_.nodes.size() - 1);
}

namespace {

template <class T>
std::uint32_t kept(std::vector<T>& all, T one, WorkBudget& budget, std::size_t bytes = 0) {
  budget.take(sizeof(T) + bytes);
  all.push_back(std::move(one));
  return static_cast<std::uint32_t>(all.size() - 1);
}

}  // namespace

NodeId ProgramBuilder::literal(std::string text, NodeId next) {
  if (text.empty()) return next;
  const std::size_t bytes = text.size();
  return add(Op::kLiteral, next, kept(program_.texts, std::move(text), budget_, bytes));
}

NodeId ProgramBuilder::mark(std::string text, NodeId next) {
  if (text.empty()) return next;
  const std::size_t bytes = text.size();
  return add(Op::kMark, next, kept(program_.texts, std::move(text), budget_, bytes));
}

NodeId ProgramBuilder::split(std::vector<NodeId> choices) {
  if (choices.size() == 1) return choices.front();
  const std::size_t bytes = choices.size() * sizeof(NodeId);
  return add(Op::kSplit, 0, kept(program_.lists, std::move(choices), budget_, bytes));
}

std::uint32_t ProgramBuilder::add_dfa(CharDfa dfa) {
  return kept(program_.dfas, std::move(dfa), budget_);
}

NodeId ProgramBuilder::dfa(CharDfa dfa, NodeId next) {
  if (dfa.empty()) return add(Op::kFail, 0, 0);
  return add(Op::kDfa, next, add_dfa(std::move(dfa)));
}

NodeId ProgramBuilder::pattern(std::string_view regex, NodeId next) {
  CharProduct product(budget_);
  product.add(pattern_part(parse_regex(regex, false, budget_), budget_));
  return dfa(product.build(), next);
}

CharDfa ProgramBuilder::automaton_of(const CharSet& set) {
  CharDfa one;
  if (set.empty()) return one;
  budget_.take(set.ranges().size() * sizeof(CharDfa::Edge) + 2 * sizeof(CharDfa::State));
  for (const CharRange& range : set.ranges()) one.edges.push_back({range.low, range.high, 1});
  const auto count = static_cast<std::uint32_t>(one.edges.size());
  one.states = {{.edges = 0, .edges_end = count, .label = 0},
                {.edges = count, .edges_end = count, .label = 1, .alike = 1}};
  return one;
}

NodeId ProgramBuilder::chars(const CharSet& set, NodeId next) {
  return dfa(automaton_of(set), next);
}

NodeId ProgramBuilder::embedded(CharDfa dfa, std::uint32_t mark, NodeId next) {
  if (dfa.empty()) return add(Op::kFail, 0, 0);
  const EmbeddedSpec spec{.dfa = add_dfa(std::move(dfa)), .mark = mark};
  return add(Op::kEmbedded, next, kept(program_.embedded, spec, budget_));
}

NodeId ProgramBuilder::string(JsonStringSpec spec, NodeId next) {
  return add(Op::kString, next, kept(program_.strings, spec, budget_));
}

NodeId ProgramBuilder::repeat(RepeatSpec spec, NodeId next) {
  return add(Op::kRepeat, next, kept(program_.repeats, spec, budget_));
}

NodeId ProgramBuilder::object(ObjectSpec spec, NodeId next) {
  return add(Op::kObject, next, kept(program_.objects, std::move(spec), budget_));
}

NodeId ProgramBuilder::array(ArraySpec spec, NodeId next) {
  return add(Op::kArray, next, kept(program_.arrays, std::move(spec), budget_));
}

std::uint32_t ProgramBuilder::add_mark(std::string mark, bool may_end) {
  TextSpec spec{.mark = std::move(mark), .may_end = may_end, .borders = {0, 0}};
  for (std::size_t i = 1; i < spec.mark.size(); ++i) {
    std::uint32_t border = spec.borders[i];
    while (border > 0 && spec.mark[border] != spec.mark[i]) border = spec.borders[border];
    spec.borders.push_back(spec.mark[border] == spec.mark[i] ? border + 1 : 0);
  }
  return kept(program_.free_texts, std::move(spec), budget_);
}

NodeId ProgramBuilder::text_until(std::string mark, bool may_end, NodeId next) {
  return add(Op::kText, next, add_mark(std::move(mark), may_end));
}

// Makes properties that a required property needs required too.
void ProgramBuilder::spread_required() {
  for (ObjectSpec& spec : program_.objects) {
    for (bool changed = true; changed;) {
      changed = false;
      for (const ObjectSpec::Need& need : spec.needs) {
        budget_.charge(1 + need.needs.size() / 4);
        if (!spec.properties[need.property].required) continue;
        for (const std::uint32_t other : need.needs) {
          changed = changed || !spec.properties[other].required;
          spec.properties[other].required = true;
        }
      }
    }
  }
}

// Removes alternatives and members that cannot be completed. Returns true if that may have made others
// impossible.
bool ProgramBuilder::prune() {
  const EndFinder ends(program_, budget_);
  if (!ends(program_.start)) throw GrammarError("nothing fits it");
  bool lost = false;
  for (auto& list : program_.lists) std::erase_if(list, [&](NodeId id) { return !ends(id); });
  for (RepeatSpec& spec : program_.repeats) {
    if (!ends(spec.body)) spec.max = 0;
  }
  for (ArraySpec& spec : program_.arrays) {
    for (std::uint32_t i = 0; i < spec.first.size(); ++i) {
      if (ends(spec.first[i])) continue;
      spec.max = std::min(spec.max, i);
      break;
    }
    if (!ends(spec.rest)) spec.rest = kNowhere;
  }
  for (ObjectSpec& spec : program_.objects) {
    for (ObjectSpec::Property& property : spec.properties) {
      if (!ends(property.value)) property.value = kNowhere;
    }
    // A property that needs an impossible one is impossible too.
    for (bool changed = true; changed;) {
      changed = false;
      for (const ObjectSpec::Need& need : spec.needs) {
        budget_.charge(1 + need.needs.size() / 4);
        ObjectSpec::Property& property = spec.properties[need.property];
        if (property.value == kNowhere) continue;
        const bool met = std::all_of(need.needs.begin(), need.needs.end(),
                                     [&](std::uint32_t p) { return spec.properties[p].value != kNowhere; });
        if (met) continue;
        property.value = kNowhere;
        changed = true;
        lost = true;
      }
    }
    std::vector<bool> other_ends;
    for (const NodeId value : spec.others) other_ends.push_back(ends(value));
    const auto properties = static_cast<std::uint32_t>(spec.properties.size());
    if (spec.keys == kNowhere) continue;
    const CharDfa& keys = program_.dfas[spec.keys];
    // Propagate the keys that each state reaches backward along the edges.
    if (spec.reach.empty()) budget_.take(keys.states.size() * sizeof(ObjectSpec::Reach));
    spec.reach.assign(keys.states.size(), {properties, 0, false});
    for (bool changed = true; changed;) {
      changed = false;
      budget_.charge(keys.states.size() + keys.edges.size() / 4);
      for (std::size_t s = keys.states.size(); s-- > 0;) {
        ObjectSpec::Reach all = spec.reach[s];
        const auto take = [&all](const ObjectSpec::Reach& reach) {
          all.low = std::min(all.low, reach.low);
          all.high = std::max(all.high, reach.high);
          all.others = all.others || reach.others;
        };
        const CharDfa::State& state = keys.states[s];
        if (state.label > properties) {
          if (other_ends[state.label - 1 - properties]) all.others = true;
        } else if (state.label > 0) {
          take({state.label - 1, state.label, false});
        }
        for (std::uint32_t e = state.edges; e < state.edges_end; ++e) take(spec.reach[keys.edges[e].target]);
        const ObjectSpec::Reach& before = spec.reach[s];
        if (all.low == before.low && all.high == before.high && all.others == before.others) continue;
        spec.reach[s] = all;
        changed = true;
      }
    }
    for (std::size_t i = 0; i < spec.others.size(); ++i) {
      if (!other_ends[i]) spec.others[i] = kNowhere;
    }
  }
  return lost;
}

Program ProgramBuilder::finish(NodeId start) {
  program_.start = start;
  spread_required();
  while (prune()) {
  }
  for (const ObjectSpec& spec : program_.objects) {
    if (spec.keys == kNowhere) continue;
    program_.dfas[spec.keys].find_free([&](std::uint32_t state) { return spec.reach[state].others; },
                                       budget_);
  }
  return std::move(program_);
}

}  // namespace reprise::protocol::grammar
