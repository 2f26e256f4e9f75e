#pragma once
// A stream of values from one writer to one reader with flow control: the writer may be ahead of the reader
// by the credit granted, at most the window; then it suspends.
//
//   auto [writer, reader] = make_stream<Token>(64);
//   auto writing = writer.write(token);                     auto reading = reader.next();
//   Result<void> written = co_await writing;                Result<Token> token = co_await reading;
//
// Either end may be sent to another actor in a message before its first wait. From then on it belongs to that
// actor, or to one plain thread that uses the blocking calls. Taking a value grants credit. With
// Credit::kManual only grant() does, for a reader that forwards values and knows when it can take more.
//
// After writer.close() the reader gets the remaining values, then kEnded; after writer.fail(e), finally e;
// after destruction of the writer, finally kStopped. After reader.cancel() or destruction of the reader the
// writer gets kEnded; unread values are freed with both ends. A waiting end is woken when the other ends.
//
// Why no wake-up is lost: a waiting side swaps its word to kWaiting, then checks the stream again; the other
// side changes the stream, then swaps that word to kIdle. The later of these acq_rel swaps sees everything
// before the earlier: the waiter sees the change, or the other side sees kWaiting and wakes it.
//
// Threading: each end by one thread at a time. Waits resume on the waiting actor's executor.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "base/check.h"
#include "runtime/detail/cell.h"
#include "runtime/wait.h"

namespace reprise::runtime {

class StreamWait;
class StreamCoreBase;

/// Wait state of one side. notify() is for the other side, all else for the side's own actor or thread.
class StreamSide {
 public:
  explicit StreamSide(StreamCoreBase& core) : core_(core) {}

  /// Wakes this side if it waits.
  void notify();

  /// Calls `try_finish` until it returns true; returns false at `deadline`.
  bool block_until(TimePoint deadline, const std::function<bool()>& try_finish);

 private:
  friend class StreamWait;
  enum class Word : std::uint8_t { kIdle, kWaiting };
  struct WakeUp;

  /// The caller must check the stream again afterwards.
  void announce() { word_.exchange(Word::kWaiting, std::memory_order_acq_rel); }
  /// Returns false if the other side has seen the announcement and its wake-up is on the way.
  bool take_back() { return word_.exchange(Word::kIdle, std::memory_order_acq_rel) == Word::kWaiting; }
  void bind(Cell& cell);

  StreamCoreBase& core_;
  // The opening comment shows why acq_rel swaps suffice.
  std::atomic<Word> word_{Word::kIdle};
  CellPtr cell_;  // set before the first announcement, then constant; null for a plain thread
  StreamWait* waiting_ = nullptr;  // accessed on the side's executor only
  std::mutex mutex_;
  std::condition_variable changed_;
  bool notified_ = false;  // for a plain thread; guarded by mutex_
};

/// The part of the shared state that does not depend on T.
class StreamCoreBase : public std::enable_shared_from_this<StreamCoreBase> {
 public:
  virtual ~StreamCoreBase() = default;

  /// Only the first call for each side counts.
  void end_writer(Error error);
  void end_reader();

  // acquire, pairs with release: a thread that sees the end sees all that preceded it.
  bool writer_ended() const { return writer_ended_.load(std::memory_order_acquire); }
  bool reader_ended() const { return reader_ended_.load(std::memory_order_acquire); }

  StreamSide writer_side{*this};
  StreamSide reader_side{*this};
  StreamSide watch_side{*this};  // the writer's, to wait for the reader's end

 protected:
  /// Requires writer_ended().
  const Error& end_error() const { return *end_error_; }

 private:
  std::atomic<bool> writer_ended_{false};
  std::atomic<bool> reader_ended_{false};
  std::optional<Error> end_error_;  // written once, before writer_ended_
};

/// Base class of awaitables on a stream. At most one may wait at a side.
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

  /// Checks the stream; returns true if that ends the wait.
  virtual bool try_finish() = 0;
  virtual void finish_with(ErrorCode why) = 0;

  /// Ends the wait; called by destructors of derived classes.
  void withdraw();

 private:
  friend class StreamSide;
  void give_up(ErrorCode why) override;
  /// Announces and checks until the wait has ended or is announced; returns whether it has ended.
  bool settle();
  void woken();

  StreamSide& side_;
  TimePoint deadline_;
  CancelToken cancel_;
};

enum class Credit : std::uint8_t { kByTaking, kManual };

template <class T>
class StreamCore : public StreamCoreBase {
 public:
  StreamCore(std::uint32_t window, Credit credit)
      : window_(window), credit_(credit), slots_(std::make_unique<std::optional<T>[]>(window)) {
    REPRISE_CHECK(window >= 1 && window <= kMaxWindow, "the stream's window is not 1 to 2^20");
    if (credit == Credit::kByTaking) granted_.store(window, std::memory_order_relaxed);
  }

  // -- called by the writer

  /// Returns nullopt, leaving `value` untouched, without credit.
  std::optional<Result<void>> try_write(T& value) {
    if (reader_ended()) return Result<void>(ErrorCode::kEnded);
    const std::uint64_t written = written_.load(std::memory_order_relaxed);
    // acquire: the reader emptied the slot before granting credit.
    if (written == granted_.load(std::memory_order_acquire)) return std::nullopt;
    slots_[written % window_].emplace(std::move(value));
    written_.store(written + 1, std::memory_order_release);  // publishes the slot
    reader_side.notify();
    return Result<void>();
  }

  // -- called by the reader

  /// Returns nullopt if no value is available yet.
  std::optional<Result<T>> try_read() {
    const bool ended = writer_ended();  // before written_: values written before the end are seen
    // acquire: pairs with the release in try_write().
    if (taken_ == written_.load(std::memory_order_acquire)) {
      if (ended) return Result<T>(end_error());
      return std::nullopt;
    }
    std::optional<T>& slot = slots_[taken_ % window_];
    std::optional<Result<T>> value(std::move(*slot));
    slot.reset();
    ++taken_;
    if (credit_ == Credit::kByTaking && ++ungranted_ >= (window_ + 1) / 2) {
      add_credit(std::exchange(ungranted_, 0));  // batched, to wake the writer less often
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
  static constexpr std::uint32_t kMaxWindow = 1U << 20;

  void add_credit(std::uint32_t count) {
    // release: these slots have been emptied.
    granted_.store(granted_.load(std::memory_order_relaxed) + count, std::memory_order_release);
    writer_side.notify();
  }

  const std::uint32_t window_;
  const Credit credit_;
  const std::unique_ptr<std::optional<T>[]> slots_;
  std::atomic<std::uint64_t> written_{0};  // stored by the writer
  std::atomic<std::uint64_t> granted_{0};  // stored by the reader
  std::uint64_t taken_ = 0;                // the reader's
  std::uint32_t ungranted_ = 0;            // the reader's
};

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

/// Awaitable of StreamWriter::reader_end(): ok once the reader is gone.
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

  /// Awaits the next value; kEnded after the last. kDeadline and kCanceled lose no value.
  StreamRead<T> next(TimePoint deadline = TimePoint::max(), CancelToken cancel = {}) {
    return StreamRead<T>(core_, deadline, std::move(cancel));
  }
  /// Returns nullopt if no value is available yet.
  std::optional<Result<T>> try_next() { return core_->try_read(); }
  /// As next(), for a plain thread.
  Result<T> next_blocking(TimePoint deadline) {
    std::optional<Result<T>> value;
    const bool done =
        core_->reader_side.block_until(deadline, [&] { return (value = core_->try_read()).has_value(); });
    return done ? std::move(*value) : Result<T>(ErrorCode::kDeadline);
  }

  /// Allows `count` more values; only with Credit::kManual.
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

  /// Waits for credit and writes. kEnded if the reader is gone. On error the value is lost.
  StreamWrite<T> write(T value, TimePoint deadline = TimePoint::max(), CancelToken cancel = {}) {
    return StreamWrite<T>(core_, std::move(value), deadline, std::move(cancel));
  }
  /// Returns nullopt, leaving `value` untouched, without credit.
  std::optional<Result<void>> try_write(T& value) { return core_->try_write(value); }
  /// As write(), for a plain thread.
  Result<void> write_blocking(T value, TimePoint deadline) {
    std::optional<Result<void>> written;
    const bool done = core_->writer_side.block_until(
        deadline, [&] { return (written = core_->try_write(value)).has_value(); });
    return done ? std::move(*written) : Result<void>(ErrorCode::kDeadline);
  }

  /// Waits until the reader is gone, also while a write waits for credit.
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
