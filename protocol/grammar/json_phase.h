#pragma once
// Where within an object or array a matcher is, between their values: a phase, and the whitespace since it began.
// Shared by the matcher's two sources.
//
// Threading: pure functions.

#include <cstdint>

#include "protocol/grammar/program.h"

namespace reprise::protocol::grammar {

enum class Phase : std::uint8_t {
  kOpen,   // the opening bracket comes
  kFirst,  // behind it
  kNext,   // behind a comma
  kKey,    // within a key
  kColon,  // behind a key; a: its label
  kValue,  // behind the colon; a: the label
  kAfter,  // behind a value
};

/// Whitespace so far: 0 none, 1 a space, 2 + n a line break and n blanks.
constexpr std::uint32_t in_phase(Phase phase, std::uint32_t space = 0) {
  return static_cast<std::uint32_t>(phase) | space << 8;
}
constexpr Phase phase_of(std::uint32_t packed) {
  return static_cast<Phase>(packed & 0xFF);
}
constexpr std::uint32_t space_of(std::uint32_t packed) {
  return packed >> 8;
}

/// The whitespace with one more byte of it; 0: that is none, or more than is let in.
constexpr std::uint32_t more_space(std::uint32_t space, std::uint8_t byte) {
  if (space == 0) return byte == ' ' ? 1 : byte == '\n' ? 2 : 0;
  const bool blank = byte == ' ' || byte == '\t';
  return space >= 2 && blank && space < 2 + kMostIndent ? space + 1 : 0;
}

}  // namespace reprise::protocol::grammar
