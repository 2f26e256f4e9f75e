#pragma once
// Digits of the escapes that name a code point: \x41, \u0041.
//
// Threading: plain functions.

#include <cstdint>
#include <optional>

namespace reprise::protocol::grammar {

/// Of either case. Nothing: it is none.
inline std::optional<std::uint32_t> hex_digit(char c) {
  const char low = static_cast<char>(c | 0x20);
  if (c >= '0' && c <= '9') return static_cast<std::uint32_t>(c - '0');
  if (low >= 'a' && low <= 'f') return static_cast<std::uint32_t>(low - 'a' + 10);
  return std::nullopt;
}

}  // namespace reprise::protocol::grammar
