#pragma once
// What is wrong with a text that the JSON parser refused, and where: the parser itself is built for speed and
// does not tell.
//
// Threading: a pure function.

#include <cstddef>
#include <string>
#include <string_view>

#include "base/json.h"

namespace reprise {

struct JsonFault {
  std::size_t offset = 0;  // in bytes
  std::string reason;      // empty: this reader finds no fault
};

/// The first fault of `text`, read so, or place where it passes a limit. Time is linear in the text, memory in
/// `limits.depth`.
JsonFault diagnose_json(std::string_view text, const JsonLimits& limits, const JsonReading& reading = {});

}  // namespace reprise
