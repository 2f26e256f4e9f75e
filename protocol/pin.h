#pragma once
// A pin: an entry of the prefix cache that is evicted last, for a time and as long as its ticket is held.
//
// Threading: plain values.

#include <cstdint>
#include <memory>
#include <string>

namespace reprise::protocol {

/// Held by what wants a pin to last, such as a name (protocol/named_snapshots.h). Its pin ends soon after nobody holds it.
struct PinTicket {
  std::string tenant{};  // whose share of the pins it counts against
};
using SharedPinTicket = std::shared_ptr<const PinTicket>;

struct Pinned {
  std::uint32_t tokens = 0;  // that the pinned entry has; 0: nothing is pinned
  std::string problem{};     // why nothing is
};

}  // namespace reprise::protocol
