#include "base/json_text.h"

#include <charconv>
#include <cmath>

namespace reprise {
namespace {

void append_hex4(std::string& out, unsigned value) {
  constexpr char kDigits[] = "0123456789abcdef";
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) out += kDigits[value >> shift & 15];
}

void append_escaped(std::string& out, char32_t code_point) {
  if (code_point < 0x10000) {
    append_hex4(out, code_point);
  } else {
    append_hex4(out, 0xD800 + ((code_point - 0x10000) >> 10));
    append_hex4(out, 0xDC00 + ((code_point - 0x10000) & 0x3FF));
  }
}

// Decodes the character at text[at]; a byte that begins none gives U+FFFD.
char32_t read_character(std::string_view text, std::size_t at, std::size_t& length) {
  const auto lead = static_cast<unsigned char>(text[at]);
  length = lead < 0x80 ? 1 : lead < 0xC0 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (length == 0 || at + length > text.size()) {
    length = 1;
    return 0xFFFD;
  }
  char32_t code_point = length == 1 ? lead : lead & (0x3Fu >> (length - 1));
  for (std::size_t i = 1; i < length; ++i) {
    code_point = code_point << 6 | (static_cast<unsigned char>(text[at + i]) & 0x3Fu);
  }
  return code_point;
}

// Returns 0 if the character needs no short escape.
char short_escape(unsigned char c) {
  switch (c) {
    case '"':
      return '"';
    case '\\':
      return '\\';
    case '\n':
      return 'n';
    case '\r':
      return 'r';
    case '\t':
      return 't';
    case '\b':
      return 'b';
    case '\f':
      return 'f';
    default:
      return 0;
  }
}

}  // namespace

JsonStyle JsonStyle::python() {
  JsonStyle style;
  style.item_separator = ", ";
  style.key_separator = ": ";
  style.python_numbers = true;
  return style;
}

void append_json_string(std::string& out, std::string_view text, bool ensure_ascii) {
  out += '"';
  std::size_t plain = 0;  // start of the text not written yet
  for (std::size_t at = 0; at < text.size();) {
    const auto c = static_cast<unsigned char>(text[at]);
    const bool stays = c >= 0x20 && c != '"' && c != '\\' && !(ensure_ascii && c >= 0x7F);
    if (stays) {
      ++at;
      continue;
    }
    out.append(text, plain, at - plain);
    std::size_t length = 1;
    if (const char escape = short_escape(c)) {
      out += '\\';
      out += escape;
    } else {
      append_escaped(out, read_character(text, at, length));
    }
    plain = at += length;
  }
  out.append(text, plain, text.size() - plain);
  out += '"';
}

void append_integer(std::string& out, std::int64_t value) {
  char digits[24];
  out.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

void append_python_double(std::string& out, double value) {
  if (std::isnan(value)) {
    out += "nan";
    return;
  }
  if (std::signbit(value)) out += '-';
  value = std::fabs(value);
  if (std::isinf(value)) {
    out += "inf";
    return;
  }
  // The shortest digits have the form d.ddde±xx; Python uses an exponent below 1e-4 and from 1e16 on.
  char text[32];
  const std::string_view shortest(
      text, std::to_chars(text, text + sizeof text, value, std::chars_format::scientific).ptr - text);
  const std::size_t e = shortest.find('e');
  std::string digits(1, shortest[0]);
  if (e > 2) digits += shortest.substr(2, e - 2);
  int exponent = 0;
  const std::size_t sign = shortest[e + 1] == '+' ? 2 : 1;
  std::from_chars(shortest.data() + e + sign, shortest.data() + shortest.size(), exponent);
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (count > 1) (out += '.').append(digits, 1);
    out += exponent < 0 ? "e-" : "e+";
    const int size = std::abs(exponent);
    if (size < 10) out += '0';
    append_integer(out, size);
  } else if (exponent < 0) {
    out.append("0.").append(static_cast<std::size_t>(-exponent - 1), '0').append(digits);
  } else if (count <= exponent + 1) {
    out.append(digits).append(static_cast<std::size_t>(exponent + 1 - count), '0').append(".0");
  } else {
    out.append(digits, 0, static_cast<std::size_t>(exponent + 1)).append(".");
    out.append(digits, static_cast<std::size_t>(exponent + 1));
  }
}

void append_json_double(std::string& out, double value, bool python_numbers) {
  if (std::isfinite(value)) {
    append_python_double(out, value);
  } else if (!python_numbers) {
    out += "null";
  } else if (std::isnan(value)) {
    out += "NaN";
  } else {
    out += value < 0 ? "-Infinity" : "Infinity";
  }
}

}  // namespace reprise
