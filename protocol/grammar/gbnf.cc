#include "protocol/grammar/gbnf.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/utf8.h"
#include "protocol/grammar/hex_digit.h"
#include "protocol/grammar/rules.h"

namespace reprise::protocol::grammar {
namespace {

class GbnfReader {
 public:
  /// `held`: what its rules take.
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

  // Within brackets alternatives may go over lines; elsewhere a line ends a rule unless a '|' goes on with it.
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
        const std::size_t behind = at_;
        skip(false);
        if (take("::=")) {  // it is the next rule's
          at_ = before;
          return items;
        }
        at_ = behind;
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
    if (value > kMostCodePoint || (value >= 0xD800 && value <= 0xDFFF))
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
      item.least = 0;
      item.most = kUnbounded;
    } else if (take("+")) {
      item.most = kUnbounded;
    } else if (take("?")) {
      item.least = 0;
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
      const auto least = count();
      const bool comma = take(",");
      const auto most = comma ? count() : least;
      if (!take("}") || (!least && !most)) fail("a repetition that is none");
      item.least = least.value_or(0);
      item.most = most.value_or(kUnbounded);
      if (item.most < item.least) fail("a repetition whose bounds are in the wrong order");
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
