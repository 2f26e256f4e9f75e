#include "protocol/jinja/literals.h"

#include <charconv>
#include <cstdlib>

#include "protocol/jinja/unicode.h"

namespace reprise::protocol::jinja {
namespace {

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : 99;
}

// Digits of a base from `at` on, single underscores between them; `leading` allows one in front.
std::size_t behind_digits(std::string_view text, std::size_t at, int base, bool leading) {
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

}  // namespace

std::size_t integer_length(std::string_view text) {
  if (text.empty() || digit_of(text[0]) > 9) return 0;
  if (const int base = base_of(text); base != 10) {
    const std::size_t end = behind_digits(text, 2, base, true);
    if (end > 2) return end;
  }
  if (text[0] != '0') return behind_digits(text, 0, 10, false);
  return behind_digits(text, 0, 1, false);  // 0, 00, 0_0
}

std::size_t float_length(std::string_view text) {
  const std::size_t whole = behind_digits(text, 0, 10, false);
  if (whole == 0) return 0;
  std::size_t end = whole;
  if (end < text.size() && text[end] == '.') {
    const std::size_t fraction = behind_digits(text, end + 1, 10, false);
    if (fraction > end + 1) end = fraction;
  }
  if (end < text.size() && (text[end] == 'e' || text[end] == 'E')) {
    std::size_t digits = end + 1;
    if (digits < text.size() && (text[digits] == '+' || text[digits] == '-')) ++digits;
    const std::size_t exponent = behind_digits(text, digits, 10, false);
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
      // a line that goes on
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

}  // namespace reprise::protocol::jinja
