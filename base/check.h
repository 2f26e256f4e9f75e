#pragma once
// Checks that stay on in Release.
//
// REPRISE_CHECK(condition, "what is broken") guards an invariant: if it fails, the program has a bug, and it
// ends at once with the place and the reason on stderr, before the damage spreads. It is not for bad input
// (return a Result) nor for a request that must die (throw).
//
// Threading: any thread.

#include <cstdio>
#include <cstdlib>

namespace reprise {

[[noreturn, gnu::noinline, gnu::cold]] inline void check_failed(const char* condition, const char* what,
                                                                const char* file, int line) {
  std::fprintf(stderr, "%s:%d: check failed: %s (%s)\n", file, line, what, condition);
  std::fflush(stderr);
  std::abort();
}

}  // namespace reprise

#define REPRISE_CHECK(condition, what)               \
  (__builtin_expect(static_cast<bool>(condition), 1) \
       ? static_cast<void>(0)                        \
       : ::reprise::check_failed(#condition, (what), __FILE__, __LINE__))
