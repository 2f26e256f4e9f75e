#pragma once
// The oracle around a target: what one input may take. A run fails that takes more than kMaxSeconds of its thread's CPU time,
// holds more than kMaxBytes of memory at once beyond what was held before, or overflows the stack that it is given. How
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
inline constexpr double kMaxSeconds = 2.0 * kSanitizerFactor;
inline constexpr std::int64_t kMaxBytes = std::int64_t{256} << 20;

struct Watched {
  bool taken = false;      // the target's answer
  double seconds = 0;      // of the thread's CPU time
  std::int64_t bytes = 0;  // held at once
  std::string fault{};     // what it took too much of; empty: nothing
};

/// The text that the target gets for this input: grown from it, where the target has a grower, else the input itself.
std::string text_of(const Target& target, std::string_view input);

/// Runs the target over text_of(input), on a thread with a stack of so many bytes; 0: on the caller's. What the target
/// throws is thrown on.
Watched run_watched(const Target& target, std::string_view input, std::size_t stack_bytes);

}  // namespace reprise::fuzz
