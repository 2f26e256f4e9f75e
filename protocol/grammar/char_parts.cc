#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "base/json.h"
#include "base/utf8.h"
#include "protocol/grammar/char_dfa.h"
#include "protocol/grammar/regex.h"

namespace reprise::protocol::grammar {
namespace {

constexpr std::uint32_t kForever = UINT32_MAX;  // a match was found that any continuation preserves

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
  mutable std::vector<std::uint32_t> seen_;  // round in which each node was last visited
  mutable std::uint32_t round_ = 0;
};

class LengthPart : public CharPart {
 public:
  LengthPart(std::uint32_t min, std::uint32_t max) : min_(min), max_(max) {}

  std::vector<CharSet> alphabet() const override { return {}; }
  State start() const override { return {0}; }
  State step(const State& state, std::uint32_t) const override {
    if (state.empty()) return state;
    if (max_ == UINT32_MAX) return {std::min(state[0] + 1, min_)};
    return state[0] < max_ ? State{state[0] + 1} : State{};
  }
  Verdict verdict(const State& state) const override { return !state.empty() && state[0] >= min_; }

 private:
  const std::uint32_t min_;
  const std::uint32_t max_;
};

class NamesPart : public CharPart {
 public:
  NamesPart(const std::vector<std::string>& names, WorkBudget& budget) : held_(budget), nodes_(1) {
    std::vector<CharRange> chars;
    for (std::size_t i = 0; i < names.size(); ++i) {
      std::uint32_t at = 0;
      for (std::size_t index = 0; index < names[i].size();) {
        const Utf8Char c = read_utf8(names[i], index);
        index += c.length;
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

// Negates another part. The state has a leading marker, so that the other part's empty state (no match
// possible) is not mistaken for this part's.
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

std::unique_ptr<CharPart> length_part(std::uint32_t min, std::uint32_t max) {
  return std::make_unique<LengthPart>(min, max);
}

std::unique_ptr<CharPart> names_part(const std::vector<std::string>& names, WorkBudget& budget) {
  return std::make_unique<NamesPart>(names, budget);
}

namespace {

std::vector<CharSet> digit_alphabet() {
  std::vector<CharSet> sets;
  for (std::uint32_t c = '0'; c <= '9'; ++c) sets.push_back({{c, c}});
  sets.push_back({{'-', '-'}});
  sets.push_back({{'.', '.'}});
  return sets;
}

enum Order : std::uint32_t { kLess = 1, kEqual = 2, kGreater = 3 };

// State: {negative, integer digits so far, comparison of the digits so far, 0 before the point or 1 +
// fraction digits}.
class ComparePart : public CharPart {
 public:
  explicit ComparePart(Decimal bound) : bound_(std::move(bound)) {
    zero_ = bound_.digits == "0" && bound_.fraction.empty();
  }

  std::vector<CharSet> alphabet() const override { return digit_alphabet(); }
  State start() const override { return {0, 0, kEqual, 0}; }

  State step(const State& state, std::uint32_t c) const override {
    if (state.empty()) return state;
    State next = state;
    if (c == '-') {
      next[0] = 1;
    } else if (c == '.') {
      next[3] = 1;
    } else if (c < '0' || c > '9') {
      return {};
    } else if (state[3] == 0) {
      const std::size_t index = state[1];
      if (index < bound_.digits.size()) note(next, c, bound_.digits[index]);
      next[1] = std::min(static_cast<std::uint32_t>(index + 1),
                         static_cast<std::uint32_t>(bound_.digits.size() + 1));
    } else {
      const std::size_t index = state[3] - 1;
      note(next, c, index < bound_.fraction.size() ? bound_.fraction[index] : '0');
      next[3] = std::min(static_cast<std::uint32_t>(index + 2),
                         static_cast<std::uint32_t>(bound_.fraction.size() + 1));
    }
    return next;
  }

  Verdict verdict(const State& state) const override {
    if (state.empty() || state[1] == 0) return 0;
    std::uint32_t order = state[2];
    if (state[1] != bound_.digits.size()) {
      order = state[1] < bound_.digits.size() ? kLess : kGreater;
    } else if (order == kEqual && state[3] < bound_.fraction.size() + 1 && !bound_.fraction.empty()) {
      order = kLess;  // the missing fraction digits are greater than zero
    }
    const bool negative = state[0] != 0;
    if (zero_) return order == kEqual ? kEqual : negative ? kLess : kGreater;
    if (negative != bound_.negative) return negative ? kLess : kGreater;
    return negative ? 4 - order : order;
  }

 private:
  static void note(State& state, std::uint32_t c, char bound) {
    if (state[2] != kEqual) return;
    const auto digit = static_cast<std::uint32_t>(bound);
    state[2] = c < digit ? kLess : c > digit ? kGreater : kEqual;
  }

  const Decimal bound_;
  bool zero_ = false;
};

// State: {remainder of the digits so far, 0 before the point or 1 + fraction digits}.
class MultiplePart : public CharPart {
 public:
  MultiplePart(std::uint32_t divisor, std::uint32_t fraction_digits)
      : divisor_(divisor), fraction_digits_(fraction_digits) {}

  std::vector<CharSet> alphabet() const override { return digit_alphabet(); }
  State start() const override { return {0, 0}; }

  State step(const State& state, std::uint32_t c) const override {
    if (state.empty() || c == '-') return state;
    if (c == '.') return {state[0], 1};
    if (c < '0' || c > '9') return {};
    if (state[1] == fraction_digits_ + 1) return c == '0' ? state : State{};
    return {static_cast<std::uint32_t>((std::uint64_t{state[0]} * 10 + (c - '0')) % divisor_),
            state[1] == 0 ? 0 : state[1] + 1};
  }

  Verdict verdict(const State& state) const override {
    if (state.empty()) return 0;
    std::uint64_t rest = state[0];
    for (std::uint32_t index = state[1] == 0 ? 0 : state[1] - 1; index < fraction_digits_; ++index)
      rest = rest * 10 % divisor_;
    return rest == 0;
  }

 private:
  const std::uint32_t divisor_;
  const std::uint32_t fraction_digits_;
};

}  // namespace

std::optional<Decimal> Decimal::of(const Json& number) {
  Decimal decimal;
  std::string text;
  if (number.is_int()) {
    text = std::to_string(number.as_int());
  } else {
    const double value = number.as_double();
    if (!std::isfinite(value) || std::abs(value) > 1e40) return std::nullopt;
    // Find the shortest decimal that converts to the same double.
    char buffer[64];
    for (int precision = 0; precision <= 17; ++precision) {
      std::snprintf(buffer, sizeof buffer, "%.*e", precision, value);
      if (std::strtod(buffer, nullptr) == value) break;
    }
    const std::string scientific = buffer;
    const std::size_t e = scientific.find('e');
    std::string digits;
    for (const char c : scientific.substr(0, e)) {
      if (c >= '0' && c <= '9') digits += c;
    }
    const int exponent = std::atoi(scientific.c_str() + e + 1);
    if (exponent < -60) return std::nullopt;
    if (value < 0) text.push_back('-');
    if (exponent < 0) {
      text.append("0.").append(static_cast<std::size_t>(-exponent - 1), '0').append(digits);
    } else {
      const auto whole = static_cast<std::size_t>(exponent + 1);
      if (digits.size() < whole) digits.append(whole - digits.size(), '0');
      text.append(digits, 0, whole).append(".").append(digits, whole);
    }
  }
  decimal.negative = text.starts_with('-');
  if (decimal.negative) text.erase(0, 1);
  const std::size_t point = std::min(text.find('.'), text.size());
  decimal.digits = text.substr(0, point);
  decimal.fraction = point < text.size() ? text.substr(point + 1) : "";
  while (decimal.digits.size() > 1 && decimal.digits.front() == '0') decimal.digits.erase(0, 1);
  while (!decimal.fraction.empty() && decimal.fraction.back() == '0') decimal.fraction.pop_back();
  return decimal;
}

std::unique_ptr<CharPart> compared_to(const Decimal& bound) {
  return std::make_unique<ComparePart>(bound);
}

std::unique_ptr<CharPart> multiple_of(const Decimal& divisor) {
  std::string digits = divisor.digits + divisor.fraction;
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size()));
  if (digits.empty()) throw GrammarError("multipleOf: must be above 0");
  if (digits.size() > 5) throw GrammarError("multipleOf: has more digits than are supported");
  return std::make_unique<MultiplePart>(static_cast<std::uint32_t>(std::stoul(digits)),
                                        static_cast<std::uint32_t>(divisor.fraction.size()));
}

}  // namespace reprise::protocol::grammar
