#pragma once
// Shared by the growers.

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "tests/fuzz/grower.h"

namespace reprise::fuzz {

/// Returns `count` copies of the piece, cut off at kMaxGrownBytes.
inline std::string times(std::string_view piece, std::size_t count) {
  std::string text;
  const std::size_t max = kMaxGrownBytes / std::max<std::size_t>(piece.size(), 1);
  text.reserve(piece.size() * std::min(count, max));
  for (std::size_t i = 0; i < std::min(count, max); ++i) text += piece;
  return text;
}

/// Returns about `bytes` bytes of copies of the piece.
inline std::string filled(std::string_view piece, std::size_t bytes) {
  return times(piece, bytes / std::max<std::size_t>(piece.size(), 1) + 1);
}

/// Returns about `bytes` bytes of ranges and characters for a class [...].
std::string class_ranges(Draws& draws, std::size_t bytes);

}  // namespace reprise::fuzz
