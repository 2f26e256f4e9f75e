#pragma once
// How urgent work is. Among those that wait a higher one goes first, but nobody waits for ever: who has
// waited long counts as higher (actors/worker/admission.h). Idle work is for what nobody asked for yet, and
// gives way to everything.
//
// Threading: a plain value.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace reprise::protocol {

enum class Priority : std::uint8_t { kIdle, kLow, kNormal, kHigh };

/// "low", "normal" or "high", as clients and configurations say it; nothing for other words.
inline std::optional<Priority> priority_of(std::string_view name) {
  if (name == "low") return Priority::kLow;
  if (name == "normal") return Priority::kNormal;
  if (name == "high") return Priority::kHigh;
  return std::nullopt;
}

inline std::string_view name_of(Priority priority) {
  constexpr std::string_view kNames[] = {"idle", "low", "normal", "high"};
  return kNames[static_cast<std::size_t>(priority)];
}

}  // namespace reprise::protocol
