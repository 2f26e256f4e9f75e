#pragma once
// What a device is, apart from its speed.
//
// Threading: a plain value.

#include <cstdint>

namespace reprise::actors {

struct DeviceRules {
  std::uint32_t grid = 1;  // tokens: where prefills may begin, and canonical snapshots stand
  /// The same bits: decoded states are canonical, and lost ones can be recomputed.
  bool decode_is_prefill = true;
};

}  // namespace reprise::actors
