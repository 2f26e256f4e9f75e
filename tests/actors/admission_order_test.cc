// The order of admission.

#include "actors/device/admission.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace reprise::actors {
namespace {

using namespace std::chrono_literals;
using protocol::Priority;
using Order = std::vector<std::size_t>;

TEST(AdmissionOrder, EarlierArrivalsGoFirst) {
  const std::vector<Applicant> three = {{.arrival = 3}, {.arrival = 1}, {.arrival = 2}};
  EXPECT_EQ(admission_order(three), (Order{1, 2, 0}));
  EXPECT_TRUE(admission_order({}).empty());
}

TEST(AdmissionOrder, AStrangerGoesBeforeSomeoneWhoHoldsMuch) {
  const std::vector<Applicant> two = {{.group_holds = 200, .arrival = 1}, {.group_holds = 0, .arrival = 2}};
  EXPECT_EQ(admission_order(two), (Order{1, 0}));
  // The tenant's share takes precedence over the group's.
  const std::vector<Applicant> tenants = {{.tenant_holds = 5, .group_holds = 0, .arrival = 1},
                                          {.tenant_holds = 1, .group_holds = 1, .arrival = 2}};
  EXPECT_EQ(admission_order(tenants), (Order{1, 0}));
}

TEST(AdmissionOrder, PriorityCountsBeforeAllElse) {
  const std::vector<Applicant> three = {
      {.priority = Priority::kLow, .tenant_holds = 0, .arrival = 1},
      {.priority = Priority::kNormal, .tenant_holds = 9, .arrival = 2},
      {.priority = Priority::kHigh, .tenant_holds = 99, .arrival = 3},
  };
  EXPECT_EQ(admission_order(three), (Order{2, 1, 0}));
}

TEST(AdmissionOrder, IdleWorkComesOnlyWhereNobodyElseWaits) {
  const Applicant idle{.priority = Priority::kIdle, .waited = 1h, .arrival = 1};
  const Applicant low{.priority = Priority::kLow, .arrival = 2};
  EXPECT_EQ(admission_order(std::vector{idle, low}), (Order{1}));
  EXPECT_EQ(admission_order(std::vector{idle, idle}), (Order{0, 1}));
}

TEST(AdmissionOrder, WaitingLiftsAndAtTheTopArrivalAloneCounts) {
  const Applicant low{.priority = Priority::kLow, .waited = kLift, .arrival = 1};
  const Applicant normal{.priority = Priority::kNormal, .arrival = 2};
  EXPECT_EQ(admission_order(std::vector{normal, low}), (Order{1, 0}));
  const Applicant greedy{.tenant_holds = 500, .group_holds = 500, .waited = 10 * kLift, .arrival = 1};
  const Applicant modest{.waited = 9 * kLift, .arrival = 2};
  const Applicant urgent{.priority = Priority::kHigh, .arrival = 3};
  EXPECT_EQ(admission_order(std::vector{modest, urgent, greedy}), (Order{2, 0, 1}));
}

// One request is admitted every 0.1 s while new ones of all kinds arrive twice as fast for a while: each wait
// is bounded by the earlier arrivals and the time to reach the top priority.
TEST(AdmissionOrder, NobodyStarves) {
  std::mt19937 random(5);
  struct Waiting {
    Applicant as;
    std::chrono::milliseconds since;
  };
  std::vector<Waiting> waiting;
  std::uint64_t arrivals = 0;
  std::chrono::milliseconds longest{0};
  for (std::chrono::milliseconds now{0}; now < 600s || !waiting.empty(); now += 100ms) {
    const int newcomers = now < 600s ? 1 + static_cast<int>(now < 60s) : 0;
    for (int i = 0; i < newcomers; ++i) {
      const auto priority = static_cast<Priority>(1 + random() % 3);
      waiting.push_back({{.priority = priority,
                          .tenant_holds = static_cast<std::uint32_t>(random() % 4 == 0 ? 0 : random() % 100),
                          .arrival = ++arrivals},
                         now});
    }
    std::vector<Applicant> applicants;
    for (Waiting& one : waiting) {
      one.as.waited = now - one.since;
      applicants.push_back(one.as);
    }
    const std::size_t next = admission_order(applicants).front();
    longest = std::max(longest, now - waiting[next].since);
    waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(next));
  }
  // After the first minute 600 requests are waiting; they are admitted in order of arrival.
  EXPECT_LE(longest, 60s + 3 * kLift + 10s);
}

}  // namespace
}  // namespace reprise::actors
