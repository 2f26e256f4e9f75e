#include "protocol/cache_report.h"

namespace reprise::protocol {

std::string_view name_of(Origin origin) {
  constexpr std::array<std::string_view, kOrigins> kNames = {
      "system", "last_user", "history",    "prompt_end", "branch", "turn_end",
      "spaced", "tool",      "breakpoint", "reply",      "call"};
  return kNames[static_cast<std::size_t>(origin)];
}

std::optional<Origin> origin_named(std::string_view name) {
  for (std::size_t i = 0; i < kOrigins; ++i) {
    if (name_of(static_cast<Origin>(i)) == name) return static_cast<Origin>(i);
  }
  return std::nullopt;
}

std::string_view name_of(Tier tier) {
  constexpr std::array<std::string_view, kTiers> kNames = {"device", "host", "disk", "remote"};
  return kNames[static_cast<std::size_t>(tier)];
}

std::string_view name_of(MissReason reason) {
  constexpr std::array<std::string_view, kMissReasons> kNames = {"none",
                                                                 "never_seen",
                                                                 "no_checkpoint",
                                                                 "evicted",
                                                                 "expired",
                                                                 "unhealthy",
                                                                 "corrupt",
                                                                 "lost",
                                                                 "no_memory",
                                                                 "below_minimum",
                                                                 "refused",
                                                                 "disabled",
                                                                 "uncacheable",
                                                                 "slower_than_computing",
                                                                 "other_arithmetic",
                                                                 "diverged"};
  return kNames[static_cast<std::size_t>(reason)];
}

}  // namespace reprise::protocol
