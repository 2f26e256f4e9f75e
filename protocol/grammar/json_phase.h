#pragma once
// Position of a matcher within an object or array, between their values: a phase, and the whitespace since it began.
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

/// With the state of JsonSpace that the whitespace so far has led to.
constexpr std::uint32_t in_phase(Phase phase, std::uint32_t space = 0) {
  return static_cast<std::uint32_t>(phase) | space << 8;
}
constexpr Phase phase_of(std::uint32_t packed) {
  return static_cast<Phase>(packed & 0xFF);
}
constexpr std::uint32_t space_of(std::uint32_t packed) {
  return packed >> 8;
}

/// A phase that begins, without whitespace.
inline std::uint32_t begun(Phase phase, const JsonSpace& space) {
  switch (phase) {
    case Phase::kFirst:
    case Phase::kAfter:
      return in_phase(phase, space.around_brackets);
    case Phase::kNext:
    case Phase::kValue:
      return in_phase(phase, space.after_separator);
    case Phase::kOpen:
    case Phase::kKey:
    case Phase::kColon:
      break;
  }
  return in_phase(phase);
}

}  // namespace reprise::protocol::grammar
