#pragma once
// The number of a token in its vocabulary.

#include <cstdint>

namespace reprise::models {

using TokenId = std::int32_t;

}  // namespace reprise::models
