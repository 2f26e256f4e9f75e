#include "base/utf8.h"

#include <cstring>

namespace reprise {
namespace {

// Lead byte: number of following bytes, and the valid range of the first of them.
struct Lead {
  std::uint8_t following;
  std::uint8_t first_low;
  std::uint8_t first_high;
};

Lead lead_of(unsigned char byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {1, 0x80, 0xBF};
  if (byte == 0xE0) return {2, 0xA0, 0xBF};  // no overlong forms
  if (byte == 0xED) return {2, 0x80, 0x9F};  // no surrogates
  if (byte >= 0xE1 && byte <= 0xEF) return {2, 0x80, 0xBF};
  if (byte == 0xF0) return {3, 0x90, 0xBF};  // no overlong forms
  if (byte >= 0xF1 && byte <= 0xF3) return {3, 0x80, 0xBF};
  if (byte == 0xF4) return {3, 0x80, 0x8F};  // nothing past U+10FFFF
  return {0, 0, 0};
}

bool is_ascii_block(const char* text) {
  std::uint64_t block;
  std::memcpy(&block, text, sizeof block);
  return (block & 0x8080808080808080u) == 0;
}

}  // namespace

Utf8Char read_utf8(std::string_view text, std::size_t at) {
  const auto byte_at = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned char first = byte_at(0);
  if (first < 0x80) return {first, 1, true, false};
  const Lead lead = lead_of(first);
  if (lead.following == 0) return {kReplacementCharacter, 1, false, false};

  char32_t code_point = first & (0x3F >> lead.following);
  for (std::uint8_t i = 1; i <= lead.following; ++i) {
    if (at + i >= text.size()) return {kReplacementCharacter, i, false, true};
    const unsigned char byte = byte_at(i);
    const unsigned char low = i == 1 ? lead.first_low : 0x80;
    const unsigned char high = i == 1 ? lead.first_high : 0xBF;
    if (byte < low || byte > high) return {kReplacementCharacter, i, false, false};
    code_point = code_point << 6 | (byte & 0x3F);
  }
  return {code_point, static_cast<std::uint8_t>(lead.following + 1), true, false};
}

std::size_t valid_utf8_prefix(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    if (text.size() - at >= 8 && is_ascii_block(text.data() + at)) {
      at += 8;
      continue;
    }
    const Utf8Char read = read_utf8(text, at);
    if (!read.is_valid) break;
    at += read.length;
  }
  return at;
}

std::size_t previous_utf8(std::string_view text, std::size_t end) {
  std::size_t at = end - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

void append_utf8(std::string& out, char32_t code_point) {
  const auto push = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    push(code_point);
  } else if (code_point < 0x800) {
    push(0xC0 | code_point >> 6);
    push(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    push(0xE0 | code_point >> 12);
    push(0x80 | (code_point >> 6 & 0x3F));
    push(0x80 | (code_point & 0x3F));
  } else {
    push(0xF0 | code_point >> 18);
    push(0x80 | (code_point >> 12 & 0x3F));
    push(0x80 | (code_point >> 6 & 0x3F));
    push(0x80 | (code_point & 0x3F));
  }
}

void append_valid_utf8(std::string& out, std::string_view text) {
  while (!text.empty()) {
    const std::size_t valid = valid_utf8_prefix(text);
    out.append(text.substr(0, valid));
    if (valid == text.size()) return;
    append_utf8(out, kReplacementCharacter);
    text.remove_prefix(valid + read_utf8(text, valid).length);
  }
}

}  // namespace reprise
