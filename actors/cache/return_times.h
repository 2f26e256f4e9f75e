#pragma once
// After how long entries of one kind come back, and what follows where memory is short: whether all should stay for as
// long as there is room for all, or some of them long enough to be used.
//
// An entry that stays for a time t is used with the chance F(t) that it comes back before, and takes room for t; so F(t) / t
// is what a place in memory earns. Most often it falls with t, and to keep what was used last is right. But people read
// and write before they come back: returns after less than half a minute are rare in conversations. Where all would have to
// go before that, F(t) / t is larger for some longer time, and it is better to keep the old ones up to that time and to let
// go young ones. How long all could stay is their number times the time between two of them (Little's law),
// whichever go.
//
// Bounds: kBins numbers. Threading: one owner.

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>

namespace reprise::actors {

class ReturnTimes {
 public:
  /// One was made at this time, or used.
  void queued(std::chrono::nanoseconds at) {
    const double now = std::chrono::duration<double>(at).count();
    if (any_queued_) seconds_between_ += kWeight * (std::max(0.0, now - last_queued_) - seconds_between_);
    any_queued_ = true;
    last_queued_ = now;
  }
  /// A prompt came back to one that had not been used for so long.
  void returned(double seconds) {
    for (double& count : returns_) count *= kLeft;
    ++returns_[bin_of(seconds)];
  }
  /// Whether, of `count` that are there, one that has not been used for so long should stay and a younger one go.
  bool worth_holding(std::size_t count, double oldest_seconds) const {
    const double stay = std::max(kShortest, static_cast<double>(count) * seconds_between_);
    const double earned = returns_within(stay) / stay;
    double best = 0, until = 0, returns = 0;
    for (std::size_t bin = 0; bin < kBins; ++bin) {
      returns += returns_[bin];
      const double end = begin_of(bin + 1);
      if (end <= stay || returns / end <= best) continue;
      best = returns / end;
      until = end;
    }
    return best > earned && oldest_seconds < until;
  }

 private:
  static constexpr std::size_t kBins = 24;  // up to one second, two, four and so on: beyond a month
  static constexpr double kLeft = 0.998;    // of what was seen, at the next return
  static constexpr double kWeight = 0.05;   // of the last time between two
  static constexpr double kShortest = 0.5;  // seconds

  static double begin_of(std::size_t bin) {
    return bin == 0 ? 0 : std::ldexp(1.0, static_cast<int>(bin) - 1);
  }
  static std::size_t bin_of(double seconds) {
    if (seconds < 1) return 0;
    return std::min(kBins - 1, static_cast<std::size_t>(std::ilogb(seconds)) + 1);
  }
  double returns_within(double seconds) const {
    const std::size_t last = bin_of(seconds);
    double returns = 0;
    for (std::size_t bin = 0; bin < last; ++bin) returns += returns_[bin];
    const double share = (seconds - begin_of(last)) / (begin_of(last + 1) - begin_of(last));
    return returns + returns_[last] * std::min(1.0, share);
  }

  std::array<double, kBins> returns_{};
  double seconds_between_ = 10;
  double last_queued_ = 0;
  bool any_queued_ = false;
};

}  // namespace reprise::actors
