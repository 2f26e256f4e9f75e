#pragma once
// Messages are plain structs, moved from sender to receiver.
//
//   struct Add { int amount; };               // can be told
//   struct Total { using Reply = int; };      // can be told or asked; Reply is the type of the answer
//
// An actor class lists the messages it takes: `using Accepts = Messages<Add, Total>;`. Sending any other
// message does not compile (runtime/misuse.h). A message must be nothrow-movable and must not refer to memory
// of the sender.
//
//   struct Close { static constexpr bool kReleases = true; };  // a release
// A release gives back something that the receiver granted, or ends its wait. Its sender is often a
// destructor, which can neither wait nor try again, so a mailbox admits it whatever its limit, and drops other
// messages instead. Releases are bounded by what was granted: at most a few are sent for each grant.

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

#include "runtime/detail/cell.h"
#include "runtime/detail/pool.h"
#include "runtime/detail/ticks.h"
#include "runtime/names.h"
#include "runtime/reply.h"

namespace reprise::runtime {

template <class... Ms>
struct Messages {};

template <class M>
concept Question = requires {
  typename M::Reply;
};

template <class M, class... Ms>
concept OneOf = (std::same_as<M, Ms> || ...);

/// A message that every mailbox admits.
template <class M>
concept Release = requires {
  requires M::kReleases;
};

/// The address of this variable identifies a message type.
template <class M>
inline constexpr char kMessageTag = 0;

/// Counts a message that no handler will receive.
void note_dead_letter(Cell& target);

inline void run_message(Node* node, Cell& cell) {
  cell.type().dispatch(cell, node);
}

template <class M>
struct Message : Node, Pooled {
  static_assert(std::is_nothrow_move_constructible_v<M>, "a message must move without throwing");
  static_assert(alignof(M) <= alignof(std::max_align_t),
                "an over-aligned message must hold its data by pointer");

  explicit Message(M content) : Node(&kOps), payload(std::move(content)) {}

  static void bounce_node(Node* node, ErrorCode) {
    note_dead_letter(*node->target);
    delete static_cast<Message*>(node);
  }
  static constexpr NodeOps kOps{NodeKind::kMessage, kShortTypeName<M>, &kMessageTag<M>,
                                run_message,        bounce_node,       Release<M>};

  M payload;
};

template <Question M>
struct Message<M> : Node, Pooled {
  static_assert(std::is_nothrow_move_constructible_v<M>, "a message must move without throwing");
  static_assert(alignof(M) <= alignof(std::max_align_t),
                "an over-aligned message must hold its data by pointer");

  explicit Message(M content) : Node(&kOps), payload(std::move(content)) {}

  static void bounce_node(Node* node, ErrorCode why) {
    const std::unique_ptr<Message> message(static_cast<Message*>(node));
    if (!message->reply) note_dead_letter(*node->target);
    message->reply.answer(why);
  }
  static constexpr NodeOps kOps{NodeKind::kMessage, kShortTypeName<M>, &kMessageTag<M>,
                                run_message,        bounce_node,       Release<M>};

  M payload;
  ReplyTo<typename M::Reply> reply;       // empty if the message was told
  TimePoint deadline = TimePoint::max();  // the asker's; a message past its deadline is not handled
};

}  // namespace reprise::runtime
