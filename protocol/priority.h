#pragma once
// Priority: urgency of work. Waiting work of higher priority goes first, but waiting raises the effective
// priority, so nothing starves (actors/device/admission.h). Idle work serves no current request and
// yields to all other work.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace reprise::protocol {

enum class Priority : std::uint8_t { kIdle, kLow, kNormal, kHigh };

/// Parses "low", "normal" or "high"; nullopt for other words.
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
