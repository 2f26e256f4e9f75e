#pragma once
// Pin: makes an entry of the prefix cache the last to be evicted, for a time and while its ticket is held.

#include <cstdint>
#include <memory>
#include <string>

namespace reprise::protocol {

/// Held by the owner of a pin, such as a named snapshot (protocol/named_snapshots.h). The pin ends soon after
/// the last reference is dropped.
struct PinTicket {
  std::string tenant{};  // the pin counts against this tenant's share of pins
};
using SharedPinTicket = std::shared_ptr<const PinTicket>;

struct Pinned {
  std::uint32_t tokens = 0;  // tokens of the pinned entry; 0: nothing is pinned
  std::string problem{};
};

}  // namespace reprise::protocol
