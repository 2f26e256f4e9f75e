// States of an automaton that no text of so many characters tells apart, and those that no plain text leaves.

#include <algorithm>
#include <functional>
#include <numeric>

#include "protocol/grammar/char_dfa.h"

namespace reprise::protocol::grammar {
namespace {

constexpr std::size_t kMostStates = 20'000;

// Characters that stand in a JSON string as they are; but for the two line ends that '.' of a pattern leaves out.
constexpr CharRange kPlainChars[] = {
    {0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0x2027}, {0x202A, 0xD7FF}, {0xE000, kMostCodePoint}};

// All of them lead on, and to a state of which `good` is true.
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

// The classes that are told apart by one character more.
class Refiner {
 public:
  Refiner(const CharDfa& dfa, WorkBudget& budget)
      : dfa_(dfa), budget_(budget), classes_(dfa.states.size()), hashes_(dfa.states.size()) {
    order_.resize(dfa.states.size());
    std::iota(order_.begin(), order_.end(), 0U);
    for (std::size_t s = 0; s < classes_.size(); ++s) classes_[s] = dfa.states[s].label;
  }

  /// Returns how many classes there are.
  std::size_t refine() {
    budget_.charge(2 * dfa_.states.size() + dfa_.edges.size() / 4);
    for (std::uint32_t s = 0; s < hashes_.size(); ++s) hashes_[s] = hash_of(s);
    std::sort(order_.begin(), order_.end(), [this](std::uint32_t a, std::uint32_t b) {
      return hashes_[a] != hashes_[b] ? hashes_[a] < hashes_[b] : a < b;
    });
    std::vector<std::uint32_t> next(classes_.size());
    std::size_t count = 0;
    for (std::size_t i = 0; i < order_.size(); ++i) {
      // Like one of those with the same hash: nearly always the one before.
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

// All that could be, less those that lead out of these, and so on.
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

// Edges are compared as they are: where one state has a range in two pieces and another in one, they stay apart, which
// costs time and nothing else.
void CharDfa::find_alike(WorkBudget& budget) {
  for (std::uint32_t s = 0; s < states.size(); ++s) states[s].alike = s;
  if (states.size() > kMostStates) return;
  Refiner refiner(*this, budget);
  std::size_t count = 0;
  for (std::uint32_t round = 0; round < kFarthest; ++round) {
    const std::size_t now = refiner.refine();
    if (now == states.size()) return;
    if (now == count) break;
    count = now;
  }
  for (std::uint32_t s = 0; s < states.size(); ++s) states[s].alike = refiner.class_of(s);
}

}  // namespace reprise::protocol::grammar
