#pragma once
// Messages: plain structs, moved from sender to receiver.
//
//   struct Add { int amount; };                          told
//   struct Total { using Reply = int; };                 told or asked; a question names the type of its
//   answer
//
// An actor class lists what it takes: `using Accepts = Messages<Add, Total>;`. Sending anything else does not
// compile (runtime/misuse.h). A message must be movable without throwing, and must not refer to the sender's memory.

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

#include "runtime/cell.h"
#include "runtime/names.h"
#include "runtime/pool.h"
#include "runtime/reply.h"
#include "runtime/ticks.h"

namespace reprise::runtime {

template <class... Ms>
struct Messages {};

template <class M>
concept Question = requires {
  typename M::Reply;
};

template <class M, class... Ms>
concept OneOf = (std::same_as<M, Ms> || ...);

/// Identity of a message type.
template <class M>
inline constexpr char kMessageTag = 0;

/// Counts a message that nobody will read.
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
  static constexpr NodeOps kOps{NodeKind::kMessage, kShortTypeName<M>, &kMessageTag<M>, run_message,
                                bounce_node};

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
  static constexpr NodeOps kOps{NodeKind::kMessage, kShortTypeName<M>, &kMessageTag<M>, run_message,
                                bounce_node};

  M payload;
  ReplyTo<typename M::Reply> reply;       // empty when told
  TimePoint deadline = TimePoint::max();  // of the asker: work that is late is not begun
};

}  // namespace reprise::runtime
