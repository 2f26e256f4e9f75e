// Patterns, lengths and names as parts of a product of automata.

#include <algorithm>
#include <map>

#include "base/utf8.h"
#include "protocol/grammar/char_dfa.h"

namespace reprise::protocol::grammar {
namespace {

constexpr std::uint32_t kForever = UINT32_MAX;  // a match was found, and whatever follows leaves it one

class PatternPart : public CharPart {
 public:
  PatternPart(Nfa nfa, WorkBudget& budget) : nfa_(std::move(nfa)), budget_(budget), held_(budget) {
    std::size_t ranges = 0;
    for (const CharSet& set : nfa_.sets) ranges += 4 + set.ranges().size();
    held_.add(nfa_.nodes.size() * (sizeof(NfaNode) + 4) + ranges * sizeof(CharRange));
  }

  std::vector<CharSet> alphabet() const override { return nfa_.sets; }

  State start() const override { return closed({nfa_.start}, true, false); }

  State step(const State& state, std::uint32_t c) const override {
    if (state.size() == 1 && state[0] == kForever) return state;
    State next;
    for (const std::uint32_t at : state) {
      const NfaNode& node = nfa_.nodes[at];
      if (node.kind == NfaNode::Kind::kChars && nfa_.sets[node.set].has(c)) next.push_back(node.next);
    }
    if (nfa_.anywhere) next.push_back(nfa_.start);
    return closed(next, false, false);
  }

  Verdict verdict(const State& state) const override {
    if (state.size() == 1 && state[0] == kForever) return 1;
    const State ended = closed(state, false, true);
    return std::any_of(ended.begin(), ended.end(), [this](std::uint32_t at) {
      return at == kForever || nfa_.nodes[at].kind == NfaNode::Kind::kMatch;
    });
  }

 private:
  State closed(State open, bool at_begin, bool at_end) const {
    seen_.resize(nfa_.nodes.size());
    ++round_;
    State set;
    while (!open.empty()) {
      const std::uint32_t at = open.back();
      open.pop_back();
      budget_.charge();
      if (seen_[at] == round_) continue;
      seen_[at] = round_;
      const NfaNode& node = nfa_.nodes[at];
      switch (node.kind) {
        case NfaNode::Kind::kSplit:
          open.push_back(node.next);
          open.push_back(node.other);
          break;
        case NfaNode::Kind::kBegin:
          if (at_begin) open.push_back(node.next);
          break;
        case NfaNode::Kind::kEnd:
          set.push_back(at);
          if (at_end) open.push_back(node.next);
          break;
        case NfaNode::Kind::kMatch:
          if (nfa_.anywhere) return {kForever};
          set.push_back(at);
          break;
        case NfaNode::Kind::kChars:
          set.push_back(at);
          break;
      }
    }
    std::sort(set.begin(), set.end());
    return set;
  }

  const Nfa nfa_;
  WorkBudget& budget_;
  WorkBudget::Held held_;
  mutable std::vector<std::uint32_t> seen_;  // the round in which a node was last met
  mutable std::uint32_t round_ = 0;
};

class LengthPart : public CharPart {
 public:
  LengthPart(std::uint32_t least, std::uint32_t most) : least_(least), most_(most) {}

  std::vector<CharSet> alphabet() const override { return {}; }
  State start() const override { return {0}; }
  State step(const State& state, std::uint32_t) const override {
    if (state.empty()) return state;
    if (most_ == UINT32_MAX) return {std::min(state[0] + 1, least_)};
    return state[0] < most_ ? State{state[0] + 1} : State{};
  }
  Verdict verdict(const State& state) const override { return !state.empty() && state[0] >= least_; }

 private:
  const std::uint32_t least_;
  const std::uint32_t most_;
};

class NamesPart : public CharPart {
 public:
  NamesPart(const std::vector<std::string>& names, WorkBudget& budget) : held_(budget), nodes_(1) {
    std::vector<CharRange> chars;
    for (std::size_t i = 0; i < names.size(); ++i) {
      std::uint32_t at = 0;
      for (std::size_t place = 0; place < names[i].size();) {
        const Utf8Char c = read_utf8(names[i], place);
        place += c.length;
        chars.push_back({c.code_point, c.code_point});
        const auto [found, is_new] =
            nodes_[at].next.try_emplace(c.code_point, static_cast<std::uint32_t>(nodes_.size()));
        at = found->second;
        budget.charge(4);
        if (is_new) {
          nodes_.emplace_back();
          held_.add(2 * sizeof(NameNode) + 64);
        }
      }
      nodes_[at].name = static_cast<std::uint32_t>(i + 1);
    }
    chars_ = CharSet(std::move(chars));
  }

  std::vector<CharSet> alphabet() const override {
    std::vector<CharSet> sets;
    for (const CharRange& range : chars_.ranges()) {
      for (std::uint32_t c = range.low; c <= range.high; ++c) sets.push_back({{c, c}});
    }
    return sets;
  }
  State start() const override { return {0}; }
  State step(const State& state, std::uint32_t c) const override {
    if (state.empty()) return state;
    const auto found = nodes_[state[0]].next.find(c);
    return found == nodes_[state[0]].next.end() ? State{} : State{found->second};
  }
  Verdict verdict(const State& state) const override { return state.empty() ? 0 : nodes_[state[0]].name; }

 private:
  struct NameNode {
    std::map<std::uint32_t, std::uint32_t> next{};
    std::uint32_t name = 0;
  };
  WorkBudget::Held held_;
  std::vector<NameNode> nodes_;
  CharSet chars_;
};

// A mark before the state of the other, so that one that can say nothing any more is none.
class NegatedPart : public CharPart {
 public:
  explicit NegatedPart(std::unique_ptr<CharPart> part) : part_(std::move(part)) {}

  std::vector<CharSet> alphabet() const override { return part_->alphabet(); }
  State start() const override { return marked(part_->start()); }
  State step(const State& state, std::uint32_t c) const override {
    return marked(part_->step(inner(state), c));
  }
  Verdict verdict(const State& state) const override { return part_->verdict(inner(state)) == 0; }

 private:
  static State marked(State state) {
    state.insert(state.begin(), 0);
    return state;
  }
  static State inner(const State& state) { return {state.begin() + 1, state.end()}; }

  const std::unique_ptr<CharPart> part_;
};

}  // namespace

std::unique_ptr<CharPart> negated_part(std::unique_ptr<CharPart> part) {
  return std::make_unique<NegatedPart>(std::move(part));
}

std::unique_ptr<CharPart> pattern_part(Nfa nfa, WorkBudget& budget) {
  return std::make_unique<PatternPart>(std::move(nfa), budget);
}

std::unique_ptr<CharPart> length_part(std::uint32_t least, std::uint32_t most) {
  return std::make_unique<LengthPart>(least, most);
}

std::unique_ptr<CharPart> names_part(const std::vector<std::string>& names, WorkBudget& budget) {
  return std::make_unique<NamesPart>(names, budget);
}

}  // namespace reprise::protocol::grammar
