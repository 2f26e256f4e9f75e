#pragma once
// The bytes of request bodies that a server holds, all connections together: those that came and have not
// been parsed yet. A length that a client only declares takes none, so nobody can reserve what he does not
// send.
//
//   BodyLease lease(budget);
//   if (!lease.grow_to(bytes_so_far)) ...refuse, and keep no more
//   lease.release();                                  or its end
//
// The budget must outlive its leases.
//
// Threading: the server's loop alone.

#include <cstddef>
#include <utility>

namespace reprise::protocol {

class BodyBudget {
 public:
  explicit BodyBudget(std::size_t bytes) : bytes_(bytes) {}
  BodyBudget(const BodyBudget&) = delete;
  BodyBudget& operator=(const BodyBudget&) = delete;

  bool has_room(std::size_t bytes) const { return bytes <= bytes_ - held_; }
  std::size_t held() const { return held_; }

 private:
  friend class BodyLease;

  const std::size_t bytes_;
  std::size_t held_ = 0;  // at most bytes_
};

class BodyLease {
 public:
  explicit BodyLease(BodyBudget& budget) : budget_(&budget) {}
  ~BodyLease() { release(); }
  BodyLease(BodyLease&& other) noexcept : budget_(other.budget_), held_(std::exchange(other.held_, 0)) {}
  BodyLease& operator=(BodyLease&&) = delete;

  /// False: there is no room, and nothing has changed.
  bool grow_to(std::size_t bytes) {
    if (bytes <= held_) return true;
    if (!budget_->has_room(bytes - held_)) return false;
    budget_->held_ += bytes - held_;
    held_ = bytes;
    return true;
  }
  void release() { budget_->held_ -= std::exchange(held_, 0); }

 private:
  BodyBudget* budget_;
  std::size_t held_ = 0;
};

}  // namespace reprise::protocol
