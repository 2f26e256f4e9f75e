#pragma once
// BoundedCount: a counter with a maximum; each reservation counts until its handle is destroyed.
//
// Threading: any thread.

#include <atomic>
#include <cstdint>
#include <memory>

namespace reprise {

class BoundedCount : public std::enable_shared_from_this<BoundedCount> {
 public:
  explicit BoundedCount(std::uint32_t max) : max_(max) {}

  /// Reserves `weight`; returns null if that would exceed the maximum.
  std::shared_ptr<void> take(std::uint32_t weight = 1) {
    // Relaxed: the count orders nothing.
    if (now_.fetch_add(weight, std::memory_order_relaxed) + weight > max_) {
      now_.fetch_sub(weight, std::memory_order_relaxed);
      return nullptr;
    }
    return std::shared_ptr<void>(this, [count = shared_from_this(), weight](void*) {
      count->now_.fetch_sub(weight, std::memory_order_relaxed);
    });
  }
  std::uint32_t now() const { return now_.load(std::memory_order_relaxed); }

 private:
  const std::uint32_t max_;
  std::atomic<std::uint32_t> now_{0};
};

}  // namespace reprise
