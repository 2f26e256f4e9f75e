#pragma once
// FairQueue: a bounded queue, round-robin over owners and FIFO per owner. One owner can fill neither the
// queue nor all workers:
//   - an owner holds at most `of_one` items, waiting and running; further ones are rejected;
//   - when all owners together hold `all`, the newest waiting item of the largest owner is rejected;
//   - an owner has at most `running_of_one` items running, even if no other owner waits.
//
// The empty name is for unidentified clients: only `all` limits it.
//
// Threading: one thread at a time.

#include <cstddef>
#include <deque>
#include <iterator>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/check.h"

namespace reprise {

template <class T>
class FairQueue {
 public:
  struct Limits {
    std::size_t all = 0;  // items, waiting and running
    std::size_t of_one = 0;
    std::size_t running_of_one = 0;
  };

  explicit FairQueue(const Limits& limits) : limits_(limits) {}

  /// Adds an item. Returns the rejected one: this item, or the newest of a larger owner; nullopt if none.
  std::optional<T> push(const std::string& owner, T item) {
    const auto found = by_name_.find(owner);
    const std::size_t held = found == by_name_.end() ? 0 : found->second->held();
    if (!owner.empty() && held >= limits_.of_one) return item;
    std::optional<T> displaced;
    if (waiting_ + running_ >= limits_.all) {
      Owner* largest = biggest();
      if (largest == nullptr || largest->held() <= held + 1) return item;
      displaced.emplace(std::move(largest->items.back()));
      largest->items.pop_back();
      --waiting_;
      forget_if_idle(largest->name);
    }
    owner_of(owner).items.push_back(std::move(item));
    ++waiting_;
    return displaced;
  }

  struct Taken {
    std::string owner;
    T item;
  };
  /// Returns the next item to run; it counts as running until ended(). nullopt if no waiting item may run.
  std::optional<Taken> take() {
    for (auto at = ring_.begin(); at != ring_.end(); ++at) {
      const bool may_run = at->name.empty() || at->running < limits_.running_of_one;
      if (at->items.empty() || !may_run) continue;
      Taken taken{at->name, std::move(at->items.front())};
      at->items.pop_front();
      ++at->running;
      --waiting_;
      ++running_;
      ring_.splice(ring_.end(), ring_, at);
      return taken;
    }
    return std::nullopt;
  }
  void ended(const std::string& owner) {
    const auto found = by_name_.find(owner);
    REPRISE_CHECK(found != by_name_.end() && found->second->running > 0,
                  "a queue item was finished that was not taken");
    --found->second->running;
    --running_;
    forget_if_idle(owner);
  }

  std::size_t waiting() const { return waiting_; }
  std::size_t running() const { return running_; }
  /// Returns the number of owners with an item, waiting or running.
  std::size_t owners() const { return ring_.size(); }

 private:
  struct Owner {
    std::string name;
    std::deque<T> items{};  // waiting
    std::size_t running = 0;

    std::size_t held() const { return items.size() + running; }
  };

  /// Returns the owner with the most items among those with waiting ones; null if there is none.
  Owner* biggest() {
    Owner* largest = nullptr;
    for (Owner& owner : ring_) {
      if (!owner.items.empty() && (largest == nullptr || owner.held() > largest->held())) largest = &owner;
    }
    return largest;
  }
  Owner& owner_of(const std::string& name) {
    const auto found = by_name_.find(name);
    if (found != by_name_.end()) return *found->second;
    ring_.push_back({.name = name});
    by_name_.emplace(name, std::prev(ring_.end()));
    return ring_.back();
  }
  void forget_if_idle(const std::string& name) {
    const auto found = by_name_.find(name);
    if (found->second->held() > 0) return;
    const auto owner = found->second;
    by_name_.erase(found);
    ring_.erase(owner);
  }

  const Limits limits_;
  std::list<Owner> ring_;  // next to be served first
  std::unordered_map<std::string, typename std::list<Owner>::iterator> by_name_;
  std::size_t waiting_ = 0;
  std::size_t running_ = 0;
};

}  // namespace reprise
