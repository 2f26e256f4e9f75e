#pragma once
// Whether tests take the samples that are too many for every run: tools/test --thorough sets the variable.

#include <cstdlib>

namespace reprise {

inline bool thorough() {
  return std::getenv("REPRISE_THOROUGH") != nullptr;
}

}  // namespace reprise
