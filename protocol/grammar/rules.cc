#include "protocol/grammar/rules.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/utf8.h"
#include "protocol/grammar/characters.h"
#include "protocol/grammar/regex.h"

namespace reprise::protocol::grammar {
namespace {

/// Returns an automaton that accepts only this text.
CharDfa automaton_of(std::string_view text, WorkBudget& budget) {
  CharDfa dfa;
  const auto end_state = [&](std::uint32_t label) {
    const auto edges = static_cast<std::uint32_t>(dfa.edges.size());
    dfa.states.push_back({.edges = edges,
                          .edges_end = label == 0 ? edges + 1 : edges,
                          .label = label,
                          .alike = static_cast<std::uint32_t>(dfa.states.size())});
  };
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Char c = read_utf8(text, at);
    if (!c.is_valid) throw GrammarError("the grammar has bytes that are not UTF-8");
    at += c.length;
    end_state(0);
    dfa.edges.push_back({c.code_point, c.code_point, static_cast<std::uint32_t>(dfa.states.size())});
  }
  end_state(1);
  budget.take(dfa.states.size() * (sizeof(CharDfa::State) + sizeof(CharDfa::Edge)));
  budget.add_char_states(dfa.states.size());
  return dfa;
}

/// Nodes for literals, characters and automata, in the given text form.
class TextNodes {
 public:
  TextNodes(ProgramBuilder& builder, const TextForm& form) : builder_(builder), form_(form) {
    if (form_.kind == TextForm::Kind::kUntilMark) mark_ = builder_.add_mark(form_.mark, false);
  }

  NodeId literal(const std::string& text, NodeId next) {
    if (form_.kind == TextForm::Kind::kPlain || text.empty()) return builder_.literal(text, next);
    if (!form_.mark.empty() && text.find(form_.mark) != std::string::npos)
      return builder_.add(Op::kFail, 0, 0);
    return automaton(automaton_of(text, builder_.budget()), next);
  }
  NodeId chars(const CharSet& set, NodeId next) {
    if (form_.kind == TextForm::Kind::kPlain) return builder_.chars(set, next);
    return builder_.embedded(builder_.automaton_of(set), mark_, next);
  }
  NodeId automaton(CharDfa dfa, NodeId next) {
    if (form_.kind == TextForm::Kind::kPlain) return builder_.dfa(std::move(dfa), next);
    return builder_.embedded(std::move(dfa), mark_, next);
  }

 private:
  ProgramBuilder& builder_;
  const TextForm& form_;
  std::uint32_t mark_ = kNowhere;  // index into Program::free_texts
};

class RuleBuilder {
 public:
  RuleBuilder(ProgramBuilder& builder, Rules rules, const TextForm& form)
      : builder_(builder),
        rules_(std::move(rules.by_name)),
        patterns_(std::move(rules.patterns)),
        texts_(builder, form) {}

  NodeId build(const std::string& start) {
    if (rules_.find(start) == rules_.end()) throw GrammarError("the grammar has no rule '" + start + "'");
    // Create a node for each rule first; alternatives follow when all names are known.
    for (const auto& [name, rule] : rules_) {
      lists_[name] = static_cast<std::uint32_t>(builder_.program().lists.size());
      builder_.program().lists.emplace_back();
      nodes_[name] = builder_.add(Op::kSplit, 0, lists_[name]);
    }
    refuse_left_recursion();
    for (const auto& [name, rule] : rules_) {
      std::vector<NodeId> choices;
      for (const auto& items : rule.choice) choices.push_back(sequence(items, builder_.end()));
      builder_.program().lists[lists_[name]] = std::move(choices);
    }
    return nodes_.at(start);
  }

 private:
  NodeId sequence(const std::vector<RuleItem>& items, NodeId next) {
    for (std::size_t i = items.size(); i-- > 0;) next = item(items[i], next);
    return next;
  }

  NodeId once(const RuleItem& item, NodeId next) {
    switch (item.kind) {
      case RuleItem::Kind::kLiteral:
        return texts_.literal(item.text, next);
      case RuleItem::Kind::kChars:
        return texts_.chars(item.chars, next);
      case RuleItem::Kind::kPattern:
        return texts_.automaton(std::move(patterns_[item.number]), next);
      case RuleItem::Kind::kRule:
        return builder_.call(nodes_.at(item.text), next);
      case RuleItem::Kind::kGroup: {
        std::vector<NodeId> choices;
        for (const auto& items : item.group) choices.push_back(sequence(items, next));
        return builder_.split(std::move(choices));
      }
    }
    return next;
  }

  NodeId item(const RuleItem& item, NodeId next) {
    if (item.min == 1 && item.max == 1) return once(item, next);
    const NodeId body = once(item, builder_.end());
    return builder_.repeat({.body = body, .min = item.min, .max = item.max}, next);
  }

  bool is_nullable(const RuleItem& item) const {
    builder_.budget().charge();
    if (item.min == 0) return true;
    switch (item.kind) {
      case RuleItem::Kind::kLiteral:
        return item.text.empty();
      case RuleItem::Kind::kChars:
        return false;
      case RuleItem::Kind::kPattern:
        return !patterns_[item.number].empty() && patterns_[item.number].states[0].label != 0;
      case RuleItem::Kind::kRule:
        return nullable_[number_of(item)];
      case RuleItem::Kind::kGroup:
        return is_nullable(item.group);
    }
    return false;
  }
  bool is_nullable(const RuleChoice& choice) const {
    return std::any_of(choice.begin(), choice.end(), [this](const auto& items) {
      return std::all_of(items.begin(), items.end(),
                         [this](const RuleItem& item) { return is_nullable(item); });
    });
  }

  // Adds the rules that the choice refers to; `at_begin`: only those it can begin with.
  void add_rules(const RuleChoice& choice, bool at_begin, std::vector<std::uint32_t>& found) const {
    for (const auto& items : choice) {
      for (const RuleItem& item : items) {
        builder_.budget().charge();
        if (item.kind == RuleItem::Kind::kRule) found.push_back(number_of(item));
        if (item.kind == RuleItem::Kind::kGroup) add_rules(item.group, at_begin, found);
        if (at_begin && !is_nullable(item)) break;
      }
    }
  }

  std::uint32_t number_of(const RuleItem& item) const {
    builder_.budget().charge(4);
    const auto found = numbers_.find(item.text);
    if (found == numbers_.end()) {
      throw GrammarError(at_line(item.line) + "the grammar has no rule '" + item.text + "'");
    }
    return found->second;
  }

  // Finds nullable rules by propagating from rules that surely are.
  void find_nullable(const std::vector<const RuleChoice*>& choices) {
    std::vector<std::vector<std::uint32_t>> users(choices.size());
    for (std::uint32_t rule = 0; rule < choices.size(); ++rule) {
      std::vector<std::uint32_t> used;
      add_rules(*choices[rule], false, used);
      for (const std::uint32_t other : used) users[other].push_back(rule);
    }
    nullable_.resize(choices.size());
    std::vector<std::uint32_t> found;
    const auto look_at = [&](std::uint32_t rule) {
      if (nullable_[rule] || !is_nullable(*choices[rule])) return;
      nullable_[rule] = true;
      found.push_back(rule);
    };
    for (std::uint32_t rule = 0; rule < choices.size(); ++rule) look_at(rule);
    for (std::size_t at = 0; at < found.size(); ++at) {
      for (const std::uint32_t user : users[found[at]]) look_at(user);
    }
  }

  // Rejects cycles among the rules that rules can begin with.
  void refuse_left_recursion() {
    std::vector<const RuleChoice*> choices;
    std::vector<const std::string*> names;
    for (const auto& [name, rule] : rules_) {
      numbers_[name] = static_cast<std::uint32_t>(choices.size());
      choices.push_back(&rule.choice);
      names.push_back(&name);
    }
    find_nullable(choices);
    enum : std::uint8_t { kNew, kOpen, kDone };
    std::vector<std::uint8_t> met(choices.size(), kNew);
    struct Visit {
      std::uint32_t rule;
      std::vector<std::uint32_t> first{};
    };
    std::vector<Visit> path;
    const auto enter = [&](std::uint32_t rule) {
      met[rule] = kOpen;
      path.push_back({.rule = rule});
      add_rules(*choices[rule], true, path.back().first);
    };
    for (std::uint32_t rule = 0; rule < choices.size(); ++rule) {
      if (met[rule] == kNew) enter(rule);
      while (!path.empty()) {
        Visit& last = path.back();
        if (last.first.empty()) {
          met[last.rule] = kDone;
          path.pop_back();
          continue;
        }
        const std::uint32_t next = last.first.back();
        last.first.pop_back();
        if (met[next] == kOpen) {
          throw GrammarError(at_line(rules_.at(*names[next]).line) + "rule '" + *names[next] +
                             "' begins with itself");
        }
        if (met[next] == kNew) enter(next);
      }
    }
  }

  ProgramBuilder& builder_;
  const std::map<std::string, Rule> rules_;
  std::vector<CharDfa> patterns_;
  TextNodes texts_;
  std::map<std::string, NodeId> nodes_;
  std::map<std::string, std::uint32_t> lists_;
  std::map<std::string, std::uint32_t> numbers_;
  std::vector<bool> nullable_;  // by rule number
};

}  // namespace

std::string at_line(std::uint32_t line) {
  return line == 0 ? std::string() : "line " + std::to_string(line) + " of the grammar: ";
}

NodeId rules_start(ProgramBuilder& builder, Rules rules, std::string_view start, const TextForm& form) {
  return RuleBuilder(builder, std::move(rules), form).build(std::string(start));
}

NodeId pattern_text(ProgramBuilder& builder, std::string_view regex, const TextForm& form, NodeId next) {
  WorkBudget& budget = builder.budget();
  CharProduct product(budget);
  product.add(pattern_part(parse_regex(regex, {.dialect = RegexDialect::kPython}, budget), budget));
  return TextNodes(builder, form).automaton(product.build(), next);
}

// -- GBNF

namespace {

class GbnfReader {
 public:
  /// `held` is charged for the rules.
  GbnfReader(std::string_view text, WorkBudget& budget, WorkBudget::Held& held)
      : text_(text), limits_(budget.limits()), held_(held) {}

  Rules read() {
    Rules rules;
    skip(true);
    while (at_ < text_.size()) {
      const std::string name = word();
      if (name.empty()) fail("a rule's name is missing");
      skip(false);
      if (!take("::=")) fail("'::=' is missing behind '" + name + "'");
      skip(true);
      held_.add(name.size() + 128);
      rules.by_name[name] = {.choice = choice(0)};
      skip(true);
    }
    return rules;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    const auto line = 1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at_), '\n');
    throw GrammarError("line " + std::to_string(line) + " of the grammar: " + what);
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(std::string_view wanted) {
    if (!text_.substr(at_).starts_with(wanted)) return false;
    at_ += wanted.size();
    return true;
  }
  void skip(bool lines) {
    for (;;) {
      const char c = peek();
      if (c == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (at_ < text_.size() && (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r')))) {
        ++at_;
      } else {
        return;
      }
    }
  }
  std::string word() {
    const std::size_t begin = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(peek())) != 0 || peek() == '-' || peek() == '_'))
      ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  // Inside brackets alternatives may span lines; elsewhere a line break ends a rule unless '|' follows.
  RuleChoice choice(std::size_t depth) {
    if (depth > limits_.depth) fail("brackets are nested too deeply");
    RuleChoice all;
    held_.add(sizeof all);
    all.push_back(sequence(depth));
    for (;;) {
      const std::size_t before = at_;
      skip(true);
      if (!take("|")) {
        if (depth == 0) at_ = before;
        return all;
      }
      skip(true);
      held_.add(sizeof all);
      all.push_back(sequence(depth));
    }
  }

  std::vector<RuleItem> sequence(std::size_t depth) {
    std::vector<RuleItem> items;
    for (;;) {
      skip(depth > 0);
      RuleItem item;
      if (take("\"")) {
        while (peek() != '"') append_utf8(item.text, character("a literal"));
        ++at_;
      } else if (take("[")) {
        item.kind = RuleItem::Kind::kChars;
        item.chars = char_class();
      } else if (take(".")) {
        item.kind = RuleItem::Kind::kChars;
        item.chars = CharSet::all();
      } else if (take("(")) {
        item.kind = RuleItem::Kind::kGroup;
        skip(true);
        item.group = choice(depth + 1);
        skip(true);
        if (!take(")")) fail("')' is missing");
      } else {
        const std::size_t before = at_;
        item.kind = RuleItem::Kind::kRule;
        item.text = word();
        if (item.text.empty()) return items;
        const std::size_t after = at_;
        skip(false);
        if (take("::=")) {
          at_ = before;
          return items;
        }
        at_ = after;
      }
      repetition(item);
      held_.add(2 * sizeof item + item.text.size() + item.chars.ranges().size() * sizeof(CharRange));
      items.push_back(std::move(item));
    }
  }

  std::uint32_t character(const char* where) {
    if (at_ >= text_.size() || peek() == '\n') fail(std::string("the end of ") + where + " is missing");
    if (!take("\\")) {
      const Utf8Char c = read_utf8(text_, at_);
      if (!c.is_valid) fail("bytes that are not UTF-8");
      at_ += c.length;
      return c.code_point;
    }
    if (take("n")) return '\n';
    if (take("r")) return '\r';
    if (take("t")) return '\t';
    if (take("x")) return hex(2);
    if (take("u")) return hex(4);
    if (take("U")) return hex(8);
    for (const char c : {'"', '\\', '[', ']', '-', '^', '/'}) {
      if (take(std::string_view(&c, 1))) return static_cast<std::uint32_t>(c);
    }
    fail("an unknown escape");
  }

  std::uint32_t hex(int digits) {
    std::uint32_t value = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      const std::optional<std::uint32_t> digit = hex_digit(peek());
      if (!digit) fail("an escape without its digits");
      value = value * 16 + *digit;
    }
    if (value > kMaxCodePoint || (value >= 0xD800 && value <= 0xDFFF))
      fail("an escape that names no character");
    return value;
  }

  CharSet char_class() {
    const bool negated = take("^");
    std::vector<CharRange> ranges;
    while (peek() != ']') {
      const std::uint32_t low = character("a class");
      std::uint32_t high = low;
      if (peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        high = character("a class");
      }
      if (high < low) fail("a range whose ends are in the wrong order");
      ranges.push_back({low, high});
    }
    ++at_;
    const CharSet set(std::move(ranges));
    return negated ? set.complement() : set;
  }

  void repetition(RuleItem& item) {
    if (take("*")) {
      item.min = 0;
      item.max = kUnbounded;
    } else if (take("+")) {
      item.max = kUnbounded;
    } else if (take("?")) {
      item.min = 0;
    } else if (take("{")) {
      const auto count = [this]() -> std::optional<std::uint32_t> {
        skip(true);
        std::optional<std::uint32_t> value;
        for (; peek() >= '0' && peek() <= '9'; ++at_) {
          value = value.value_or(0) * 10 + static_cast<std::uint32_t>(peek() - '0');
          if (*value > limits_.repetitions)
            fail("a repetition of more than " + std::to_string(limits_.repetitions));
        }
        skip(true);
        return value;
      };
      const auto min = count();
      const bool comma = take(",");
      const auto max = comma ? count() : min;
      if (!take("}") || (!min && !max)) fail("a repetition that is none");
      item.min = min.value_or(0);
      item.max = max.value_or(kUnbounded);
      if (item.max < item.min) fail("a repetition whose bounds are in the wrong order");
    }
  }

  const std::string_view text_;
  const Limits& limits_;
  WorkBudget::Held& held_;
  std::size_t at_ = 0;
};

}  // namespace

NodeId gbnf_root(ProgramBuilder& builder, std::string_view text) {
  WorkBudget& budget = builder.budget();
  if (text.size() > budget.limits().text_bytes) {
    throw GrammarError("the grammar has more than " + std::to_string(budget.limits().text_bytes) + " bytes");
  }
  WorkBudget::Held held(budget);
  Rules rules = GbnfReader(text, budget, held).read();
  return rules_start(builder, std::move(rules), "root", {});
}

}  // namespace reprise::protocol::grammar
