#pragma once
// Counts the work of encoding a text, so that a test can relate it to the text's length without a clock.

#include <cstdint>

namespace reprise::models {

struct EncodeWork {
  std::uint64_t scanned = 0;   // characters examined by hand-written scanners
  std::uint64_t searches = 0;  // calls of the regular expression engine, which bounds each
  std::uint64_t pieces = 0;    // encoded by the model
  std::uint64_t lookups = 0;   // in the merge table
  std::uint64_t moves = 0;     // of symbols and queue entries

  std::uint64_t total() const { return scanned + searches + pieces + lookups + moves; }
};

}  // namespace reprise::models
