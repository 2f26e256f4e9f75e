#pragma once
// The oracle around a target: what one input may take. A run fails that takes more than 2 s of its thread's CPU time
// (8 times as much under a sanitizer), holds more than 256 MiB at once beyond what was held before, or overflows the stack
// that it is given. How
// busy the machine is does not count.
//
// A program that links this has its allocations counted: by operator new, or by the sanitizer's allocator where there is
// one (then what malloc() gives counts as well).
//
// Threading: one run at a time.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tests/fuzz/targets.h"
#include "tests/sanitized.h"

namespace reprise::fuzz {

/// How much longer work takes under a sanitizer, coverage included.
inline constexpr int kSanitizerFactor = kSanitized ? 8 : 1;

struct Bounds {
  double seconds = 2.0 * kSanitizerFactor;       // of the thread's CPU time
  std::int64_t bytes = std::int64_t{256} << 20;  // held at once
  std::size_t stack_bytes = 0;                   // of a thread of its own; 0: runs on the caller's
};

struct Watched {
  bool taken = false;      // the target's answer
  double seconds = 0;      // of the thread's CPU time
  std::int64_t bytes = 0;  // held at once
  std::string fault{};     // what it took too much of; empty: nothing
};

/// The text that the target gets for this input: grown from it, where the target has a grower, else the input itself.
std::string text_of(const Target& target, std::string_view input);

/// Runs the target over text_of(input). What the target throws is thrown on.
Watched run_watched(const Target& target, std::string_view input, const Bounds& bounds);

}  // namespace reprise::fuzz
