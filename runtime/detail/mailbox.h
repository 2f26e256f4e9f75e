#pragma once
// The mailbox of one actor, and the guarantees on message order and delivery.
//
// Every actor has an executor (runtime/executor.h), fixed when it is spawned. A send from an actor of the same executor
// puts the node into the lists below, without atomics or locks. Other sends go through the Inbox of the
// receiver's executor, which moves them into these lists between turns.
//
// Guarantees:
//   order    Messages of one sender reach one receiver in the order they were sent. Turns of an actor all
//            run on its executor, an executor uses one moodycamel producer per target executor, and a producer's nodes
//            keep their order; within an executor the lists are FIFO. Both executors are fixed, so all messages of a
//            pair take the same path. A plain thread is a sender of its own. Replies, stream items and
//            wake-ups are ordered with the messages of their sender, except that they pass messages waiting
//            for a suspended handler of a serial actor. Stop requests pass everything.
//   once     A message runs once, or bounces once with a reason, or is dropped silently if no sender waits.
//   wake-up  A message put into an empty mailbox is run (Executor explains why).
//   bound    At most `capacity` messages wait. kDropOldest: at most as many again in transit. kSuspend:
//            also the messages of suspended senders, at most kMaxParked; abandoned ones are removed as
//            others arrive. A reply is bounded by its ask, a wake-up by its waiting coroutine.
//   release  A release (runtime/message.h) is admitted whatever the capacity, and counted, so that other
//            messages find less space. It is not dropped, and does not overtake parked messages.
// There is no order between different senders: after A->C, A->B, B->C, C may receive the two in either order.
//
// Threading: admit(), close(), depth(): any thread. The rest: the actor's executor.

#include <atomic>
#include <cstdint>

#include "runtime/detail/node.h"

namespace reprise::runtime {

enum class Overload : std::uint8_t {
  kReject,      // the send fails with kMailboxFull
  kSuspend,     // `co_await ref.send(...)` waits for space; tell() cannot wait and fails with kMailboxFull
  kDropOldest,  // the oldest waiting message bounces with kDropped
};

/// Declared by an actor class as `static constexpr MailboxSpec kMailbox{...}`.
struct MailboxSpec {
  static constexpr std::uint32_t kUnbounded = 0;

  std::uint32_t capacity = 65'536;
  Overload overload = Overload::kReject;

  constexpr bool bounded() const { return capacity != kUnbounded; }
};

enum class Admission : std::uint8_t { kAdmitted, kPark, kFull, kClosed };

class Mailbox {
 public:
  static constexpr std::uint32_t kMaxParked = 65'536;

  explicit Mailbox(const MailboxSpec& spec) : spec_(spec) {}
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  // -- any thread

  /// Reserves a slot for a message. kAdmitted: put it. kPark (only if `can_wait`): send it as a ParkedSend.
  /// Otherwise it must not be put.
  Admission admit(bool can_wait);

  /// Reserves a slot for a release: kAdmitted or kClosed.
  Admission admit_release();

  /// Undoes an admit() that returned kPark if nothing was sent.
  void withdraw();

  /// Reserves a slot beyond the capacity, for messages that the runtime must deliver.
  void admit_always();

  void close() { closed_.store(true, std::memory_order_relaxed); }
  bool closed() const { return closed_.load(std::memory_order_relaxed); }

  /// Messages waiting, in a bounded mailbox with those in transit.
  std::uint32_t depth() const;

  // -- the actor's executor

  /// Adds an admitted or parked message, a continuation or a control node.
  void put(Node* node);

  /// Returns the next node or null: control first, then FIFO. Without `messages_too` messages are set aside,
  /// in order.
  Node* take(bool messages_too);

  bool has_work(bool messages_too) const {
    return !arrived_.empty() || !control_.empty() || (messages_too && !set_aside_.empty());
  }

  /// Bounces all nodes except control nodes.
  void bounce_waiting(ErrorCode why);
  void bounce_all(ErrorCode why);

 private:
  static constexpr std::uint32_t kFirstWeeding = 32;

  void put_message(Node* node);
  void note_taken();
  void drop_oldest();
  void admit_parked();
  void weed_parked();
  void bounce_list(NodeList& list, ErrorCode why);

  const MailboxSpec& spec_;
  // Messages admitted and not yet taken. Relaxed: a count that orders nothing; the inbox publishes the nodes.
  std::atomic<std::uint32_t> admitted_{0};
  // Messages in the lists below. Written by the executor alone (no read-modify-write needed); relaxed for the
  // same reason.
  std::atomic<std::uint32_t> waiting_{0};
  // Relaxed: if a sender misses it, the executor bounces the message.
  std::atomic<bool> closed_{false};

  NodeList control_;
  NodeList set_aside_;  // messages waiting for a handler slot; older than those in arrived_
  NodeList arrived_;
  NodeList parked_;  // and releases that were sent after one of these
  std::uint32_t parked_count_ = 0;
  std::uint32_t weed_at_ = kFirstWeeding;
};

}  // namespace reprise::runtime
