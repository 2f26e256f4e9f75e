#pragma once
// Whether weights are numbers.
//
// Threading: pure functions.

#include <cstddef>
#include <span>

#include "models/files/dtype.h"

namespace reprise::models {

/// Whether an element is infinite or not a number. Reads every page; of block types it judges nothing.
bool has_nonfinite(DType type, std::span<const std::byte> bytes);

}  // namespace reprise::models
