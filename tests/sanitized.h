// Whether the tests run under a sanitizer, which makes each step several times slower: tests that repeat
// themselves many times then do so less often.
#pragma once

namespace reprise {

#ifdef REPRISE_SANITIZED  // by tests/CMakeLists.txt
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// A sixteenth of the rounds under a sanitizer, but never none; all of them otherwise.
constexpr int rounds(int all) {
  return kSanitized && all > 0 ? (all + 15) / 16 : all;
}

}  // namespace reprise
