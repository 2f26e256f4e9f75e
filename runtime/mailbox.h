#pragma once
// The mailbox of one actor, and the promises about messages.
//
// How a message travels. Every actor has a *home* (runtime/home.h): a worker of the pool, a thread of its
// own, or a host's io_context; chosen when the actor is spawned and never changed. A send from an actor of
// the same home puts the node straight into the lists below: no atomic, no lock. Any other send goes through
// the moodycamel queue of the receiver's home (Inbox, runtime/home.h), whence that home, between turns, moves it
// into these lists.
//
// What a sender and a receiver may rely on
//   order    Messages of one sender reach one receiver in the order in which they were sent. Proof: an
//   actor's
//            turns all run on its home, and a home uses one moodycamel producer for each other home, whose
//            nodes keep their order; within a home, lists are FIFO. Both ends being fixed for life, no
//            message of the pair ever takes another way. A plain thread is a sender of its own. Replies,
//            stream items and wake-ups keep their place among the messages of their sender, except that they
//            pass messages that wait for a suspended handler of a serial actor; stop requests pass
//            everything.
//   once     A message runs once, or bounces once with a reason, or dies silently if nobody waits for it.
//   wake-up  A message put into an empty mailbox is run: see Home for the argument.
//   bound    At most `capacity` messages wait (kDropOldest: and as many again in transit; kSuspend: and the
//   messages of
//            senders who wait for room, at most kMostParked; those that gave up are weeded out as others
//            come). A reply has its ask, a wake-up its waiting coroutine.
// Nothing is promised between different senders: A->C, A->B, B->C may reach C in either order.
//
// Threading: admit(), close(), depth(): any thread. The rest: the actor's home.

#include <atomic>
#include <cstdint>

#include "runtime/node.h"

namespace reprise::runtime {

enum class Overload : std::uint8_t {
  kReject,      // the sender is told kMailboxFull
  kSuspend,     // `co_await ref.send(...)` waits for room; tell(), which cannot wait, is told kMailboxFull
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
  static constexpr std::uint32_t kMostParked = 65'536;

  explicit Mailbox(const MailboxSpec& spec) : spec_(spec) {}
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  // -- any thread

  /// Asks for room for one message. kAdmitted: put it. kPark (only if `can_wait`): send it as a parked one.
  /// Else it must not be put.
  Admission admit(bool can_wait);

  /// Gives back a kPark that was not used.
  void withdraw();

  /// Room that is always granted: for what the runtime itself must deliver.
  void admit_always();

  void close() { closed_.store(true, std::memory_order_relaxed); }
  bool closed() const { return closed_.load(std::memory_order_relaxed); }

  /// Messages waiting, those in transit included where the mailbox is bounded.
  std::uint32_t depth() const;

  // -- the actor's home

  /// An admitted message, a parked one, a continuation or a control node.
  void put(Node* node);

  /// The next node to run, or null: control first; then in order. Without `messages_too` the messages are set
  /// aside, in order, until they are asked for again.
  Node* take(bool messages_too);

  bool has_work(bool messages_too) const {
    return !arrived_.empty() || !control_.empty() || (messages_too && !set_aside_.empty());
  }

  /// Bounces what waits, but for control nodes.
  void bounce_waiting(ErrorCode why);
  /// Bounces everything.
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
  // Messages admitted and not yet taken. Relaxed: it is a count and orders nothing; the nodes themselves are
  // published by the inbox.
  std::atomic<std::uint32_t> admitted_{0};
  // Messages in the lists below; written by the home alone (so load + store, no read-modify-write), relaxed
  // for the same reason.
  std::atomic<std::uint32_t> waiting_{0};
  // Relaxed: a sender that misses it sends in vain, and the home bounces its message.
  std::atomic<bool> closed_{false};

  NodeList control_;
  NodeList set_aside_;  // messages that wait for the handler of a serial actor; older than those in arrived_
  NodeList arrived_;
  NodeList parked_;
  std::uint32_t parked_count_ = 0;
  std::uint32_t weed_at_ = kFirstWeeding;
};

}  // namespace reprise::runtime
