#pragma once
// REPRISE_CHECK(condition, "what is wrong") guards an invariant, in Release builds too. If the condition is
// false, it prints the location and the text to stderr and aborts. For bad input return a Result; to fail one
// request, throw.

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
