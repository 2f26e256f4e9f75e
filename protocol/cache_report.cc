#include "protocol/cache_report.h"

namespace reprise::protocol {

std::string_view name_of(Origin origin) {
  constexpr std::array<std::string_view, kOrigins> kNames = {"system", "last_user", "history", "prompt_end",
                                                             "branch", "turn_end",  "spaced"};
  return kNames[static_cast<std::size_t>(origin)];
}

std::string_view name_of(MissReason reason) {
  constexpr std::array<std::string_view, kMissReasons> kNames = {
      "none", "never_seen", "no_checkpoint", "evicted", "expired",  "unhealthy",  "corrupt",
      "lost", "no_memory",  "below_minimum", "refused", "disabled", "uncacheable"};
  return kNames[static_cast<std::size_t>(reason)];
}

}  // namespace reprise::protocol
