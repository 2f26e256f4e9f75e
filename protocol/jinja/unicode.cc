#include "protocol/jinja/unicode.h"

#include <utf8proc.h>

namespace reprise::protocol::jinja {
namespace {

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

// Multi-character upper-case forms of letters that occur in practice.
std::string_view long_upper(char32_t c) {
  switch (c) {
    case 0xDF:
      return "SS";
    case 0x149:
      return "\xCA\xBCN";
    case 0xFB00:
      return "FF";
    case 0xFB01:
      return "FI";
    case 0xFB02:
      return "FL";
    case 0xFB03:
      return "FFI";
    case 0xFB04:
      return "FFL";
    case 0xFB05:
    case 0xFB06:
      return "ST";
    default:
      return {};
  }
}

}  // namespace

std::size_t count_code_points(std::string_view text) {
  std::size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return count;
}

std::size_t byte_offset(std::string_view text, std::size_t code_point) {
  std::size_t at = 0;
  while (code_point-- > 0 && at < text.size()) at += character_bytes(text[at]);
  return at < text.size() ? at : text.size();
}

std::u32string to_code_points(std::string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) out += next_code_point(text, at);
  return out;
}

std::string to_utf8(std::u32string_view code_points) {
  std::string out;
  out.reserve(code_points.size());
  for (const char32_t c : code_points) append_utf8(out, c);
  return out;
}

bool is_space(char32_t c) {
  if (c < 128) return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x1F);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_alpha(char32_t c) {
  if (c < 128) return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  const auto k = category(c);
  return k == UTF8PROC_CATEGORY_LU || k == UTF8PROC_CATEGORY_LL || k == UTF8PROC_CATEGORY_LT ||
         k == UTF8PROC_CATEGORY_LM || k == UTF8PROC_CATEGORY_LO;
}

bool is_decimal(char32_t c) {
  if (c < 128) return c >= '0' && c <= '9';
  return category(c) == UTF8PROC_CATEGORY_ND;
}

bool is_digit(char32_t c) {
  return is_decimal(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 ||
         (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089) || (c >= 0x2460 && c <= 0x2468);
}

bool is_numeric(char32_t c) {
  if (c < 128) return c >= '0' && c <= '9';
  const auto k = category(c);
  return k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO;
}

bool is_lower(char32_t c) {
  if (c < 128) return c >= 'a' && c <= 'z';
  return category(c) == UTF8PROC_CATEGORY_LL || c == 0xAA || c == 0xBA;
}

bool is_upper(char32_t c) {
  if (c < 128) return c >= 'A' && c <= 'Z';
  return category(c) == UTF8PROC_CATEGORY_LU;
}

bool is_title(char32_t c) {
  return c >= 128 && category(c) == UTF8PROC_CATEGORY_LT;
}

bool is_printable(char32_t c) {
  if (c < 128) return c >= 32 && c != 127;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

bool is_word(char32_t c) {
  return c == '_' || is_alnum(c);
}

void append_upper(std::string& out, char32_t c) {
  if (const std::string_view text = long_upper(c); !text.empty()) {
    out += text;
  } else {
    append_utf8(out, static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))));
  }
}

void append_lower(std::string& out, char32_t c) {
  if (c == 0x130) {
    out += "i\xCC\x87";
  } else {
    append_utf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
  }
}

void append_title(std::string& out, char32_t c) {
  if (c == 0xDF) {
    out += "Ss";
  } else {
    append_utf8(out, static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))));
  }
}

std::string to_upper(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) append_upper(out, next_code_point(text, at));
  return out;
}

std::string to_lower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) append_lower(out, next_code_point(text, at));
  return out;
}

}  // namespace reprise::protocol::jinja
