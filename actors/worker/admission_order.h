#pragma once
// Who is admitted next: a pure order of those that wait for memory.
//
// The higher priority first; then whose tenant holds fewer sequences; then whose group (the prompts and
// choices of one client's request) holds fewer; then who came first. So somebody who asks for a thousand
// answers waits for them behind a stranger who asks for one.
//
// Nobody starves: every kLift of waiting counts as one priority more, and those who have reached the top that
// way go strictly in the order of their arrival.
//
// Threading: plain values.

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "protocol/priority.h"

namespace reprise::actors {

inline constexpr std::chrono::seconds kLift{10};

struct Applicant {
  protocol::Priority priority = protocol::Priority::kNormal;
  std::uint32_t tenant_holds = 0;  // sequences
  std::uint32_t group_holds = 0;
  std::chrono::nanoseconds waited{};
  std::uint64_t arrival = 0;  // the smaller, the earlier
};

/// Indices of the applicants, the first to be admitted first. Idle ones only where nobody else applies.
std::vector<std::size_t> admission_order(std::span<const Applicant> applicants);

}  // namespace reprise::actors
