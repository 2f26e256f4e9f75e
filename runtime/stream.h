#pragma once
// A stream of values from one writer to one reader, with credit: the writer may be ahead of the reader by
// what the reader granted, at most the window; then it suspends.
//
//   auto [writer, reader] = make_stream<Token>(64);
//   auto writing = writer.write(token);                     auto reading = reader.next();
//   Result<void> written = co_await writing;                Result<Token> token = co_await reading;
//
// Either end may be sent to another actor in a message before its first wait, and belongs to one actor (or
// one plain thread, by the blocking calls) from then on. Credit is granted by taking: with Credit::kManual by
// grant() alone, for a reader that passes values on and knows better when it can take more.
//
// Ends. writer.close(): the reader gets what was written, then kEnded. writer.fail(e): the same, then e.
// Destroying the writer: the same, then kStopped. reader.cancel() or destroying the reader: the writer gets
// kEnded, and what was not read goes when both ends have gone. Each end that waits is woken by the other's
// end.
//
// Why no wake-up is lost. A side that waits swaps its word to kWaiting and looks at the stream once more; the
// other side changes the stream and then swaps that word to kIdle. Both swaps are read-modify-writes of one
// word, so the later one (acq_rel) sees everything before the earlier one: either the waiter's second look
// sees the change, or the other side sees kWaiting and wakes it.
//
// Threading: each end in one thread at a time; the two ends in any two. Waits resume on the waiting actor's
// home.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "base/check.h"
#include "runtime/cell.h"
#include "runtime/wait.h"

namespace reprise::runtime {

class StreamWait;
class StreamCoreBase;

/// One side of a stream as a place to wait. notify() is for the other side, the rest for the side's own actor or thread.
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
  // The opening comment says why acq_rel swaps suffice.
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

enum class Credit : std::uint8_t { kByTaking, kManual };

/// What the two ends share.
template <class T>
class StreamCore : public StreamCoreBase {
 public:
  StreamCore(std::uint32_t window, Credit credit)
      : window_(window), credit_(credit), slots_(std::make_unique<std::optional<T>[]>(window)) {
    REPRISE_CHECK(window >= 1 && window <= kMostWindow, "the stream's window is not 1 to 2^20");
    if (credit == Credit::kByTaking) granted_.store(window, std::memory_order_relaxed);
  }

  // -- the writer's

  /// Nothing: no credit.
  std::optional<Result<void>> try_write(T& value) {
    if (reader_ended()) return Result<void>(ErrorCode::kEnded);
    const std::uint64_t written = written_.load(std::memory_order_relaxed);
    // acquire: the slot's last value was taken before it was granted anew.
    if (written == granted_.load(std::memory_order_acquire)) return std::nullopt;
    slots_[written % window_].emplace(std::move(value));
    written_.store(written + 1, std::memory_order_release);  // publishes the slot
    reader_side.notify();
    return Result<void>();
  }

  // -- the reader's

  /// Nothing: none there yet.
  std::optional<Result<T>> try_read() {
    const bool ended = writer_ended();  // before written_: what was written before the end is seen below
    // acquire: pairs with the store in try_write.
    if (taken_ == written_.load(std::memory_order_acquire)) {
      if (ended) return Result<T>(end_error());
      return std::nullopt;
    }
    std::optional<T>& slot = slots_[taken_ % window_];
    std::optional<Result<T>> value(std::move(*slot));
    slot.reset();
    ++taken_;
    if (credit_ == Credit::kByTaking && ++ungranted_ >= (window_ + 1) / 2) {
      add_credit(std::exchange(
          ungranted_, 0));  // in batches, so that a fast pair does not wake each other for each value
    }
    return value;
  }

  void grant(std::uint32_t count) {
    REPRISE_CHECK(credit_ == Credit::kManual, "grant() on a stream that does not use manual credit");
    const std::uint64_t outstanding = granted_.load(std::memory_order_relaxed) - taken_;
    REPRISE_CHECK(outstanding + count <= window_, "more credit was granted than the window holds");
    add_credit(count);
  }

 private:
  static constexpr std::uint32_t kMostWindow = 1U << 20;

  void add_credit(std::uint32_t count) {
    // release: the slots behind this credit have been emptied.
    granted_.store(granted_.load(std::memory_order_relaxed) + count, std::memory_order_release);
    writer_side.notify();
  }

  const std::uint32_t window_;
  const Credit credit_;
  const std::unique_ptr<std::optional<T>[]> slots_;
  std::atomic<std::uint64_t> written_{0};  // by the writer
  std::atomic<std::uint64_t> granted_{0};  // by the reader
  std::uint64_t taken_ = 0;                // the reader's
  std::uint32_t ungranted_ = 0;            // the reader's
};

/// Awaitable of StreamReader::next().
template <class T>
class [[nodiscard]] StreamRead : public StreamWait {
 public:
  StreamRead(std::shared_ptr<StreamCore<T>> core, TimePoint deadline, CancelToken cancel)
      : StreamWait(core->reader_side, deadline, std::move(cancel)), core_(std::move(core)) {}
  ~StreamRead() override { withdraw(); }

  Result<T> await_resume() { return std::move(*outcome_); }

 private:
  bool try_finish() override {
    outcome_ = core_->try_read();
    return outcome_.has_value();
  }
  void finish_with(ErrorCode why) override { outcome_.emplace(why); }

  std::shared_ptr<StreamCore<T>> core_;
  std::optional<Result<T>> outcome_;
};

/// Awaitable of StreamWriter::write().
template <class T>
class [[nodiscard]] StreamWrite : public StreamWait {
 public:
  StreamWrite(std::shared_ptr<StreamCore<T>> core, T value, TimePoint deadline, CancelToken cancel)
      : StreamWait(core->writer_side, deadline, std::move(cancel)),
        core_(std::move(core)),
        value_(std::move(value)) {}
  ~StreamWrite() override { withdraw(); }

  Result<void> await_resume() { return std::move(*outcome_); }

 private:
  bool try_finish() override {
    outcome_ = core_->try_write(value_);
    return outcome_.has_value();
  }
  void finish_with(ErrorCode why) override { outcome_.emplace(why); }

  std::shared_ptr<StreamCore<T>> core_;
  T value_;
  std::optional<Result<void>> outcome_;
};

/// Awaitable of StreamWriter::reader_end(): in good order once the reader has gone.
template <class T>
class [[nodiscard]] StreamReaderEnd : public StreamWait {
 public:
  StreamReaderEnd(std::shared_ptr<StreamCore<T>> core, CancelToken cancel)
      : StreamWait(core->watch_side, TimePoint::max(), std::move(cancel)), core_(std::move(core)) {}
  ~StreamReaderEnd() override { withdraw(); }

  Result<void> await_resume() { return std::move(outcome_); }

 private:
  bool try_finish() override { return core_->reader_ended(); }
  void finish_with(ErrorCode why) override { outcome_ = why; }

  std::shared_ptr<StreamCore<T>> core_;
  Result<void> outcome_;
};

template <class T>
class StreamReader {
 public:
  StreamReader() = default;
  explicit StreamReader(std::shared_ptr<StreamCore<T>> core) : core_(std::move(core)) {}
  StreamReader(StreamReader&&) noexcept = default;
  StreamReader& operator=(StreamReader&& other) noexcept {
    if (this != &other) {
      cancel();
      core_ = std::move(other.core_);
    }
    return *this;
  }
  ~StreamReader() { cancel(); }

  /// The next value; kEnded after the last; kDeadline or kCancelled lose nothing.
  StreamRead<T> next(TimePoint deadline = TimePoint::max(), CancelToken cancel = {}) {
    return StreamRead<T>(core_, deadline, std::move(cancel));
  }
  /// Nothing: none there yet.
  std::optional<Result<T>> try_next() { return core_->try_read(); }
  /// For a plain thread.
  Result<T> next_blocking(TimePoint deadline) {
    std::optional<Result<T>> value;
    const bool done =
        core_->reader_side.block_until(deadline, [&] { return (value = core_->try_read()).has_value(); });
    return done ? std::move(*value) : Result<T>(ErrorCode::kDeadline);
  }

  /// Credit::kManual: the writer may write `count` more.
  void grant(std::uint32_t count) { core_->grant(count); }
  void cancel() {
    if (core_ != nullptr) core_->end_reader();
  }
  explicit operator bool() const { return core_ != nullptr; }

 private:
  std::shared_ptr<StreamCore<T>> core_;
};

template <class T>
class StreamWriter {
 public:
  StreamWriter() = default;
  explicit StreamWriter(std::shared_ptr<StreamCore<T>> core) : core_(std::move(core)) {}
  StreamWriter(StreamWriter&&) noexcept = default;
  StreamWriter& operator=(StreamWriter&& other) noexcept {
    if (this != &other) {
      abandon();
      core_ = std::move(other.core_);
    }
    return *this;
  }
  ~StreamWriter() { abandon(); }

  /// Done when there was credit for it; kEnded if the reader is gone. After an error the value is lost.
  StreamWrite<T> write(T value, TimePoint deadline = TimePoint::max(), CancelToken cancel = {}) {
    return StreamWrite<T>(core_, std::move(value), deadline, std::move(cancel));
  }
  /// Nothing, with `value` untouched: no credit.
  std::optional<Result<void>> try_write(T& value) { return core_->try_write(value); }
  /// For a plain thread.
  Result<void> write_blocking(T value, TimePoint deadline) {
    std::optional<Result<void>> written;
    const bool done = core_->writer_side.block_until(
        deadline, [&] { return (written = core_->try_write(value)).has_value(); });
    return done ? std::move(*written) : Result<void>(ErrorCode::kDeadline);
  }

  /// Waits for the reader to go, beside writes that may wait for credit; kCancelled if the token is.
  StreamReaderEnd<T> reader_end(CancelToken cancel) { return StreamReaderEnd<T>(core_, std::move(cancel)); }

  void close() { core_->end_writer(Error{ErrorCode::kEnded}); }
  void fail(Error error) { core_->end_writer(std::move(error)); }
  bool reader_gone() const { return core_->reader_ended(); }
  explicit operator bool() const { return core_ != nullptr; }

 private:
  void abandon() {
    if (core_ != nullptr) core_->end_writer(Error{ErrorCode::kStopped, "the stream's writer went away"});
  }
  std::shared_ptr<StreamCore<T>> core_;
};

template <class T>
struct Stream {
  StreamWriter<T> writer;
  StreamReader<T> reader;
};

template <class T>
Stream<T> make_stream(std::uint32_t window, Credit credit = Credit::kByTaking) {
  auto core = std::make_shared<StreamCore<T>>(window, credit);
  return {StreamWriter<T>(core), StreamReader<T>(core)};
}

}  // namespace reprise::runtime
