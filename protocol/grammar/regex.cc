#include "protocol/grammar/regex.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "base/utf8.h"
#include "protocol/grammar/characters.h"

namespace reprise::protocol::grammar {
namespace {

constexpr std::uint32_t kMaxRepeats = 20'000;  // each is a copy of its nodes
constexpr std::uint32_t kNoBound = UINT32_MAX;

const CharSet& digits() {
  static const CharSet set{{'0', '9'}};
  return set;
}
const CharSet& word_chars() {
  static const CharSet set{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
  return set;
}
const CharSet& spaces() {
  static const CharSet set{{9, 13},          {32, 32},         {0xA0, 0xA0},     {0x1680, 0x1680},
                           {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                           {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
  return set;
}
const CharSet& no_line_end() {
  static const CharSet set = CharSet{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}.complement();
  return set;
}

const CharSet& no_line_feed() {
  static const CharSet set = CharSet{{'\n', '\n'}}.complement();
  return set;
}

// Syntax tree of a pattern. Repetitions copy a part several times when nodes are made.
struct RegexTree {
  enum class Kind : std::uint8_t { kNothing, kChars, kSequence, kChoice, kRepeat, kBegin, kEnd };
  Kind kind = Kind::kNothing;
  std::uint32_t set = 0;   // kChars: index of the set
  std::size_t height = 0;  // nesting of groups and repetitions
  std::vector<RegexTree> parts{};
  std::uint32_t low = 0;  // kRepeat: minimum
  std::uint32_t high = kNoBound;
};

class RegexParser {
 public:
  /// `held` is charged for the tree.
  RegexParser(std::string_view text, const RegexOptions& options, WorkBudget& budget, WorkBudget::Held& held)
      : text_(text), options_(options), budget_(budget), held_(held) {}

  /// Parses the pattern; the character sets of the tree go to `sets`.
  RegexTree parse(std::vector<CharSet>& sets) {
    RegexTree tree = choice(0);
    if (at_ < text_.size()) fail("a ')' without '('");
    sets.resize(numbers_.size());
    for (const auto& [set, number] : numbers_) sets[number] = set;
    return tree;
  }

 private:
  using Kind = RegexTree::Kind;

  [[noreturn]] void fail(const std::string& what) const {
    throw GrammarError("the regular expression has " + what + " at byte " + std::to_string(at_));
  }
  bool more() const { return at_ < text_.size(); }
  char peek() const { return more() ? text_[at_] : '\0'; }
  bool take(char c) {
    if (!more() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool take(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  std::uint32_t take_char() {
    const Utf8Char c = read_utf8(text_, at_);
    if (!c.is_valid) fail("bytes that are not UTF-8");
    at_ += c.length;
    return c.code_point;
  }

  RegexTree choice(std::size_t depth) {
    if (depth > budget_.limits().depth) fail_depth();
    RegexTree tree{.kind = Kind::kChoice};
    do add(tree, sequence(depth));
    while (take('|'));
    return tree.parts.size() == 1 ? std::move(tree.parts.front()) : tree;
  }

  RegexTree sequence(std::size_t depth) {
    RegexTree tree{.kind = Kind::kSequence};
    while (more() && peek() != '|' && peek() != ')') add(tree, repeated(depth));
    return tree;
  }

  void add(RegexTree& tree, RegexTree part) {
    tree.height = std::max(tree.height, part.height);
    tree.parts.push_back(std::move(part));
    held_.add(sizeof(RegexTree));
  }

  [[noreturn]] void fail_depth() const {
    fail("more than " + std::to_string(budget_.limits().depth) +
         " brackets and repetitions within each other");
  }

  RegexTree repeated(std::size_t depth) {
    RegexTree part = atom(depth);
    for (;;) {
      std::uint32_t low = 0;
      std::uint32_t high = kNoBound;
      if (take('*')) {
      } else if (take('+')) {
        low = 1;
      } else if (take('?')) {
        high = 1;
      } else if (peek() != '{' || !counts(low, high)) {
        return part;
      }
      static_cast<void>(take('?'));  // lazy: does not change which texts match
      if (peek() == '+') fail("a possessive repetition");
      if (part.height >= budget_.limits().depth) fail_depth();
      RegexTree repeat{.kind = Kind::kRepeat, .low = low, .high = high};
      add(repeat, std::move(part));
      ++repeat.height;
      part = std::move(repeat);
    }
  }

  // Parses {m}, {m,}, {m,n}; returns false for a literal brace.
  bool counts(std::uint32_t& low, std::uint32_t& high) {
    const std::size_t begin = at_;
    ++at_;
    const auto number = [this]() -> std::optional<std::uint32_t> {
      std::optional<std::uint32_t> value;
      while (more() && peek() >= '0' && peek() <= '9') {
        value = value.value_or(0) * 10 + static_cast<std::uint32_t>(text_[at_++] - '0');
        if (*value > kMaxRepeats) fail("a repetition of more than " + std::to_string(kMaxRepeats));
      }
      return value;
    };
    const auto first = number();
    const bool comma = take(',');
    const auto second = comma ? number() : first;
    if ((!first && !(comma && second)) || !take('}')) {
      at_ = begin;
      return false;
    }
    low = first.value_or(0);
    high = second.value_or(kNoBound);
    if (high < low) fail("a repetition whose bounds are in the wrong order");
    return true;
  }

  RegexTree chars_of(CharSet set) {
    const std::size_t bytes = set.ranges().size() * sizeof(CharRange);
    budget_.charge(1 + bytes / 16);
    const auto [found, is_new] =
        numbers_.try_emplace(std::move(set), static_cast<std::uint32_t>(numbers_.size()));
    if (is_new) held_.add(2 * bytes + 128);
    return {.kind = Kind::kChars, .set = found->second};
  }

  RegexTree atom(std::size_t depth) {
    if (take('(')) {
      if (take("?:")) {
      } else if (take("?P<") ||
                 (text_.substr(at_).starts_with("?<") && !text_.substr(at_).starts_with("?<=") &&
                  !text_.substr(at_).starts_with("?<!") && take("?<"))) {
        while (more() && peek() != '>') ++at_;
        if (!take('>')) fail("a group without the end of its name");
      } else if (peek() == '?') {
        fail("look around or flags '(" + std::string(text_.substr(at_, 3)) + "', which are not supported,");
      }
      RegexTree inner = choice(depth + 1);
      if (!take(')')) fail("a '(' without ')'");
      if (++inner.height > budget_.limits().depth) fail_depth();
      return inner;
    }
    if (take('[')) return chars_of(char_class());
    if (take('.')) return chars_of(dot());
    if (take('^')) return end_of_text(Kind::kBegin);
    if (take('$')) return end_of_text(Kind::kEnd);
    if (take('\\')) return escape();
    if (peek() == '*' || peek() == '+' || peek() == '?') fail("nothing to repeat");
    const std::uint32_t c = take_char();
    return chars_of(in_both_cases({{c, c}}));
  }

  bool is_python() const { return options_.dialect == RegexDialect::kPython; }

  CharSet dot() const {
    if (options_.dot_is_any) return CharSet::all();
    return is_python() ? no_line_feed() : no_line_end();
  }

  RegexTree end_of_text(Kind kind) const {
    if (options_.refuses_ends) fail("a '^' or '$', which is not supported within a grammar,");
    return {.kind = kind};
  }

  // Adds the other case to a single character or range. Classes have both cases already.
  CharSet in_both_cases(CharSet set) const {
    constexpr std::uint32_t kCase = 'a' - 'A';
    if (!options_.ignores_case || set.ranges().size() != 1) return set;
    const CharRange written = set.ranges()[0];
    if (written.high >= 0x80) fail("characters beyond ASCII beside the flag i, which is not supported,");
    for (const CharRange& letters : {CharRange{'a', 'z'}, CharRange{'A', 'Z'}}) {
      const std::uint32_t low = std::max(written.low, letters.low);
      const std::uint32_t high = std::min(written.high, letters.high);
      if (low <= high) set.add(low ^ kCase, high ^ kCase);
    }
    return set;
  }

  RegexTree escape() {
    if (take('A')) return end_of_text(Kind::kBegin);
    if (take('Z') || (!is_python() && take('z'))) return end_of_text(Kind::kEnd);
    if (peek() == 'b' || peek() == 'B') fail("a word boundary, which is not supported,");
    if (peek() >= '1' && peek() <= '9') fail("a back reference, which is not regular,");
    if (peek() == 'k') fail("a back reference, which is not regular,");
    return chars_of(in_both_cases(class_escape()));
  }

  std::uint32_t hex(int count) {
    std::uint32_t value = 0;
    for (int i = 0; i < count; ++i) {
      const std::optional<std::uint32_t> digit = hex_digit(peek());
      if (!digit) fail("an escape without its digits");
      value = value * 16 + *digit;
      ++at_;
    }
    return value;
  }

  // Parses one character or class after a backslash.
  CharSet class_escape() {
    if (!more()) fail("a backslash at its end");
    if (take('d')) return digits();
    if (take('D')) return digits().complement();
    if (take('w')) return word_chars();
    if (take('W')) return word_chars().complement();
    if (take('s')) return spaces();
    if (take('S')) return spaces().complement();
    if (peek() == 'p' || peek() == 'P') fail("a Unicode property, which is not supported,");
    const std::uint32_t c = single_escape();
    return {{c, c}};
  }

  std::uint32_t single_escape() {
    if (take('n')) return '\n';
    if (take('r')) return '\r';
    if (take('t')) return '\t';
    if (take('f')) return '\f';
    if (take('v')) return '\v';
    if (take('a')) return '\a';
    if (take('0')) return 0;
    if (take('x')) return hex(2);
    if (!is_python() && take('c')) return take_char() & 0x1F;
    if (is_python() && take('U')) {
      const std::uint32_t value = hex(8);
      if (value > kMaxCodePoint) fail("an escape that names no character");
      return value;
    }
    if (take("u{")) {
      std::uint32_t value = 0;
      while (more() && peek() != '}') value = value * 16 + hex(1);
      if (!take('}') || value > kMaxCodePoint) fail("an escape that names no character");
      return value;
    }
    if (take('u')) {
      const std::uint32_t first = hex(4);
      if (first < 0xD800 || first > 0xDBFF) return first;
      if (!take("\\u")) fail("half a surrogate pair");
      return 0x10000 + ((first - 0xD800) << 10) + (hex(4) - 0xDC00);
    }
    const char c = peek();
    const bool is_word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (is_python() && is_word) fail("an unknown escape");
    return take_char();
  }

  CharSet char_class() {
    const bool negated = take('^');
    std::vector<CharRange> ranges;
    const auto add_all = [&](const CharSet& set) {
      held_.add(set.ranges().size() * sizeof(CharRange));
      ranges.insert(ranges.end(), set.ranges().begin(), set.ranges().end());
    };
    bool first = true;
    while (first ? more() : (more() && peek() != ']')) {
      if (first && peek() == ']' && !is_python()) break;  // ECMA-262: [] matches nothing, [^] everything
      first = false;
      if (take("[:")) fail("a POSIX class, which is not supported,");
      CharSet low = member();
      if (peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']' && is_single(low)) {
        ++at_;
        const CharSet high = member();
        if (!is_single(high)) {
          add_all(in_both_cases(low));
          ranges.push_back({'-', '-'});
          add_all(in_both_cases(high));
          continue;
        }
        const std::uint32_t from = low.ranges()[0].low;
        const std::uint32_t to = high.ranges()[0].low;
        if (from > to) fail("a range whose ends are in the wrong order");
        add_all(in_both_cases({{from, to}}));
      } else {
        add_all(in_both_cases(low));
      }
    }
    if (!take(']')) fail("a '[' without ']'");
    const CharSet set(std::move(ranges));
    return negated ? set.complement() : set;
  }

  static bool is_single(const CharSet& set) {
    return set.ranges().size() == 1 && set.ranges()[0].low == set.ranges()[0].high;
  }

  CharSet member() {
    if (take('\\')) {
      if (take('b')) return {{8, 8}};
      if (take('-')) return {{'-', '-'}};
      return class_escape();
    }
    const std::uint32_t c = take_char();
    return {{c, c}};
  }

  const std::string_view text_;
  const RegexOptions& options_;
  WorkBudget& budget_;
  WorkBudget::Held& held_;
  std::size_t at_ = 0;
  std::map<CharSet, std::uint32_t> numbers_;
};

// Builds nodes from the end of the pattern backward, so that each part knows its successor.
class NfaBuilder {
 public:
  NfaBuilder(Nfa& nfa, WorkBudget& budget) : nfa_(nfa), budget_(budget) {}

  std::uint32_t add(NfaNode node) {
    if (nfa_.nodes.size() >= budget_.limits().char_states) {
      throw GrammarError("the regular expression is too large: more than " +
                         std::to_string(budget_.limits().char_states) + " nodes");
    }
    nfa_.nodes.push_back(node);
    return static_cast<std::uint32_t>(nfa_.nodes.size() - 1);
  }

  std::uint32_t build(const RegexTree& tree, std::uint32_t next) {
    using Kind = RegexTree::Kind;
    budget_.charge();  // also for parts without nodes, which may be copied any number of times
    switch (tree.kind) {
      case Kind::kNothing:
        return next;
      case Kind::kChars:
        return add({.kind = NfaNode::Kind::kChars, .next = next, .set = tree.set});
      case Kind::kBegin:
        return add({.kind = NfaNode::Kind::kBegin, .next = next});
      case Kind::kEnd:
        return add({.kind = NfaNode::Kind::kEnd, .next = next});
      case Kind::kSequence:
        for (std::size_t i = tree.parts.size(); i-- > 0;) next = build(tree.parts[i], next);
        return next;
      case Kind::kChoice: {
        std::uint32_t all = build(tree.parts.back(), next);
        for (std::size_t i = tree.parts.size() - 1; i-- > 0;) {
          const std::uint32_t one = build(tree.parts[i], next);
          all = add({.kind = NfaNode::Kind::kSplit, .next = one, .other = all});
        }
        return all;
      }
      case Kind::kRepeat:
        return repeat(tree, next);
    }
    return next;
  }

 private:
  std::uint32_t repeat(const RegexTree& tree, std::uint32_t next) {
    const RegexTree& part = tree.parts.front();
    std::uint32_t at = next;
    if (tree.high == kNoBound) {
      const std::uint32_t loop = add({.kind = NfaNode::Kind::kSplit, .next = 0, .other = next});
      nfa_.nodes[loop].next = build(part, loop);
      at = loop;
    } else {
      for (std::uint32_t i = tree.low; i < tree.high; ++i) {
        const std::uint32_t one = build(part, at);
        at = add({.kind = NfaNode::Kind::kSplit, .next = one, .other = next});
      }
    }
    for (std::uint32_t i = 0; i < tree.low; ++i) at = build(part, at);
    return at;
  }

  Nfa& nfa_;
  WorkBudget& budget_;
};

}  // namespace

Nfa parse_regex(std::string_view pattern, const RegexOptions& options, WorkBudget& budget) {
  if (pattern.size() > budget.limits().text_bytes) {
    throw GrammarError("the regular expression has more than " + std::to_string(budget.limits().text_bytes) +
                       " bytes");
  }
  Nfa nfa{.anywhere = options.anywhere};
  WorkBudget::Held held(budget);
  const RegexTree tree = RegexParser(pattern, options, budget, held).parse(nfa.sets);
  NfaBuilder builder(nfa, budget);
  const std::uint32_t match = builder.add({.kind = NfaNode::Kind::kMatch});
  nfa.start = builder.build(tree, match);
  return nfa;
}

}  // namespace reprise::protocol::grammar
