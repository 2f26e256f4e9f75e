#pragma once
// Cuts text into pieces, to test that results do not depend on the cuts. The cuts are derived from the text
// itself, so that every text is a valid input and the fuzzer can move them.

#include <cstddef>
#include <string_view>
#include <vector>

namespace reprise::fuzz {

using Cuts = std::vector<std::size_t>;  // ascending, inside the text

inline Cuts no_cuts() {
  return {};
}

inline Cuts cut_everywhere(std::string_view text) {
  Cuts cuts;
  for (std::size_t at = 1; at < text.size(); ++at) cuts.push_back(at);
  return cuts;
}

/// Cuts into pieces of 1 to 32 bytes; the lengths come from the bytes of the text, read backwards.
inline Cuts cut_by_text(std::string_view text) {
  Cuts cuts;
  std::size_t at = 0;
  for (std::size_t i = text.size(); i > 0; --i) {
    at += 1 + static_cast<unsigned char>(text[i - 1]) % 32;
    if (at >= text.size()) break;
    cuts.push_back(at);
  }
  return cuts;
}

template <class Take>
void for_each_piece(std::string_view text, const Cuts& cuts, Take take) {
  std::size_t from = 0;
  for (const std::size_t cut : cuts) {
    take(text.substr(from, cut - from));
    from = cut;
  }
  take(text.substr(from));
}

}  // namespace reprise::fuzz
