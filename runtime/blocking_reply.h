#pragma once
// The answer for a plain thread that waits: behind Ref::ask_blocking().
//
// Threading: the waiting thread makes it and calls wait_until(); the replier answers from anywhere.

#include <condition_variable>
#include <mutex>

#include "runtime/reply.h"
#include "runtime/ticks.h"

namespace reprise::runtime {

template <class R>
class BlockingReply : public ReplySlot<R> {
 public:
  BlockingReply() : ReplySlot<R>(nullptr) {}

  /// Once; lets go of the slot.
  Result<R> wait_until(TimePoint deadline) {
    std::unique_lock lock(mutex_);
    const bool answered = changed_.wait_until(lock, deadline, [this] { return answered_; });
    Result<R> answer = answered ? this->take_value() : Result<R>(ErrorCode::kDeadline);
    this->abandon();
    lock.unlock();
    this->release();
    return answer;
  }

 private:
  void deliver() override {
    {
      std::lock_guard lock(mutex_);
      answered_ = true;
      changed_.notify_one();
    }
    this->release();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool answered_ = false;  // guarded by mutex_
};

}  // namespace reprise::runtime
