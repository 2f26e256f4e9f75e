#pragma once
// RecentDemand: how many bytes sequences took that came at nearly the same time, at most, lately.
//
// Room that is asked back takes some messages and steps to come. Whoever comes meanwhile finds only what was free before, so
// as much should be free as comes within that time. Clients that were answered in one step come back together: the room of
// one that ends is no measure of it. Each admission counts in full at first and fades within kMeanwhile.
//
// Threading: the device worker's thread.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>

namespace reprise::actors {

class RecentDemand {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::milliseconds kMeanwhile{100};

  void admitted(std::uint64_t bytes, Time now) {
    if (now > last_) {
      together_ *= std::exp(-std::chrono::duration<double>(now - last_) / kMeanwhile);
      last_ = now;
    }
    together_ += static_cast<double>(bytes);
    most_ = std::max(most_, static_cast<std::uint64_t>(together_));
  }
  /// The most of before counts less by this share, so that one busy minute is not remembered for ever.
  void fade(std::uint64_t rounds) { most_ -= most_ / rounds; }
  std::uint64_t most() const { return most_; }

 private:
  Time last_{};
  double together_ = 0;
  std::uint64_t most_ = 0;
};

}  // namespace reprise::actors
