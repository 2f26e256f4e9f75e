#pragma once
// One side of a stream as a place to wait: the part of runtime/stream.h that does not depend on the type of
// the values.
//
// Threading: notify(): the other side. The rest: the side's own actor or thread.

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "runtime/cell.h"
#include "runtime/wait.h"

namespace reprise::runtime {

class StreamWait;
class StreamCoreBase;

class StreamSide {
 public:
  explicit StreamSide(StreamCoreBase& core) : core_(core) {}

  /// The stream has changed in favour of this side.
  void notify();

  /// Calls `try_finish` until it succeeds or the time is up; false in that case.
  bool block_until(TimePoint deadline, const std::function<bool()>& try_finish);

 private:
  friend class StreamWait;
  enum class Word : std::uint8_t { kIdle, kWaiting };
  struct WakeUp;

  /// Announces a wait. The caller looks at the stream once more.
  void announce() { word_.exchange(Word::kWaiting, std::memory_order_acq_rel); }
  /// Takes the announcement back; false if the other side has taken it and a wake-up is on its way.
  bool take_back() { return word_.exchange(Word::kIdle, std::memory_order_acq_rel) == Word::kWaiting; }
  void bind(Cell& cell);

  StreamCoreBase& core_;
  // See runtime/stream.h for why acq_rel swaps suffice.
  std::atomic<Word> word_{Word::kIdle};
  CellPtr cell_;  // set before the first announcement, then constant; empty for a plain thread
  StreamWait* waiting_ = nullptr;  // the side's home only
  std::mutex mutex_;
  std::condition_variable changed_;
  bool notified_ = false;  // guarded by mutex_; for a plain thread
};

/// What both ends of a stream share, whatever it carries.
class StreamCoreBase : public std::enable_shared_from_this<StreamCoreBase> {
 public:
  virtual ~StreamCoreBase() = default;

  /// The first end of each side counts.
  void end_writer(Error error);
  void end_reader();

  // acquire, with release where they are set: what was done before the end is seen by whoever sees the end.
  bool writer_ended() const { return writer_ended_.load(std::memory_order_acquire); }
  bool reader_ended() const { return reader_ended_.load(std::memory_order_acquire); }

  StreamSide writer_side{*this};
  StreamSide reader_side{*this};
  StreamSide watch_side{*this};  // the writer's too: for the reader's end alone

 protected:
  /// Requires writer_ended().
  const Error& end_error() const { return *end_error_; }

 private:
  std::atomic<bool> writer_ended_{false};
  std::atomic<bool> reader_ended_{false};
  std::optional<Error> end_error_;  // written once, before writer_ended_
};

/// A coroutine that waits at one side. One at a time.
class StreamWait : public Wait {
 public:
  bool await_ready();
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> handle) {
    wait_here(handle);
  }

 protected:
  StreamWait(StreamSide& side, TimePoint deadline, CancelToken cancel)
      : side_(side), deadline_(deadline), cancel_(std::move(cancel)) {}

  /// Looks at the stream; true if that ends the wait.
  virtual bool try_finish() = 0;
  virtual void finish_with(ErrorCode why) = 0;

  /// For the destructors of derived classes, while the side still exists.
  void withdraw();

 private:
  friend class StreamSide;
  void give_up(ErrorCode why) override;
  /// Announces until the wait has ended, or is announced with nothing there. Returns whether it has ended.
  bool settle();
  void woken();

  StreamSide& side_;
  TimePoint deadline_;
  CancelToken cancel_;
};

}  // namespace reprise::runtime
