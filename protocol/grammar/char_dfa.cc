#include "protocol/grammar/char_dfa.h"

#include <algorithm>
#include <map>

#include "base/utf8.h"

namespace reprise::protocol::grammar {
namespace {

// Characters that no part tells apart, as the ranges that they are.
struct CharClass {
  std::vector<CharRange> ranges{};
};

std::vector<CharClass> classes_of(const std::vector<CharSet>& sets) {
  std::vector<std::uint32_t> cuts = {0, 0xD800, 0xE000, kMostCodePoint + 1};
  for (const CharSet& set : sets) {
    for (const CharRange& range : set.ranges()) {
      cuts.push_back(range.low);
      cuts.push_back(range.high + 1);
    }
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::map<std::vector<bool>, CharClass> by_sets;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    if (cuts[i] >= 0xD800 && cuts[i] < 0xE000) continue;
    std::vector<bool> in(sets.size());
    for (std::size_t s = 0; s < sets.size(); ++s) in[s] = sets[s].has(cuts[i]);
    by_sets[std::move(in)].ranges.push_back({cuts[i], cuts[i + 1] - 1});
  }
  std::vector<CharClass> classes;
  for (auto& [in, one] : by_sets) classes.push_back(std::move(one));
  return classes;
}

// The automaton as it is explored: states may turn out to lead nowhere.
struct Explored {
  std::vector<std::vector<std::uint32_t>> targets{};  // [state][class]; kDead: nowhere
  std::vector<std::uint32_t> labels{};
};

std::vector<bool> live_states(const Explored& explored) {
  const std::size_t count = explored.labels.size();
  std::vector<std::vector<std::uint32_t>> sources(count);
  for (std::uint32_t s = 0; s < count; ++s) {
    for (const std::uint32_t target : explored.targets[s]) {
      if (target != CharDfa::kDead && (sources[target].empty() || sources[target].back() != s))
        sources[target].push_back(s);
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

CharDfa trimmed(const Explored& explored, const std::vector<CharClass>& classes) {
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
    for (std::size_t c = 0; c < classes.size(); ++c) {
      const std::uint32_t target = explored.targets[s][c];
      if (target == CharDfa::kDead || !live[target]) continue;
      for (const CharRange& range : classes[c].ranges)
        edges.push_back({range.low, range.high, number[target]});
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
  }
  dfa.find_free([](std::uint32_t) { return true; });
  dfa.find_alike();
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
  std::vector<CharSet> sets;
  for (const auto& part : parts_) {
    for (CharSet& set : part->alphabet()) {
      if (std::find(sets.begin(), sets.end(), set) == sets.end()) sets.push_back(std::move(set));
    }
    budget_.check_time();
  }
  const std::vector<CharClass> classes = classes_of(sets);

  using Tuple = std::vector<CharPart::State>;
  std::map<Tuple, std::uint32_t> numbers;
  std::vector<const Tuple*> tuples;
  const auto number_of = [&](Tuple tuple) {
    const auto [at, is_new] =
        numbers.try_emplace(std::move(tuple), static_cast<std::uint32_t>(tuples.size()));
    if (is_new) {
      tuples.push_back(&at->first);
      if (tuples.size() > budget_.limits().char_states) {
        throw GrammarError("a pattern, or patterns and lengths together, need more than " +
                           std::to_string(budget_.limits().char_states) + " states");
      }
      if (tuples.size() % 256 == 0) budget_.check_time();
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
    auto& targets = explored.targets.emplace_back(classes.size(), CharDfa::kDead);
    for (std::size_t c = 0; c < classes.size(); ++c) {
      Tuple next;
      next.reserve(parts_.size());
      bool dead = false;
      for (std::size_t i = 0; i < parts_.size() && !dead; ++i) {
        next.push_back(parts_[i]->step(tuple[i], classes[c].ranges.front().low));
        dead = needed_[i] && next.back().empty();
      }
      if (!dead) targets[c] = number_of(std::move(next));
    }
  }
  budget_.add_char_states(tuples.size());
  return trimmed(explored, classes);
}

}  // namespace reprise::protocol::grammar
