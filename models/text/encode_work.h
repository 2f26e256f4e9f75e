#pragma once
// A count of what encoding a text took, so that a test can hold it against the length of the text without a
// clock.

#include <cstdint>

namespace reprise::models {

struct EncodeWork {
  std::uint64_t scanned = 0;   // characters looked at by hand-written scanners
  std::uint64_t searches = 0;  // calls of the regular expression engine, each bounded by itself
  std::uint64_t pieces = 0;    // that the model encoded
  std::uint64_t lookups = 0;   // of merges
  std::uint64_t moves = 0;     // of symbols and queue entries

  std::uint64_t total() const { return scanned + searches + pieces + lookups + moves; }
};

}  // namespace reprise::models
