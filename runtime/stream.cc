#include "runtime/stream.h"

#include "base/check.h"
#include "runtime/detail/pool.h"

namespace reprise::runtime {

struct StreamSide::WakeUp : Node, Pooled {
  WakeUp(std::shared_ptr<StreamCoreBase> stream, StreamSide& woken)
      : Node(&kOps), core(std::move(stream)), side(woken) {}

  static void run_node(Node* node, Cell&) {
    const std::unique_ptr<WakeUp> wake_up(static_cast<WakeUp*>(node));
    if (wake_up->side.waiting_ != nullptr) wake_up->side.waiting_->woken();
  }
  static void bounce_node(Node* node, ErrorCode) { delete static_cast<WakeUp*>(node); }
  static constexpr NodeOps kOps{NodeKind::kContinuation, "stream", nullptr, run_node, bounce_node};

  const std::shared_ptr<StreamCoreBase> core;  // keeps `side` alive
  StreamSide& side;
};

void StreamSide::notify() {
  if (word_.exchange(Word::kIdle, std::memory_order_acq_rel) != Word::kWaiting) return;
  if (cell_) {
    cell_->post(new WakeUp(core_.shared_from_this(), *this));
  } else {
    std::lock_guard lock(mutex_);
    notified_ = true;
    changed_.notify_one();
  }
}

bool StreamSide::block_until(TimePoint deadline, const std::function<bool()>& try_finish) {
  REPRISE_CHECK(!cell_ && Cell::current() == nullptr,
                "a blocking wait on a stream that an actor uses, or on an actor's thread");
  if (try_finish()) return true;
  while (true) {
    announce();
    if (try_finish()) {
      // A wake-up already on its way only causes one extra check in a later wait.
      take_back();
      return true;
    }
    std::unique_lock lock(mutex_);
    const bool notified = changed_.wait_until(lock, deadline, [this] { return notified_; });
    notified_ = false;
    lock.unlock();
    if (try_finish()) return true;
    if (!notified) {
      take_back();
      return false;
    }
  }
}

void StreamSide::bind(Cell& cell) {
  if (!cell_) cell_ = CellPtr(&cell);
  REPRISE_CHECK(cell_.get() == &cell, "a stream's end was used by two actors");
}

void StreamCoreBase::end_writer(Error error) {
  if (writer_ended()) return;
  end_error_.emplace(std::move(error));
  writer_ended_.store(true, std::memory_order_release);
  reader_side.notify();
}

void StreamCoreBase::end_reader() {
  if (reader_ended()) return;
  reader_ended_.store(true, std::memory_order_release);
  writer_side.notify();
  watch_side.notify();
}

bool StreamWait::await_ready() {
  if (try_finish()) return true;
  if (const std::optional<ErrorCode> passed = set_limits(deadline_, cancel_)) {
    finish_with(*passed);
    return true;
  }
  REPRISE_CHECK(side_.waiting_ == nullptr, "two coroutines wait on one end of a stream");
  side_.bind(*Cell::current());
  side_.waiting_ = this;
  return settle();
}

bool StreamWait::settle() {
  side_.announce();
  if (!try_finish()) return false;
  side_.take_back();  // if this fails, the wake-up already sent finds no waiter
  side_.waiting_ = nullptr;
  clear_limits();
  return true;
}

void StreamWait::woken() {
  if (settle()) resume();
}

void StreamWait::give_up(ErrorCode why) {
  withdraw();
  finish_with(why);
  wake();
}

void StreamWait::withdraw() {
  if (side_.waiting_ != this) return;
  side_.take_back();
  side_.waiting_ = nullptr;
}

}  // namespace reprise::runtime
