#include "protocol/jinja/lexer.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/jinja/builtins.h"
#include "protocol/jinja/error.h"
#include "protocol/jinja/unicode.h"

namespace reprise::protocol::jinja {
namespace {

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : 99;
}

// Returns the offset after digits of the base with single underscores between them; `leading`: also one
// before.
std::size_t end_of_digits(std::string_view text, std::size_t at, int base, bool leading) {
  const std::size_t start = at;
  while (at < text.size()) {
    if (digit_of(text[at]) < base) {
      ++at;
    } else if (text[at] == '_' && (at > start || leading) && at + 1 < text.size() &&
               digit_of(text[at + 1]) < base) {
      at += 2;
    } else {
      break;
    }
  }
  return at;
}

std::string without_underscores(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c != '_') out += c;
  }
  return out;
}

int base_of(std::string_view text) {
  if (text.size() < 3 || text[0] != '0') return 10;
  const char mark = static_cast<char>(text[1] | 0x20);
  return mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
}

std::size_t integer_length(std::string_view text) {
  if (text.empty() || digit_of(text[0]) > 9) return 0;
  if (const int base = base_of(text); base != 10) {
    const std::size_t end = end_of_digits(text, 2, base, true);
    if (end > 2) return end;
  }
  if (text[0] != '0') return end_of_digits(text, 0, 10, false);
  return end_of_digits(text, 0, 1, false);  // 0, 00, 0_0
}

std::size_t float_length(std::string_view text) {
  const std::size_t whole = end_of_digits(text, 0, 10, false);
  if (whole == 0) return 0;
  std::size_t end = whole;
  if (end < text.size() && text[end] == '.') {
    const std::size_t fraction = end_of_digits(text, end + 1, 10, false);
    if (fraction > end + 1) end = fraction;
  }
  if (end < text.size() && (text[end] == 'e' || text[end] == 'E')) {
    std::size_t digits = end + 1;
    if (digits < text.size() && (text[digits] == '+' || text[digits] == '-')) ++digits;
    const std::size_t exponent = end_of_digits(text, digits, 10, false);
    if (exponent > digits) end = exponent;
  }
  return end > whole ? end : 0;
}

std::optional<std::int64_t> integer_value(std::string_view literal) {
  const int base = base_of(literal);
  const std::string digits = without_underscores(base == 10 ? literal : literal.substr(2));
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

double float_value(std::string_view literal) {
  return std::strtod(without_underscores(literal).c_str(), nullptr);
}

bool unescape(std::string_view literal, std::string& out, std::string& error) {
  const auto read_hex = [&](std::size_t at, std::size_t count, char32_t& value) {
    value = 0;
    if (at + count > literal.size()) return false;
    for (std::size_t i = 0; i < count; ++i) {
      const int digit = digit_of(literal[at + i]);
      if (digit > 15) return false;
      value = value << 4 | static_cast<char32_t>(digit);
    }
    return true;
  };
  for (std::size_t at = 0; at < literal.size();) {
    if (literal[at] != '\\' || at + 1 >= literal.size()) {
      out += literal[at++];
      continue;
    }
    const char c = literal[at + 1];
    at += 2;
    constexpr std::string_view kNames = "\\'\"abfnrtv";
    constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";
    if (const std::size_t known = kNames.find(c); known != kNames.npos) {
      out += kMeanings[known];
    } else if (c == '\n') {
      // line continuation
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const std::size_t count = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      char32_t value = 0;
      if (!read_hex(at, count, value)) {
        error = std::string("truncated \\") + c + " escape in a string";
        return false;
      }
      if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) {
        error = "an escape in a string stands for no character";
        return false;
      }
      append_utf8(out, value);
      at += count;
    } else if (c >= '0' && c <= '7') {
      char32_t value = static_cast<char32_t>(c - '0');
      for (int i = 0; i < 2 && at < literal.size() && literal[at] >= '0' && literal[at] <= '7'; ++i) {
        value = value * 8 + static_cast<char32_t>(literal[at++] - '0');
      }
      append_utf8(out, value);
    } else if (c == 'N') {
      error = "\\N escapes are not supported";
      return false;
    } else {
      out += '\\';
      out += c;
    }
  }
  return true;
}

constexpr std::string_view kOperators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "*",
                                           "/",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                           ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};

// Converts line breaks to \n and removes one at the end.
std::string normalize_lines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
    } else {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : text_(normalize_lines(source)), source_(text_) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) read_root();
    tokens_.push_back({Token::Type::kEnd, line_});
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail_here(std::string reason) const {
    throw Failure(TemplateError::Kind::kSyntax, std::move(reason), line_);
  }

  bool looking_at(std::string_view word) const { return source_.substr(at_).starts_with(word); }

  std::size_t end_of_space(std::size_t at) const {
    while (at < source_.size()) {
      std::size_t next = at;
      if (!is_space(next_code_point(source_, next))) break;
      at = next;
    }
    return at;
  }

  void advance_to(std::size_t end) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
    at_ = end;
  }

  void consume_tag_part(std::size_t end) {
    line_starting_ = end > at_ && source_[end - 1] == '\n';
    advance_to(end);
  }

  // Reads text up to the next tag, then the tag.
  void read_root() {
    std::size_t tag = at_;
    for (;; ++tag) {
      tag = source_.find('{', tag);
      if (tag == source_.npos || tag + 1 >= source_.size()) {
        tag = source_.npos;
        break;
      }
      const char next = source_[tag + 1];
      if (next == '{' || next == '%' || next == '#') break;
    }
    if (tag == source_.npos) {
      add_data(source_.substr(at_), source_.size());
      return;
    }
    const char kind = source_[tag + 1];
    const char sign = sign_at(tag + 2);
    add_data(before_tag(source_.substr(at_, tag - at_), sign, kind == '{'), tag);
    if (kind == '%') {
      if (const auto raw_end = raw_begin(tag)) {
        consume_tag_part(*raw_end);
        read_raw();
        return;
      }
    }
    const int tag_line = line_;
    consume_tag_part(tag + 2 + (sign != 0));
    if (kind == '#') {
      read_comment();
    } else {
      tokens_.push_back({kind == '{' ? Token::Type::kVariableBegin : Token::Type::kBlockBegin, tag_line});
      read_tag(kind == '{');
    }
  }

  char sign_at(std::size_t at) const {
    return at < source_.size() && (source_[at] == '-' || source_[at] == '+') ? source_[at] : '\0';
  }

  // Returns the text before a tag after whitespace control.
  std::string_view before_tag(std::string_view text, char sign, bool is_variable) const {
    if (sign == '-') return strip(text, nullptr, Side::kRight);
    if (sign == '+' || is_variable) return text;
    const std::size_t line_start = text.rfind('\n') + 1;  // npos + 1 is 0
    if (line_start == 0 && !line_starting_) return text;
    const std::string_view rest = text.substr(line_start);
    return strip(rest, nullptr, Side::kBoth).empty() ? text.substr(0, line_start) : text;
  }

  void add_data(std::string_view text, std::size_t end) {
    if (!text.empty()) tokens_.push_back({Token::Type::kData, line_, std::string(text)});
    advance_to(end);
  }

  // Returns the offset after `{% raw %}`; nothing for other tags.
  std::optional<std::size_t> raw_begin(std::size_t tag) const {
    std::size_t at = end_of_space(tag + 2 + (sign_at(tag + 2) != 0));
    if (!source_.substr(at).starts_with("raw")) return std::nullopt;
    at = end_of_space(at + 3);
    if (source_.substr(at).starts_with("-%}")) return end_of_space(at + 3);
    if (source_.substr(at).starts_with("%}")) return at + 2;
    return std::nullopt;
  }

  void read_raw() {
    for (std::size_t tag = source_.find("{%", at_); tag != source_.npos; tag = source_.find("{%", tag + 1)) {
      const char sign = sign_at(tag + 2);
      std::size_t at = end_of_space(tag + 2 + (sign != 0));
      if (!source_.substr(at).starts_with("endraw")) continue;
      at = end_of_space(at + 6);
      const auto end = block_end(at);
      if (!end) continue;
      add_data(before_tag(source_.substr(at_, tag - at_), sign, false), tag);
      consume_tag_part(*end);
      return;
    }
    fail_here("Missing end of raw directive");
  }

  void read_comment() {
    const std::size_t close = source_.find("#}", at_);
    if (close == source_.npos) fail_here("Missing end of comment tag");
    std::size_t end = close + 2;
    if (close > at_ && source_[close - 1] == '-') {
      end = end_of_space(end);
    } else if (!(close > at_ && source_[close - 1] == '+') && end < source_.size() && source_[end] == '\n') {
      ++end;
    }
    consume_tag_part(end);
  }

  // Returns the offset after the end of a block tag at `at`, if there is one.
  std::optional<std::size_t> block_end(std::size_t at) const {
    const std::string_view rest = source_.substr(at);
    if (rest.starts_with("+%}")) return at + 3;
    if (rest.starts_with("-%}")) return end_of_space(at + 3);
    if (rest.starts_with("%}\n")) return at + 3;
    if (rest.starts_with("%}")) return at + 2;
    return std::nullopt;
  }

  std::optional<std::size_t> variable_end(std::size_t at) const {
    const std::string_view rest = source_.substr(at);
    if (rest.starts_with("-}}")) return end_of_space(at + 3);
    if (rest.starts_with("}}")) return at + 2;
    return std::nullopt;
  }

  void read_tag(bool is_variable) {
    std::string open;  // closing brackets that are expected
    for (;;) {
      advance_to(end_of_space(at_));
      if (at_ >= source_.size()) return;  // the parser reports what is missing
      if (open.empty()) {
        if (const auto end = is_variable ? variable_end(at_) : block_end(at_)) {
          tokens_.push_back({is_variable ? Token::Type::kVariableEnd : Token::Type::kBlockEnd, line_});
          consume_tag_part(*end);
          return;
        }
      }
      if (!read_number() && !read_name() && !read_string()) read_operator(open);
    }
  }

  bool read_number() {
    const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';
    Token token{Token::Type::kInteger, line_};
    std::size_t length = after_dot ? 0 : float_length(source_.substr(at_));
    if (length > 0) {
      token.type = Token::Type::kFloat;
      token.number = float_value(source_.substr(at_, length));
    } else {
      length = integer_length(source_.substr(at_));
      if (length == 0) return false;
      const auto value = integer_value(source_.substr(at_, length));
      if (!value) fail_here("an integer does not fit 64 bits");
      token.integer = *value;
    }
    token.text = source_.substr(at_, length);
    tokens_.push_back(std::move(token));
    at_ += length;
    return true;
  }

  bool read_name() {
    std::size_t end = at_;
    while (end < source_.size()) {
      std::size_t next = end;
      if (!is_word(next_code_point(source_, next))) break;
      end = next;
    }
    if (end == at_) return false;
    if (std::size_t first = at_; !is_alpha(next_code_point(source_, first)) && source_[at_] != '_') {
      fail_here("Invalid character in identifier");
    }
    tokens_.push_back({Token::Type::kName, line_, std::string(source_.substr(at_, end - at_))});
    at_ = end;
    return true;
  }

  bool read_string() {
    const char quote = source_[at_];
    if (quote != '\'' && quote != '"') return false;
    std::size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail_here("a string is not closed");
    std::string error;
    Token token{Token::Type::kString, line_};
    if (!unescape(source_.substr(at_ + 1, end - at_ - 1), token.text, error)) fail_here(error);
    tokens_.push_back(std::move(token));
    advance_to(end + 1);
    return true;
  }

  void read_operator(std::string& open) {
    for (const std::string_view sign : kOperators) {
      if (!looking_at(sign)) continue;
      const char c = sign[0];
      if (sign == "(" || sign == "[" || sign == "{") {
        open += c == '(' ? ')' : c == '[' ? ']' : '}';
      } else if (sign == ")" || sign == "]" || sign == "}") {
        if (open.empty()) fail_here(std::string("unexpected '") + c + "'");
        if (open.back() != c) {
          fail_here(std::string("unexpected '") + c + "', expected '" + open.back() + "'");
        }
        open.pop_back();
      }
      tokens_.push_back({Token::Type::kOperator, line_, std::string(sign)});
      at_ += sign.size();
      return;
    }
    fail_here("unexpected character '" + std::string(source_.substr(at_, character_bytes(source_[at_]))) +
              "'");
  }

  const std::string text_;
  const std::string_view source_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  // the last tag was followed by a line break
  std::vector<Token> tokens_;
};

}  // namespace

std::string Token::describe() const {
  switch (type) {
    case Type::kData:
      return "template data / text";
    case Type::kVariableBegin:
      return "begin of print statement";
    case Type::kVariableEnd:
      return "end of print statement";
    case Type::kBlockBegin:
      return "begin of statement block";
    case Type::kBlockEnd:
      return "end of statement block";
    case Type::kString:
      return "string";
    case Type::kEnd:
      return "end of template";
    default:
      return text;
  }
}

std::vector<Token> tokenize(std::string_view source) {
  return Lexer(source).run();
}

}  // namespace reprise::protocol::jinja
