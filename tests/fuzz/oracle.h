#pragma once
// The oracle bounds what a target may take for one input. A run fails that takes more than 2 s of CPU time (8
// times as much under a sanitizer), holds more than 256 MiB beyond what was held before, or overflows its
// stack. The load of the machine does not matter.
//
// Linking it makes a program count its allocations: by operator new, or by the sanitizer's allocator, which
// includes malloc().
//
// Threading: one run at a time.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tests/fuzz/targets.h"
#include "tests/sanitized.h"

namespace reprise::fuzz {

/// Allowed slowdown under a sanitizer, with coverage.
inline constexpr int kSanitizerFactor = kSanitized ? 8 : 1;

struct Bounds {
  double seconds = 2.0 * kSanitizerFactor;       // CPU time of the thread
  std::int64_t bytes = std::int64_t{256} << 20;  // peak of bytes held
  std::size_t stack_bytes = 0;                   // run on a thread with this stack; 0: the caller's thread
};

struct Watched {
  bool taken = false;      // the target accepted the input
  double seconds = 0;      // CPU time of the thread
  std::int64_t bytes = 0;  // peak of bytes held
  std::string fault{};     // the bound that was exceeded; empty: none
};

/// Returns the text that the target gets: grown from the input if the target has a grower, else the input.
std::string text_of(const Target& target, std::string_view input);

/// Runs the target with text_of(input). Exceptions of the target pass through.
Watched run_watched(const Target& target, std::string_view input, const Bounds& bounds);

}  // namespace reprise::fuzz
