#include "actors/worker/admission_order.h"

#include <algorithm>
#include <tuple>

namespace reprise::actors {

using protocol::Priority;

namespace {

constexpr int kTop = static_cast<int>(Priority::kHigh) + 1;

int level(const Applicant& applicant) {
  const auto lifts = std::clamp<std::int64_t>(applicant.waited / kLift, 0, kTop);
  return std::min(kTop, static_cast<int>(applicant.priority) + static_cast<int>(lifts));
}

bool goes_before(const Applicant& a, const Applicant& b) {
  const int level_a = level(a);
  const int level_b = level(b);
  if (level_a != level_b) return level_a > level_b;
  if (level_a == kTop) return a.arrival < b.arrival;
  return std::tuple(a.tenant_holds, a.group_holds, a.arrival) <
         std::tuple(b.tenant_holds, b.group_holds, b.arrival);
}

}  // namespace

std::vector<std::size_t> admission_order(std::span<const Applicant> applicants) {
  std::vector<std::size_t> order;
  for (const bool idle : {false, true}) {
    for (std::size_t i = 0; i < applicants.size(); ++i) {
      if ((applicants[i].priority == Priority::kIdle) == idle) order.push_back(i);
    }
    if (!order.empty()) break;
  }
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return goes_before(applicants[a], applicants[b]); });
  return order;
}

}  // namespace reprise::actors
