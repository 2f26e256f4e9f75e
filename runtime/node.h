#pragma once
// What travels between actors: an intrusive node with its target, and a FIFO list of such nodes.
//
// A node is owned by exactly one place at a time: its maker, an inbox in transit, or a list of its target's
// cell. Whoever owns it ends it in one of two ways, through its operations:
//   run     on the target's home, as (a part of) a turn of the target; consumes the node
//   bounce  on any thread, when it will never run; tells whoever waits why; consumes the node
//
// Threading: a node is touched by its owner only. NodeList belongs to one thread.

#include <bit>
#include <cstdint>
#include <utility>

#include "runtime/result.h"
#include "traces/trace.h"

namespace reprise::runtime {

class Cell;
struct Node;

enum class NodeKind : std::uint8_t {
  kMessage,       // a message that the actor declares: waits while the actor takes no messages
  kContinuation,  // a reply, a stream's or timer's wake-up: runs also while a handler is suspended
  kParked,        // a message whose sender waits for room in the mailbox
  kControl,       // start, stop, supervision: runs before everything else
};

struct NodeOps {
  NodeKind kind;
  traces::ZoneSite turn;  // called after the message type, for the profiler
  const void* tag;        // identity of the message type (runtime/message.h); null for others
  void (*run)(Node*, Cell&);
  void (*bounce)(Node*, ErrorCode);
};

struct Node {
  explicit Node(const NodeOps* operations) : ops(operations) {}

  Node* next = nullptr;
  const NodeOps* ops;
  Cell* target = nullptr;
  // Of one size, so that both are cleared by one store.
  std::uint32_t holds_target = 0;  // 1: owns a reference on `target` (while in transit between threads)
  std::uint32_t posted = 0;        // when, in units of 256 ns, cut off; 0: nobody traced then

  static constexpr int kPostedShift = 8;  // a wait is known up to 18 minutes
  static std::uint32_t posted_now() {
    return static_cast<std::uint32_t>(traces::now_ns() >> kPostedShift) | 1;
  }
  /// The same for the sender and the receiver, and for no other message of the time.
  std::uint64_t flow() const { return std::bit_cast<std::uintptr_t>(this) ^ std::uint64_t{posted} << 32; }
  /// Since it was posted; negative: unknown.
  std::int64_t waited_ns() const {
    if (posted == 0) return -1;
    const std::uint32_t units = posted_now() - posted;
    return std::int64_t{units} << kPostedShift;
  }
};

class NodeList {
 public:
  bool empty() const { return first_ == nullptr; }
  Node* front() const { return first_; }

  void push(Node* node) {
    node->next = nullptr;
    if (first_ == nullptr) {
      first_ = node;
    } else {
      last_->next = node;
    }
    last_ = node;
  }

  Node* pop() {
    Node* node = first_;
    if (node != nullptr) first_ = node->next;
    return node;
  }

  /// Takes out the first node of that kind; null if there is none.
  Node* remove_first(NodeKind kind) {
    Node* before = nullptr;
    for (Node* node = first_; node != nullptr; before = node, node = node->next) {
      if (node->ops->kind != kind) continue;
      if (before == nullptr) {
        first_ = node->next;
      } else {
        before->next = node->next;
      }
      if (last_ == node) last_ = before;
      return node;
    }
    return nullptr;
  }

 private:
  Node* first_ = nullptr;
  Node* last_ = nullptr;  // meaningful only while first_ is not null
};

}  // namespace reprise::runtime
