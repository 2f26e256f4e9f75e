#pragma once
// Ref<Ms...>: a typed handle to an actor that accepts at least the messages Ms.
//
// Copyable, comparable, may be sent in messages and kept indefinitely. It neither keeps the actor running nor
// stops it; sends to a stopped actor fail with kStopped. A Ref converts to a Ref of fewer messages:
// `Ref<Stop>` can refer to any actor that accepts Stop.
//
// Ways to send:
//   tell          returns at once: kSent, or the reason for failure; the handler's outcome is not reported
//   send          awaitable; waits for space if the mailbox has Overload::kSuspend, else like tell
//   ask           awaitable; the answer, or the error, by a deadline
//   ask_blocking  like ask, for a plain thread; must not be called from a turn
// A release (runtime/message.h) is never refused for lack of space.
// Guarantees: runtime/detail/mailbox.h. Overloads without body give readable errors (runtime/misuse.h).
//
// Threading: tell, ask_blocking, stop: any thread. send, ask: within a turn.

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>

#include "runtime/ask.h"
#include "runtime/detail/parked_send.h"
#include "runtime/detail/ticks.h"
#include "runtime/executor.h"
#include "runtime/misuse.h"
#include "runtime/reply.h"

namespace reprise::runtime {

enum class SendStatus : std::uint8_t { kSent, kMailboxFull, kStopped };

const char* to_string(SendStatus status);

namespace ref_detail {

/// Reply slot for a plain thread that blocks in wait_until(). The replier may answer from any thread.
template <class R>
class BlockingReply : public ReplySlot<R> {
 public:
  BlockingReply() : ReplySlot<R>(nullptr) {}

  /// Blocks until the answer or `deadline`, then releases the slot. Call once.
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

template <class M>
Admission admit(Cell& cell, bool can_wait) {
  if constexpr (Release<M>) return cell.mailbox().admit_release();
  return cell.mailbox().admit(can_wait);
}

template <class M>
SendStatus tell(Cell& cell, M&& content) {
  switch (admit<std::remove_cvref_t<M>>(cell, /*can_wait=*/false)) {
    case Admission::kAdmitted:
      break;
    case Admission::kClosed:
      return note_dead_letter(cell), SendStatus::kStopped;
    default:
      return SendStatus::kMailboxFull;
  }
  cell.post(new Message<std::remove_cvref_t<M>>(std::forward<M>(content)));
  return SendStatus::kSent;
}

template <Question M>
void ask(Cell& cell, M&& content, ReplyTo<typename M::Reply> reply, TimePoint deadline) {
  const Admission admission = admit<M>(cell, /*can_wait=*/true);
  if (admission == Admission::kClosed) return reply.answer(ErrorCode::kStopped);
  if (admission == Admission::kFull) return reply.answer(ErrorCode::kMailboxFull);
  auto* message = new Message<M>(std::forward<M>(content));
  message->reply = std::move(reply);
  message->deadline = deadline;
  message->target = &cell;
  if (admission == Admission::kAdmitted) return cell.post(message);
  cell.post(new ParkedSend(message, [](const ParkedSend& parked) {
    return static_cast<const Message<M>*>(parked.message)->reply.wanted();
  }));
}

template <class M>
Ask<void> send(Cell& cell, M content, TimePoint deadline, const CancelToken& cancel) {
  const Admission admission = admit<M>(cell, /*can_wait=*/true);
  if (admission == Admission::kClosed) return Ask<void>(ErrorCode::kStopped);
  if (admission == Admission::kFull) return Ask<void>(ErrorCode::kMailboxFull);
  if (admission == Admission::kAdmitted) {
    cell.post(new Message<M>(std::move(content)));
    return Ask<void>(Result<void>());
  }
  struct Place {  // the parked message's slot; withdrawn if a limit has already passed
    ~Place() {
      if (!taken) mailbox.withdraw();
    }
    Mailbox& mailbox;
    bool taken = false;
  } place{cell.mailbox()};
  return Ask<void>(deadline, cancel, [&](ReplyTo<void> admitted) {
    place.taken = true;
    auto* message = new Message<M>(std::move(content));
    message->target = &cell;
    cell.post(new ParkedSend(message, std::move(admitted)));
  });
}

}  // namespace ref_detail

template <class... Ms>
class Ref {
 public:
  Ref() = default;  // refers to no actor; only comparison, assignment and operator bool are allowed
  explicit Ref(CellPtr cell) : cell_(std::move(cell)) {}

  template <class... Others>
  requires(OneOf<Ms, Others...>&&...) Ref(const Ref<Others...>& other) : cell_(other.cell()) {}

  template <class M>
  requires OneOf<std::remove_cvref_t<M>, Ms...> SendStatus tell(M&& message)
  const { return ref_detail::tell(*cell_, std::forward<M>(message)); }
  template <class M>
  requires(!OneOf<std::remove_cvref_t<M>, Ms...>)
      ActorDoesNotTake<std::remove_cvref_t<M>, Ms...> tell(M&& message)
  const;

  /// Awaits admission: the result is ok once the message is in the mailbox.
  template <class M>
  requires OneOf<M, Ms...> Ask<void> send(M message, TimePoint deadline = TimePoint::max(),
                                          const CancelToken& cancel = {})
  const { return ref_detail::send(*cell_, std::move(message), deadline, cancel); }
  template <class M, class... Limits>
  requires(!OneOf<M, Ms...>) ActorDoesNotTake<M, Ms...> send(M message, Limits&&... limits)
  const;

  template <Question M>
  requires OneOf<M, Ms...> Ask<typename M::Reply> ask(M message, TimePoint deadline,
                                                      const CancelToken& cancel = {})
  const {
    return Ask<typename M::Reply>(deadline, cancel, [&](ReplyTo<typename M::Reply> reply) {
      ref_detail::ask<M>(*cell_, std::move(message), std::move(reply), deadline);
    });
  }
  template <Question M>
  requires OneOf<M, Ms...> Ask<typename M::Reply> ask(M message, Duration timeout,
                                                      const CancelToken& cancel = {})
  const { return ask(std::move(message), deadline_after(timeout), cancel); }
  template <class M, class... Limits>
  requires(!OneOf<M, Ms...>) ActorDoesNotTake<M, Ms...> ask(M message, Limits&&... limits)
  const;
  template <class M, class... Limits>
  requires(OneOf<M, Ms...> && !Question<M>) MessageHasNoReply<M> ask(M message, Limits&&... limits)
  const;

  template <Question M>
  requires OneOf<M, Ms...> Result<typename M::Reply> ask_blocking(M message, Duration timeout)
  const {
    REPRISE_CHECK(Executor::current() == nullptr, "ask_blocking() on a thread that runs actors");
    const TimePoint deadline = deadline_after(timeout);
    if (timeout <= Duration::zero()) return ErrorCode::kDeadline;
    auto* slot = new ref_detail::BlockingReply<typename M::Reply>();
    ref_detail::ask<M>(*cell_, std::move(message), ReplyTo<typename M::Reply>(slot), deadline);
    return slot->wait_until(deadline);
  }
  template <class M>
  requires(!OneOf<M, Ms...>) ActorDoesNotTake<M, Ms...> ask_blocking(M message, Duration timeout)
  const;
  template <class M>
  requires(OneOf<M, Ms...> && !Question<M>) MessageHasNoReply<M> ask_blocking(M message, Duration timeout)
  const;

  /// Stops the actor after its current turn; waiting messages bounce.
  void stop() const { cell_->request_stop(); }

  bool stopped() const { return cell_->life() == Cell::Life::kStopped; }
  ActorId id() const { return cell_->id(); }
  const char* name() const { return cell_->name(); }
  explicit operator bool() const { return static_cast<bool>(cell_); }
  bool operator==(const Ref&) const = default;

  const CellPtr& cell() const { return cell_; }

 private:
  CellPtr cell_;
};

}  // namespace reprise::runtime

template <class... Ms>
struct std::hash<reprise::runtime::Ref<Ms...>> {
  /// Hashes the id, not the address, so that the order of a hash table is the same in every run of a simulation.
  std::size_t operator()(const reprise::runtime::Ref<Ms...>& ref) const {
    return std::hash<reprise::runtime::ActorId>{}(ref ? ref.id() : 0);
  }
};
