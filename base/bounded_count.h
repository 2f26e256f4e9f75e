#pragma once
// BoundedCount: how many there are of something, up to a bound. A place is counted for as long as it is held.
//
// Threading: any thread.

#include <atomic>
#include <cstdint>
#include <memory>

namespace reprise {

class BoundedCount : public std::enable_shared_from_this<BoundedCount> {
 public:
  explicit BoundedCount(std::uint32_t most) : most_(most) {}

  /// For `weight` of them. Null: there would be more than there may be.
  std::shared_ptr<void> take(std::uint32_t weight = 1) {
    // relaxed: only the number matters.
    if (now_.fetch_add(weight, std::memory_order_relaxed) + weight > most_) {
      now_.fetch_sub(weight, std::memory_order_relaxed);
      return nullptr;
    }
    return std::shared_ptr<void>(this, [count = shared_from_this(), weight](void*) {
      count->now_.fetch_sub(weight, std::memory_order_relaxed);
    });
  }
  std::uint32_t now() const { return now_.load(std::memory_order_relaxed); }

 private:
  const std::uint32_t most_;
  std::atomic<std::uint32_t> now_{0};
};

}  // namespace reprise
