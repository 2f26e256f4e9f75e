#include "protocol/grammar/char_dfa.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "base/utf8.h"

namespace reprise::protocol::grammar {
namespace {

// A class of characters that no part distinguishes.
struct CharClass {
  std::vector<CharRange> ranges{};
};

// Sweeps over all set boundaries in ascending order and groups ranges that are in the same sets.
std::vector<CharClass> classes_of(const std::vector<CharSet>& sets, WorkBudget& budget) {
  struct Border {
    std::uint32_t at;
    std::uint32_t set;  // the set that begins or ends at `at`
    auto operator<=>(const Border&) const = default;
  };
  WorkBudget::Held held(budget);
  std::vector<Border> borders;
  for (std::uint32_t s = 0; s < sets.size(); ++s) {
    held.add(sets[s].ranges().size() * 2 * sizeof(Border));
    for (const CharRange& range : sets[s].ranges()) {
      borders.push_back({range.low, s});
      borders.push_back({range.high + 1, s});
    }
  }
  std::sort(borders.begin(), borders.end());
  std::map<std::vector<std::uint32_t>, CharClass> by_sets;
  std::vector<std::uint32_t> in;  // sets that contain the current range, ascending
  const auto add = [&](std::uint32_t low, std::uint32_t end) {
    if (low >= end) return;
    budget.charge(2 + in.size());
    const auto [found, is_new] = by_sets.try_emplace(in);
    if (is_new) held.add(in.size() * sizeof(std::uint32_t) + 96);
    found->second.ranges.push_back({low, end - 1});
  };
  constexpr std::uint32_t kSurrogates = 0xD800;
  constexpr std::uint32_t kAfterSurrogates = 0xE000;
  std::uint32_t low = 0;
  for (std::size_t i = 0; i <= borders.size();) {
    const std::uint32_t end = i < borders.size() ? borders[i].at : kMaxCodePoint + 1;
    add(low, std::min(end, kSurrogates));
    add(std::max(low, kAfterSurrogates), end);
    low = end;
    if (i == borders.size()) break;
    for (; i < borders.size() && borders[i].at == end; ++i) {
      const auto found = std::lower_bound(in.begin(), in.end(), borders[i].set);
      budget.charge(1 + in.size() / 16);
      if (found != in.end() && *found == borders[i].set) {
        in.erase(found);
      } else {
        in.insert(found, borders[i].set);
      }
    }
  }
  std::vector<CharClass> classes;
  for (auto& [of_sets, one] : by_sets) classes.push_back(std::move(one));
  return classes;
}

// The automaton before trimming; may have states that reach no accepting state.
struct Explored {
  struct Step {
    std::uint32_t by_class;
    std::uint32_t target;
  };
  std::vector<std::vector<Step>> steps{};  // [state]
  std::vector<std::uint32_t> labels{};
};

std::vector<bool> live_states(const Explored& explored) {
  const std::size_t count = explored.labels.size();
  std::vector<std::vector<std::uint32_t>> sources(count);
  for (std::uint32_t s = 0; s < count; ++s) {
    for (const Explored::Step& step : explored.steps[s]) {
      auto& list = sources[step.target];
      if (list.empty() || list.back() != s) list.push_back(s);
    }
  }
  std::vector<bool> live(count);
  std::vector<std::uint32_t> open;
  for (std::uint32_t s = 0; s < count; ++s) {
    if (explored.labels[s] == 0) continue;
    live[s] = true;
    open.push_back(s);
  }
  while (!open.empty()) {
    const std::uint32_t s = open.back();
    open.pop_back();
    for (const std::uint32_t source : sources[s]) {
      if (live[source]) continue;
      live[source] = true;
      open.push_back(source);
    }
  }
  return live;
}

CharDfa trimmed(const Explored& explored, const std::vector<CharClass>& classes, WorkBudget& budget) {
  const std::vector<bool> live = live_states(explored);
  CharDfa dfa;
  if (live.empty() || !live[0]) return dfa;
  std::vector<std::uint32_t> number(live.size(), CharDfa::kDead);
  std::uint32_t count = 0;
  for (std::size_t s = 0; s < live.size(); ++s) {
    if (live[s]) number[s] = count++;
  }
  for (std::size_t s = 0; s < live.size(); ++s) {
    if (!live[s]) continue;
    std::vector<CharDfa::Edge> edges;
    for (const Explored::Step& step : explored.steps[s]) {
      if (!live[step.target]) continue;
      const std::vector<CharRange>& ranges = classes[step.by_class].ranges;
      budget.charge(ranges.size());
      for (const CharRange& range : ranges) edges.push_back({range.low, range.high, number[step.target]});
    }
    std::sort(edges.begin(), edges.end(), [](const auto& a, const auto& b) { return a.low < b.low; });
    CharDfa::State state{.edges = static_cast<std::uint32_t>(dfa.edges.size()), .label = explored.labels[s]};
    for (const CharDfa::Edge& edge : edges) {
      const bool first = dfa.edges.size() == state.edges;
      if (!first && dfa.edges.back().high + 1 == edge.low && dfa.edges.back().target == edge.target) {
        dfa.edges.back().high = edge.high;
      } else {
        dfa.edges.push_back(edge);
      }
    }
    state.edges_end = static_cast<std::uint32_t>(dfa.edges.size());
    dfa.states.push_back(state);
    budget.take(sizeof(CharDfa::State) + (state.edges_end - state.edges) * sizeof(CharDfa::Edge));
  }
  dfa.find_free([](std::uint32_t) { return true; }, budget);
  dfa.find_alike(budget);
  return dfa;
}

}  // namespace

std::uint32_t CharDfa::step(std::uint32_t state, std::uint32_t code_point) const {
  const auto begin = edges.begin() + states[state].edges;
  const auto end = edges.begin() + states[state].edges_end;
  const auto at =
      std::lower_bound(begin, end, code_point, [](const Edge& e, std::uint32_t c) { return e.high < c; });
  return at != end && at->low <= code_point ? at->target : kDead;
}

bool CharDfa::leads_on(std::uint32_t state, std::uint32_t low, std::uint32_t high) const {
  if (low > high) return false;
  const auto begin = edges.begin() + states[state].edges;
  const auto end = edges.begin() + states[state].edges_end;
  const auto at =
      std::lower_bound(begin, end, low, [](const Edge& e, std::uint32_t c) { return e.high < c; });
  return at != end && at->low <= high;
}

bool CharDfa::accepts(std::string_view text) const {
  if (states.empty()) return false;
  std::uint32_t state = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Char c = read_utf8(text, at);
    at += c.length;
    state = step(state, c.code_point);
    if (state == kDead) return false;
  }
  return states[state].label != 0;
}

CharDfa CharProduct::build() {
  return build([](std::span<const Verdict> verdicts) {
    return std::all_of(verdicts.begin(), verdicts.end(), [](Verdict v) { return v != 0; }) ? 1U : 0U;
  });
}

CharDfa CharProduct::build(const Label& label) {
  WorkBudget::Held held(budget_);
  std::vector<CharSet> sets;
  for (const auto& part : parts_) {
    for (CharSet& set : part->alphabet()) {
      held.add(sizeof(CharSet) + set.ranges().size() * sizeof(CharRange));
      sets.push_back(std::move(set));
    }
  }
  std::sort(sets.begin(), sets.end());
  sets.erase(std::unique(sets.begin(), sets.end()), sets.end());
  const std::vector<CharClass> classes = classes_of(sets, budget_);

  using Tuple = std::vector<CharPart::State>;
  std::map<Tuple, std::uint32_t> numbers;
  std::vector<const Tuple*> tuples;
  const auto size_of = [](const Tuple& tuple) {
    std::size_t size = 0;
    for (const CharPart::State& state : tuple) size += 4 + state.size();
    return size;
  };
  const auto number_of = [&](Tuple tuple) {
    const std::size_t size = size_of(tuple);
    budget_.charge(4 + size / 2);
    const auto [at, is_new] =
        numbers.try_emplace(std::move(tuple), static_cast<std::uint32_t>(tuples.size()));
    if (is_new) {
      tuples.push_back(&at->first);
      if (tuples.size() > budget_.limits().char_states) {
        throw GrammarError("a pattern, or patterns and lengths together, need more than " +
                           std::to_string(budget_.limits().char_states) + " states");
      }
      held.add(160 + 8 * size);
    }
    return at->second;
  };

  Tuple start;
  for (const auto& part : parts_) start.push_back(part->start());
  static_cast<void>(number_of(std::move(start)));
  Explored explored;
  std::vector<Verdict> verdicts(parts_.size());
  for (std::uint32_t s = 0; s < tuples.size(); ++s) {
    const Tuple& tuple = *tuples[s];
    bool possible = true;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      verdicts[i] = parts_[i]->verdict(tuple[i]);
      if (needed_[i] && verdicts[i] == 0) possible = false;
    }
    explored.labels.push_back(possible ? label(verdicts) : 0);
    auto& steps = explored.steps.emplace_back();
    const std::uint64_t of_a_step = 1 + size_of(tuple) / 4;
    for (std::uint32_t c = 0; c < classes.size(); ++c) {
      budget_.charge(of_a_step);
      Tuple next;
      next.reserve(parts_.size());
      bool dead = false;
      for (std::size_t i = 0; i < parts_.size() && !dead; ++i) {
        next.push_back(parts_[i]->step(tuple[i], classes[c].ranges.front().low));
        dead = needed_[i] && next.back().empty();
      }
      if (!dead) steps.push_back({c, number_of(std::move(next))});
    }
    // includes the reverse edges of live_states() and find_free()
    held.add(steps.size() * (sizeof(Explored::Step) + 2 * sizeof(std::uint32_t)));
  }
  budget_.add_char_states(tuples.size());
  return trimmed(explored, classes, budget_);
}

// -- states that no text of bounded length distinguishes (alike), and states that plain text does not leave
// (free)

namespace {

constexpr std::size_t kMaxStates = 20'000;

// Characters that need no escape in a JSON string, except the two line separators that '.' of a pattern
// excludes.
constexpr CharRange kPlainChars[] = {
    {0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0x2027}, {0x202A, 0xD7FF}, {0xE000, kMaxCodePoint}};

// Returns whether every plain character leads from `state` to a state with good[target].
bool leads_on_to(const CharDfa& dfa, const CharDfa::State& state, const std::vector<bool>& good) {
  std::uint32_t e = state.edges;
  for (const CharRange& range : kPlainChars) {
    for (std::uint32_t next = range.low; next <= range.high;) {
      while (e < state.edges_end && dfa.edges[e].high < next) ++e;
      if (e == state.edges_end || dfa.edges[e].low > next || !good[dfa.edges[e].target]) return false;
      next = dfa.edges[e].high + 1;
    }
  }
  return true;
}

// Partition refinement: each round distinguishes states by one more character.
class Refiner {
 public:
  Refiner(const CharDfa& dfa, WorkBudget& budget)
      : dfa_(dfa), budget_(budget), classes_(dfa.states.size()), hashes_(dfa.states.size()) {
    order_.resize(dfa.states.size());
    std::iota(order_.begin(), order_.end(), 0U);
    for (std::size_t s = 0; s < classes_.size(); ++s) classes_[s] = dfa.states[s].label;
  }

  /// Runs one round. Returns the number of classes.
  std::size_t refine() {
    budget_.charge(2 * dfa_.states.size() + dfa_.edges.size() / 4);
    for (std::uint32_t s = 0; s < hashes_.size(); ++s) hashes_[s] = hash_of(s);
    std::sort(order_.begin(), order_.end(), [this](std::uint32_t a, std::uint32_t b) {
      return hashes_[a] != hashes_[b] ? hashes_[a] < hashes_[b] : a < b;
    });
    std::vector<std::uint32_t> next(classes_.size());
    std::size_t count = 0;
    for (std::size_t i = 0; i < order_.size(); ++i) {
      // Compare with states of the same hash; nearly always the previous one matches.
      const std::uint32_t state = order_[i];
      std::size_t other = i;
      while (other > 0 && hashes_[order_[other - 1]] == hashes_[state]) {
        --other;
        budget_.charge();
        if (same(order_[other], state)) break;
      }
      const bool found = other < i && same(order_[other], state);
      count += found ? 0 : 1;
      next[state] = found ? next[order_[other]] : state;
    }
    classes_ = std::move(next);
    return count;
  }

  std::uint32_t class_of(std::size_t state) const { return classes_[state]; }

 private:
  std::uint64_t hash_of(std::uint32_t s) const {
    std::uint64_t hash = classes_[s];
    const auto add = [&hash](std::uint64_t value) {
      hash = (hash ^ value) * 0x9E3779B97F4A7C15ULL;
      hash ^= hash >> 31;
    };
    for (std::uint32_t e = dfa_.states[s].edges; e < dfa_.states[s].edges_end; ++e) {
      const CharDfa::Edge& edge = dfa_.edges[e];
      add(std::uint64_t{edge.low} << 32 | edge.high);
      add(classes_[edge.target]);
    }
    return hash;
  }
  bool same(std::uint32_t a, std::uint32_t b) const {
    const CharDfa::State& one = dfa_.states[a];
    const CharDfa::State& other = dfa_.states[b];
    if (classes_[a] != classes_[b] || one.edges_end - one.edges != other.edges_end - other.edges)
      return false;
    return std::equal(dfa_.edges.begin() + one.edges, dfa_.edges.begin() + one.edges_end,
                      dfa_.edges.begin() + other.edges, [this](const auto& x, const auto& y) {
                        return x.low == y.low && x.high == y.high && classes_[x.target] == classes_[y.target];
                      });
  }

  const CharDfa& dfa_;
  WorkBudget& budget_;
  std::vector<std::uint32_t> classes_;
  std::vector<std::uint64_t> hashes_;
  std::vector<std::uint32_t> order_;
};

}  // namespace

// Greatest fixed point: starts with all candidates and removes states that lead outside the set.
void CharDfa::find_free(const std::function<bool(std::uint32_t)>& usable, WorkBudget& budget) {
  std::vector<bool> good(states.size());
  std::vector<std::vector<std::uint32_t>> sources(states.size());
  for (std::uint32_t s = 0; s < states.size(); ++s) {
    good[s] = usable(s);
    budget.charge(1 + (states[s].edges_end - states[s].edges) / 4);
    for (std::uint32_t e = states[s].edges; e < states[s].edges_end; ++e) {
      auto& list = sources[edges[e].target];
      if (list.empty() || list.back() != s) list.push_back(s);
    }
  }
  std::vector<std::uint32_t> open(states.size());
  std::iota(open.begin(), open.end(), 0U);
  while (!open.empty()) {
    const std::uint32_t s = open.back();
    open.pop_back();
    budget.charge(1 + (states[s].edges_end - states[s].edges) / 4);
    if (!good[s] || leads_on_to(*this, states[s], good)) continue;
    good[s] = false;
    open.insert(open.end(), sources[s].begin(), sources[s].end());
  }
  for (std::uint32_t s = 0; s < states.size(); ++s) states[s].free = good[s];
}

// Edges are compared literally: states whose equal ranges are split differently are not merged, which costs
// only time.
void CharDfa::find_alike(WorkBudget& budget) {
  for (std::uint32_t s = 0; s < states.size(); ++s) states[s].alike = s;
  if (states.size() > kMaxStates) return;
  Refiner refiner(*this, budget);
  std::size_t count = 0;
  for (std::uint32_t round = 0; round < kMaxDistance; ++round) {
    const std::size_t now = refiner.refine();
    if (now == states.size()) return;
    if (now == count) break;
    count = now;
  }
  for (std::uint32_t s = 0; s < states.size(); ++s) states[s].alike = refiner.class_of(s);
}

}  // namespace reprise::protocol::grammar
