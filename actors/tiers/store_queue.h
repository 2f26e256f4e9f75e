#pragma once
// StoreQueue: snapshots that wait to be read from their devices into a tier, in the order in which they came. Those
// that may wait for idle time do so, behind all others. At most kMostWaiting of each kind wait; of more, the oldest
// are left.
//
// Threading: the actor's that reads them.

#include <cstddef>
#include <deque>
#include <optional>

#include "protocol/tier.h"
#include "runtime/event.h"
#include "runtime/task.h"

namespace reprise::actors {

class StoreQueue {
 public:
  static constexpr std::size_t kMostWaiting = 256;

  /// False: an older one was left for it.
  bool push(protocol::StoreState job);
  /// Whose turn it is, when it has come. Nothing: the actor ends.
  runtime::Task<std::optional<protocol::StoreState>> next();
  void clear();
  std::size_t size() const { return waiting_.size() + idle_waiting_.size(); }

 private:
  std::deque<protocol::StoreState> waiting_;
  std::deque<protocol::StoreState> idle_waiting_;
  runtime::Event came_;
};

}  // namespace reprise::actors
