#pragma once
// MemoryPressure: how full the device's memory is, as two marks that are passed upwards at once and downwards only a
// little below (`slack`), so that one snapshot more or less does not turn anything on and off.
//
//   choosy    the cache keeps less: of the spaced places of a prompt every second, and none inside replies
//   evicting  snapshots go before anybody needs their room, until the load is `slack` below the mark
//
// A mark of 100 is never reached. The load is what is held and what running sequences were promised.
//
// Threading: the device worker's thread.

#include <cstdint>
#include <optional>
#include <string>

namespace reprise::actors {

/// Percent of the memory.
struct PressureMarks {
  std::uint32_t choosy = 70;
  std::uint32_t evict = 85;
  std::uint32_t slack = 5;

  /// What is wrong with them; nothing: they make sense.
  std::optional<std::string> fault() const {
    if (choosy < 1 || evict < 1 || choosy > 100 || evict > 100)
      return "cache.choosy_percent and cache.evict_percent must be 1 to 100";
    if (choosy > evict)
      return "cache.choosy_percent (" + std::to_string(choosy) + " %) is above cache.evict_percent (" +
             std::to_string(evict) + ")";
    return std::nullopt;
  }
};

class MemoryPressure {
 public:
  explicit MemoryPressure(const PressureMarks& marks) : marks_(marks) {}

  void see(std::uint64_t load, std::uint64_t limit) {
    load_ = load;
    limit_ = limit;
    choosy_ = passed(marks_.choosy, choosy_);
    evicting_ = passed(marks_.evict, evicting_);
  }

  bool choosy() const { return choosy_; }
  bool evicting() const { return evicting_; }
  /// Down to where evicting ends; 0 where it is not under way.
  std::uint64_t bytes_to_free() const {
    const std::uint64_t rest = bytes_at(lowered(marks_.evict));
    return evicting_ && load_ > rest ? load_ - rest : 0;
  }

 private:
  bool passed(std::uint32_t mark, bool before) const {
    if (mark >= 100 || limit_ == 0) return false;
    return load_ > bytes_at(before ? lowered(mark) : mark);
  }
  std::uint32_t lowered(std::uint32_t mark) const {
    return mark - (marks_.slack < mark ? marks_.slack : mark);
  }
  std::uint64_t bytes_at(std::uint32_t percent) const {
    return limit_ / 100 * percent + limit_ % 100 * percent / 100;
  }

  PressureMarks marks_;
  std::uint64_t load_ = 0, limit_ = 0;
  bool choosy_ = false, evicting_ = false;
};

}  // namespace reprise::actors
