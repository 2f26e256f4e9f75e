#include "models/text/regex_syntax.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "models/text/regex.h"
#include "models/text/regex_class.h"
#include "models/text/regex_property.h"

namespace reprise::models {
namespace {

constexpr int kDeepestNesting = 50;

bool is_capital(char c) {
  return c >= 'A' && c <= 'Z';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  std::string run() {
    while (at_ < in_.size()) step();
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw RegexError(join({what, " at offset ", std::to_string(at_), " of ", in_}));
  }

  bool has(std::string_view text) const { return in_.substr(at_).starts_with(text); }
  char peek(std::size_t ahead = 0) const { return at_ + ahead < in_.size() ? in_[at_ + ahead] : '\0'; }

  void begin_atom() { atom_ = out_.size(); }

  void step() {
    switch (in_[at_]) {
      case '\\':
        begin_atom();
        out_ += escape();
        break;
      case '[':
        begin_atom();
        ++at_;
        out_ += to_pattern(char_set(0));
        break;
      case '(':
        open_group();
        break;
      case ')':
        if (!groups_.empty()) {
          atom_ = groups_.back();
          groups_.pop_back();
        }
        copy(1);
        break;
      case '{':
        interval();
        break;
      case '*':
      case '+':
      case '?':
        copy(peek(1) == '+' || peek(1) == '?' ? 2 : 1);
        break;
      default:
        begin_atom();
        copy(read_utf8(in_, at_).length);
    }
  }

  void copy(std::size_t bytes) {
    bytes = std::min(bytes, in_.size() - at_);
    out_ += in_.substr(at_, bytes);
    at_ += bytes;
  }

  void open_group() {
    groups_.push_back(out_.size());
    if (peek(1) == '*') fail("unsupported (*");
    if (peek(1) != '?') return copy(1);
    if (peek(2) == '~') fail("unsupported (?~");
    if (peek(2) == '#') return copy(in_.find(')', at_) - at_);
    copy(2);
    while (is_letter(peek()) || peek() == '-') {  // options; m is what others call s
      out_ += peek() == 'm' ? 's' : peek();
      ++at_;
    }
  }

  // {n}, {n,}, {n,m} or {,m}; any other brace is a character.
  void interval() {
    std::size_t end = at_ + 1;
    const auto digits = [&] {
      const std::size_t begin = end;
      while (end < in_.size() && is_digit(in_[end])) ++end;
      return in_.substr(begin, end - begin);
    };
    const std::string_view low = digits();
    const bool has_comma = end < in_.size() && in_[end] == ',';
    if (has_comma) ++end;
    const std::string_view high = has_comma ? digits() : "";
    if (end >= in_.size() || in_[end] != '}' || (low.empty() && high.empty())) {
      begin_atom();
      out_ += "\\{";
      ++at_;
      return;
    }
    at_ = end + 1;
    out_ += join({"{", low.empty() ? "0" : low, has_comma ? "," : "", high, "}"});
    if (peek() == '+') {  // repeats the interval
      out_.insert(atom_, "(?:");
      out_ += ")+";
      ++at_;
    } else if (peek() == '?') {
      copy(1);
    }
  }

  // \p{…} or \P{…}, at the letter.
  std::string property() {
    const bool negated = peek() == 'P';
    ++at_;
    if (peek() != '{') fail("\\p without {");
    const std::size_t end = in_.find('}', at_);
    if (end == std::string_view::npos) fail("\\p{ without }");
    std::string_view name = in_.substr(at_ + 1, end - at_ - 1);
    const bool caret = name.starts_with('^');
    if (caret) name.remove_prefix(1);
    at_ = end + 1;
    return join({negated != caret ? "\\P{" : "\\p{", pcre2_property(name), "}"});
  }

  // \uHHHH, at the letter.
  std::string code_point() {
    std::string digits;
    for (std::size_t i = 1; i <= 4; ++i) {
      if (!is_hex(peek(i))) fail("\\u without four digits");
      digits += peek(i);
    }
    at_ += 5;
    return join({"\\x{", digits, "}"});
  }

  // A backslash and the character behind it, which has no meaning of its own here.
  std::string plain_escape() {
    const std::size_t length = read_utf8(in_, at_).length;
    at_ += length;
    return join({"\\", in_.substr(at_ - length, length)});
  }

  // An escape outside a class, at the backslash.
  std::string escape() {
    ++at_;
    if (at_ >= in_.size()) fail("\\ at the end");
    const char letter = in_[at_];
    if (letter == 'p' || letter == 'P') return property();
    if (letter == 'u') return code_point();
    if (const std::string_view set = set_of(letter); !set.empty()) {
      ++at_;
      return bracket(set, is_capital(letter));
    }
    if (letter == 'v') {
      ++at_;
      return "\\x{0B}";
    }
    if (letter != 'b' && letter != 'B') return plain_escape();
    ++at_;
    const bool is_border = letter == 'b';
    return join({"(?:(?<=[", kWordCharacters, is_border ? "])(?![" : "])(?=[", kWordCharacters, "])|(?<![",
                 kWordCharacters, is_border ? "])(?=[" : "])(?![", kWordCharacters, "]))"});
  }

  // An escape inside a class, at the backslash: adds to the set. True if it stands for many characters.
  bool class_escape(CharSet& set) {
    ++at_;
    if (at_ >= in_.size()) fail("\\ at the end");
    const char letter = in_[at_];
    if (letter == 'p' || letter == 'P') {
      set.items += property();
      return true;
    }
    if (const std::string_view items = set_of(letter); !items.empty()) {
      ++at_;
      if (is_capital(letter)) {
        CharSet outside;
        outside.negated = true;
        outside.items = items;
        set.nested.push_back(std::move(outside));
      } else {
        set.items += items;
      }
      return true;
    }
    if (letter == 'u') {
      set.items += code_point();
    } else if (letter == 'v' || letter == 'b') {
      ++at_;
      set.items += letter == 'v' ? "\\x{0B}" : "\\x{08}";
    } else {
      set.items += plain_escape();
    }
    return false;
  }

  // The rest of a class, behind its bracket.
  CharSet char_set(int depth) {
    if (depth > kDeepestNesting) fail("classes nested too deeply");
    CharSet set;
    if (peek() == '^') {
      set.negated = true;
      ++at_;
    }
    bool is_first = true;
    bool is_after_many = false;  // the last item was \p{L} or the like, so a hyphen is a character
    CharSet* part = &set;        // the operand that items go to
    std::vector<CharSet> others;
    CharSet current;
    for (;; is_first = false) {
      if (at_ >= in_.size()) fail("[ without ]");
      const char c = in_[at_];
      if (c == ']' && !is_first) break;
      if (has("&&")) {
        at_ += 2;
        if (part != &set) others.push_back(std::move(current));
        current = CharSet();
        part = &current;
        continue;
      }
      if (has("[:") && in_.find(":]", at_) != std::string_view::npos) {
        const std::size_t end = in_.find(":]", at_) + 2;
        part->items += in_.substr(at_, end - at_);
        at_ = end;
        is_after_many = true;
        continue;
      }
      if (c == '[') {
        ++at_;
        CharSet inner = char_set(depth + 1);
        if (inner.is_plain() && !inner.negated) {
          if (inner.items.starts_with('-')) part->items += "\\";
          part->items += inner.items;
        } else {
          part->nested.push_back(std::move(inner));
        }
        is_after_many = true;
        continue;
      }
      if (c == '\\') {
        is_after_many = class_escape(*part);
        continue;
      }
      if (c == '-' && (is_after_many || peek(1) == '[')) {
        part->items += "\\-";
        ++at_;
        is_after_many = false;
        continue;
      }
      if (c == ']') part->items += "\\";
      const std::size_t length = read_utf8(in_, at_).length;
      part->items += in_.substr(at_, length);
      at_ += length;
      is_after_many = false;
    }
    ++at_;
    if (part != &set) others.push_back(std::move(current));
    set.others = std::move(others);
    const auto is_empty = [](const CharSet& one) { return one.items.empty() && one.nested.empty(); };
    if (is_empty(set) || std::any_of(set.others.begin(), set.others.end(), is_empty)) fail("empty class");
    return set;
  }

  std::string_view in_;
  std::size_t at_ = 0;
  std::string out_;
  std::size_t atom_ = 0;             // where in out_ the last atom began
  std::vector<std::size_t> groups_;  // where in out_ the open groups began
};

}  // namespace

std::string to_pcre2(std::string_view pattern) {
  return Translator(pattern).run();
}

std::string quote_regex(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80 && !is_letter(c) && !is_digit(c)) out += '\\';
    out += c;
  }
  return out;
}

}  // namespace reprise::models
