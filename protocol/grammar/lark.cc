#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "base/utf8.h"
#include "protocol/grammar/characters.h"
#include "protocol/grammar/regex.h"
#include "protocol/grammar/rules.h"

namespace reprise::protocol::grammar {
namespace {

// Names that a grammar cannot define itself.
constexpr const char* kIgnored = "%ignore";
constexpr const char* kWhole = "%whole";

/// Terminals of common.lark as regular expressions.
struct CommonTerminal {
  std::string_view name;
  std::string_view regex;
};
constexpr std::array<CommonTerminal, 25> kCommon = {{
    {"DIGIT", "[0-9]"},
    {"HEXDIGIT", "[a-fA-F0-9]"},
    {"INT", "[0-9]+"},
    {"SIGNED_INT", "[+-]?[0-9]+"},
    {"DECIMAL", R"([0-9]+\.[0-9]*|\.[0-9]+)"},
    {"FLOAT", R"([0-9]+[eE][+-]?[0-9]+|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)"},
    {"SIGNED_FLOAT", R"([+-]?([0-9]+[eE][+-]?[0-9]+|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?))"},
    {"NUMBER", R"(([0-9]+|[0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)"},
    {"SIGNED_NUMBER", R"([+-]?([0-9]+|[0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)"},
    {"ESCAPED_STRING", R"("([^"\\\n]|\\[^\n])*")"},
    {"LCASE_LETTER", "[a-z]"},
    {"UCASE_LETTER", "[A-Z]"},
    {"LETTER", "[A-Za-z]"},
    {"WORD", "[A-Za-z]+"},
    {"CNAME", "[A-Za-z_][A-Za-z_0-9]*"},
    {"WS_INLINE", R"([ \t]+)"},
    {"WS", R"([ \t\f\r\n]+)"},
    {"CR", R"(\r)"},
    {"LF", R"(\n)"},
    {"NEWLINE", R"((\r?\n)+)"},
    {"SH_COMMENT", R"(#[^\n]*)"},
    {"CPP_COMMENT", R"(//[^\n]*)"},
    {"C_COMMENT", R"(/\*([^*]|\*+[^*/])*\*+/)"},
    {"SQL_COMMENT", R"(--[^\n]*)"},
    {"_EXP", "[eE][+-]?[0-9]+"},
}};

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_word(char c) {
  return is_letter(c) || (c >= '0' && c <= '9') || c == '_';
}
bool is_terminal(std::string_view name) {
  const std::size_t first = name.find_first_not_of('_');
  return first != std::string_view::npos && name[first] >= 'A' && name[first] <= 'Z';
}

class LarkReader {
 public:
  /// `held` is charged for the rules.
  LarkReader(std::string_view text, WorkBudget& budget, WorkBudget::Held& held)
      : text_(text), budget_(budget), held_(held) {}

  /// Parses the grammar; the rule `kWhole` is its start.
  Rules read() {
    for (skip(true); more(); skip(true)) {
      if (peek() == '%') {
        directive();
      } else {
        definition();
      }
      skip(false);
      if (more() && peek() != '\n') fail("'" + here() + "' is not expected");
    }
    if (!rules_.by_name.contains("start")) throw GrammarError("the grammar has no rule 'start'");
    for (auto& [name, rule] : rules_.by_name) {
      if (is_terminal(name)) {
        refuse_circle(name);
      } else {
        rewrite_left_recursion(name, rule.choice);
      }
    }
    RuleItem start = reference("start", 0);
    if (ignored_.empty()) {
      rules_.by_name[kWhole].choice = {{std::move(start)}};
    } else {
      for (auto& [name, rule] : rules_.by_name) {
        if (!is_terminal(name)) let_ignore(rule.choice);
      }
      rules_.by_name[kIgnored].choice = std::move(ignored_);
      rules_.by_name[kWhole].choice = {{std::move(start), ignored_text()}};
    }
    return std::move(rules_);
  }

 private:
  using Kind = RuleItem::Kind;

  // -- characters

  [[noreturn]] void fail(const std::string& what) { throw GrammarError(at_line(line()) + what); }
  std::uint32_t line() {
    for (; counted_ < at_; ++counted_) line_ += text_[counted_] == '\n' ? 1 : 0;
    while (counted_ > at_) line_ -= text_[--counted_] == '\n' ? 1 : 0;
    return line_;
  }
  bool more() const { return at_ < text_.size(); }
  char peek() const { return more() ? text_[at_] : '\0'; }
  bool take(std::string_view wanted) {
    if (!text_.substr(at_).starts_with(wanted)) return false;
    at_ += wanted.size();
    return true;
  }
  /// Returns the text at the current offset, for errors.
  std::string here() const {
    std::size_t end = at_;
    while (end < text_.size() && end < at_ + 16 && text_[end] >= ' ' && text_[end] <= '~') ++end;
    return std::string(text_.substr(at_, end - at_));
  }
  void skip(bool lines) {
    for (;;) {
      const char c = peek();
      if (c == '#' || text_.substr(at_).starts_with("//")) {
        while (more() && peek() != '\n') ++at_;
      } else if (more() && (c == ' ' || c == '\t' || c == '\r' || c == '\f' || (lines && c == '\n'))) {
        ++at_;
      } else if (!take("\\\n") && !take("\\\r\n")) {  // line continuation
        return;
      }
    }
  }
  std::string word() {
    const std::size_t begin = at_;
    while (is_word(peek())) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }
  std::uint32_t number(const char* of) {
    skip(false);
    if (peek() < '0' || peek() > '9') fail(std::string("a number is missing in ") + of);
    std::uint64_t value = 0;
    for (; peek() >= '0' && peek() <= '9'; ++at_) {
      value = value * 10 + static_cast<std::uint64_t>(peek() - '0');
      if (value > budget_.limits().repetitions) {
        fail("a number of more than " + std::to_string(budget_.limits().repetitions) + " in " + of);
      }
    }
    return static_cast<std::uint32_t>(value);
  }

  // -- statements

  void definition() {
    while (take("!") || take("?")) {
    }
    const std::uint32_t began = line();
    std::string name = word();
    if (name.find_first_not_of('_') == std::string::npos || !is_letter(name[name.find_first_not_of('_')])) {
      fail("a rule's name is missing before '" + here() + "'");
    }
    if (peek() == '{') fail("templates of rules ('" + name + "{…}') are not supported");
    if (take(".")) {
      static_cast<void>(take("-"));
      static_cast<void>(number("a priority"));
    }
    skip(false);
    if (!take(":")) fail("':' is missing behind '" + name + "'");
    in_terminal_ = is_terminal(name);
    add(std::move(name), {.choice = choice(0), .line = began});
  }

  void add(std::string name, Rule rule) {
    held_.add(name.size() + 128);
    if (!rules_.by_name.try_emplace(name, std::move(rule)).second) fail("'" + name + "' is defined twice");
  }

  void directive() {
    if (take("%ignore")) {
      in_terminal_ = true;
      for (std::vector<RuleItem>& one : choice(0)) ignored_.push_back(std::move(one));
    } else if (take("%import")) {
      import_common();
    } else {
      ++at_;
      fail("'%" + word() + "' is not supported, only %import and %ignore are");
    }
  }

  void import_common() {
    skip(false);
    if (!take("common") || is_word(peek())) fail("only 'common' can be imported, not '" + here() + "'");
    skip(false);
    if (take(".")) {
      const std::string name = word();
      skip(false);
      if (!take("->")) return add_common(name, name);
      skip(false);
      return add_common(name, word());
    }
    if (!take("(")) fail("a name is missing behind 'common'");
    do {
      skip(true);
      const std::string name = word();
      add_common(name, name);
      skip(true);
    } while (take(","));
    if (!take(")")) fail("')' is missing");
  }

  void add_common(std::string_view name, const std::string& as) {
    const auto found = std::find_if(kCommon.begin(), kCommon.end(),
                                    [&](const CommonTerminal& one) { return one.name == name; });
    if (found == kCommon.end()) fail("'common." + std::string(name) + "' is not known here");
    if (!is_terminal(as)) fail("'" + as + "' is no name of a terminal");
    RuleItem item = pattern(found->regex, {});
    add(as, {.choice = {{std::move(item)}}, .line = line()});
  }

  // -- right-hand sides

  // Inside brackets alternatives may span lines; elsewhere a line break ends a rule unless '|' follows.
  RuleChoice choice(std::size_t depth) {
    if (depth > budget_.limits().depth) {
      fail("more than " + std::to_string(budget_.limits().depth) + " brackets within each other");
    }
    RuleChoice all;
    for (;;) {
      held_.add(sizeof all);
      all.push_back(sequence(depth));
      const std::size_t before = at_;
      skip(true);
      if (!take("|")) {
        if (depth == 0) at_ = before;
        return all;
      }
    }
  }

  std::vector<RuleItem> sequence(std::size_t depth) {
    std::vector<RuleItem> items;
    bool first = true;
    for (;; first = false) {
      const std::size_t before = at_;
      skip(depth > 0 || first);
      const std::size_t begin = at_;
      std::optional<RuleItem> item = atom(depth);
      if (!item || (first && depth == 0 && begins_definition(begin))) {
        at_ = before;  // the rule ends here; a definition may follow on the next line
        skip(false);
        break;
      }
      repetition(*item);
      held_.add(2 * sizeof *item + item->text.size() + item->chars.ranges().size() * sizeof(CharRange));
      items.push_back(std::move(*item));
    }
    if (take("->")) {
      skip(false);
      if (word().empty()) fail("a name is missing behind '->'");
      skip(false);
    }
    return items;
  }

  // Returns whether the word just read as an item is the name of the next definition.
  bool begins_definition(std::size_t word_at) const {
    if (!is_word(text_[word_at])) return false;
    std::size_t at = at_;
    if (at < text_.size() && text_[at] == '.' && !text_.substr(at).starts_with("..")) return true;
    while (at < text_.size() && (text_[at] == ' ' || text_[at] == '\t')) ++at;
    return at < text_.size() && text_[at] == ':';
  }

  std::optional<RuleItem> atom(std::size_t depth) {
    if (peek() == '"') return literal_or_range();
    if (peek() == '/') return regex();
    if (take("(")) return group(depth, ")", 1);
    if (take("[")) return group(depth, "]", 0);
    const std::uint32_t at = line();
    const std::string name = word();
    if (name.empty()) return std::nullopt;
    if (peek() == '{') fail("templates of rules ('" + name + "{…}') are not supported");
    if (in_terminal_ && !is_terminal(name)) fail("a terminal cannot have the rule '" + name + "' in it");
    return reference(name, at);
  }

  static RuleItem reference(const std::string& name, std::uint32_t line) {
    return {.kind = Kind::kRule, .text = name, .line = line};
  }

  RuleItem group(std::size_t depth, const char* close, std::uint32_t min) {
    RuleItem item{.kind = Kind::kGroup, .group = choice(depth + 1), .min = min};
    skip(true);
    if (!take(close)) fail(std::string("'") + close + "' is missing before '" + here() + "'");
    return item;
  }

  void repetition(RuleItem& item) {
    std::uint32_t min = 1;
    std::uint32_t max = 1;
    skip(false);
    if (take("*")) {
      min = 0;
      max = kUnbounded;
    } else if (take("+")) {
      max = kUnbounded;
    } else if (take("?")) {
      min = 0;
    } else if (take("~")) {
      min = max = number("a repetition");
      skip(false);
      if (take("..")) max = number("a repetition");
      if (max < min) fail("a repetition whose bounds are in the wrong order");
    } else {
      return;
    }
    if (item.min == 0) {  // [x]*
      RuleItem inner = std::exchange(item, {.kind = Kind::kGroup});
      item.group.emplace_back().push_back(std::move(inner));
    }
    item.min = min;
    item.max = max;
  }

  // -- terminals

  RuleItem literal_or_range() {
    const std::string text = string();
    const std::size_t after = at_;
    skip(false);
    if (!take("..")) {
      at_ = after;
    } else {
      skip(false);
      if (peek() != '"') fail("the end of a range is missing");
      const std::uint32_t low = one_character(text);
      const std::uint32_t high = one_character(string());
      if (high < low) fail("a range whose ends are in the wrong order");
      return {.kind = Kind::kChars, .chars = CharSet{{low, high}}};
    }
    if (peek() != 'i' || (at_ + 1 < text_.size() && is_word(text_[at_ + 1]))) return {.text = text};
    ++at_;
    return without_case(text);
  }

  RuleItem without_case(const std::string& text) {
    RuleItem all{.kind = Kind::kGroup};
    all.group.emplace_back();
    for (const char c : text) {
      if (static_cast<unsigned char>(c) >= 0x80) {
        fail("characters beyond ASCII beside the flag i are not supported");
      }
      RuleItem one{.text = std::string(1, c)};
      if (is_letter(c)) {
        const auto code = static_cast<std::uint32_t>(c);
        one = {.kind = Kind::kChars, .chars = CharSet{{code, code}, {code ^ 0x20U, code ^ 0x20U}}};
      }
      held_.add(2 * sizeof one + 2 * sizeof(CharRange));
      all.group.front().push_back(std::move(one));
    }
    return all;
  }

  std::uint32_t one_character(const std::string& text) {
    const Utf8Char c = text.empty() ? Utf8Char{} : read_utf8(text, 0);
    if (!c.is_valid || c.length != text.size()) fail("the end of a range that is not one character");
    return c.code_point;
  }

  // Returns the string with its quotes.
  std::string string() {
    std::string text;
    for (++at_; peek() != '"';) {
      if (!more() || peek() == '\n') fail("the end of a string is missing");
      if (take("\\")) {
        append_utf8(text, escaped());
        continue;
      }
      const Utf8Char c = read_utf8(text_, at_);
      if (!c.is_valid) fail("bytes that are not UTF-8");
      text.append(text_.substr(at_, c.length));
      at_ += c.length;
    }
    ++at_;
    return text;
  }

  std::uint32_t escaped() {
    constexpr std::string_view kNames = "nrtf\\\"";
    constexpr std::string_view kMeant = "\n\r\t\f\\\"";
    const std::size_t known = more() ? kNames.find(peek()) : std::string_view::npos;
    if (known != std::string_view::npos) {
      ++at_;
      return static_cast<std::uint32_t>(kMeant[known]);
    }
    const int digits = take("x") ? 2 : take("u") ? 4 : take("U") ? 8 : 0;
    if (digits == 0) fail("an unknown escape '\\" + here().substr(0, 1) + "' in a string");
    std::uint32_t value = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      const std::optional<std::uint32_t> digit = hex_digit(peek());
      if (!digit) fail("an escape without its digits");
      value = value * 16 + *digit;
    }
    if (value > kMaxCodePoint || (value >= 0xD800 && value <= 0xDFFF)) {
      fail("an escape that names no character");
    }
    return value;
  }

  RuleItem regex() {
    const std::size_t begin = ++at_;
    while (peek() != '/') {
      if (!more() || peek() == '\n') fail("the end of a regular expression is missing");
      at_ += peek() == '\\' && at_ + 1 < text_.size() ? 2 : 1;
    }
    const std::string_view source = text_.substr(begin, at_ - begin);
    RegexOptions options;
    for (++at_; is_letter(peek()); ++at_) {
      const char flag = peek();
      if (flag != 'i' && flag != 's' && flag != 'u') {
        fail(std::string("the flag '") + flag + "' of a regular expression is not supported");
      }
      options.ignores_case = options.ignores_case || flag == 'i';
      options.dot_is_any = options.dot_is_any || flag == 's';
    }
    return pattern(source, options);
  }

  RuleItem pattern(std::string_view source, RegexOptions options) {
    options.dialect = RegexDialect::kPython;
    options.refuses_ends = true;
    const auto number = static_cast<std::uint32_t>(rules_.patterns.size());
    try {
      CharProduct product(budget_);
      product.add(pattern_part(parse_regex(source, options, budget_), budget_));
      rules_.patterns.push_back(product.build());
    } catch (const GrammarError& error) {
      fail(error.what());
    }
    return {.kind = Kind::kPattern, .number = number};
  }

  // -- after parsing

  // Rejects terminals that refer to themselves; each level counts towards the nesting limit.
  void refuse_circle(const std::string& name) {
    bool& open = open_[name];
    if (open)
      throw GrammarError(at_line(rules_.by_name.at(name).line) + "the terminal '" + name +
                         "' has itself in it");
    if (!met_.insert(name).second) return;
    open = true;
    refuse_circles(rules_.by_name.at(name).choice);
    open_[name] = false;
  }
  void refuse_circles(const RuleChoice& choice) {
    const WorkBudget::Level level(budget_);
    for (const std::vector<RuleItem>& items : choice) {
      for (const RuleItem& item : items) {
        budget_.charge();
        if (item.kind == Kind::kGroup) refuse_circles(item.group);
        if (item.kind == Kind::kRule && rules_.by_name.contains(item.text)) refuse_circle(item.text);
      }
    }
  }

  // Rewrites direct left recursion: a: a "x" | "y" becomes a: ("y") ("x")*
  static void rewrite_left_recursion(const std::string& name, RuleChoice& choice) {
    const auto begins_with_itself = [&](const std::vector<RuleItem>& items) {
      return !items.empty() && items[0].kind == Kind::kRule && items[0].text == name && items[0].min == 1 &&
             items[0].max == 1;
    };
    if (std::none_of(choice.begin(), choice.end(), begins_with_itself)) return;
    RuleItem once{.kind = Kind::kGroup};
    RuleItem tail{.kind = Kind::kGroup, .min = 0, .max = kUnbounded};
    for (std::vector<RuleItem>& items : choice) {
      if (!begins_with_itself(items)) {
        once.group.push_back(std::move(items));
      } else if (items.size() > 1) {
        items.erase(items.begin());
        tail.group.push_back(std::move(items));
      }
    }
    choice.clear();
    choice.emplace_back().push_back(std::move(once));
    if (!tail.group.empty()) choice.front().push_back(std::move(tail));
  }

  static RuleItem ignored_text() {
    RuleItem item = reference(kIgnored, 0);
    item.min = 0;
    item.max = kUnbounded;
    return item;
  }

  // Allows ignored text before every terminal of a rule.
  void let_ignore(RuleChoice& choice) {
    for (std::vector<RuleItem>& items : choice) {
      for (RuleItem& item : items) {
        if (item.kind == Kind::kGroup) {
          let_ignore(item.group);
        } else if (item.kind != Kind::kRule || is_terminal(item.text)) {
          held_.add(3 * sizeof item);
          RuleItem both{.kind = Kind::kGroup, .min = item.min, .max = item.max};
          item.min = item.max = 1;
          std::vector<RuleItem>& sequence = both.group.emplace_back();
          sequence.push_back(ignored_text());
          sequence.push_back(std::move(item));
          item = std::move(both);
        }
      }
    }
  }

  const std::string_view text_;
  WorkBudget& budget_;
  WorkBudget::Held& held_;
  Rules rules_{};
  RuleChoice ignored_{};
  std::map<std::string, bool> open_{};
  std::set<std::string> met_{};
  bool in_terminal_ = false;
  std::size_t at_ = 0;
  std::size_t counted_ = 0;  // bytes whose line breaks are counted in line_
  std::uint32_t line_ = 1;
};

}  // namespace

NodeId lark_start(ProgramBuilder& builder, std::string_view text, const TextForm& form) {
  WorkBudget& budget = builder.budget();
  if (text.size() > budget.limits().text_bytes) {
    throw GrammarError("the grammar has more than " + std::to_string(budget.limits().text_bytes) + " bytes");
  }
  WorkBudget::Held held(budget);
  Rules rules = LarkReader(text, budget, held).read();
  return rules_start(builder, std::move(rules), kWhole, form);
}

}  // namespace reprise::protocol::grammar
