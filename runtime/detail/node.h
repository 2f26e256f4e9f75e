#pragma once
// Node: the intrusive unit of work sent to an actor, and NodeList, a FIFO of nodes.
//
// A node has one owner at a time: its creator, an inbox in transit, or a list of its target's cell. The owner
// ends it through one of its operations:
//   run     on the target's executor, within a turn of the target; consumes the node
//   bounce  on any thread, when it will never run; tells a waiting sender why; consumes the node
//
// Threading: only the owner accesses a node. A NodeList belongs to one thread.

#include <bit>
#include <cstdint>
#include <utility>

#include "runtime/result.h"
#include "traces/trace.h"

namespace reprise::runtime {

class Cell;
struct Node;

enum class NodeKind : std::uint8_t {
  kMessage,       // a message listed in Accepts; waits while all handler slots are in use
  kContinuation,  // a reply or a wake-up of a stream or timer; also runs while a handler is suspended
  kParked,        // a message whose sender waits for space in the mailbox
  kControl,       // start, stop, supervision; runs before all others
};

struct NodeOps {
  NodeKind kind;
  traces::ZoneSite turn;  // the name of the message type, for profiles
  const void* tag;        // identifies the message type (runtime/message.h); null for other nodes
  void (*run)(Node*, Cell&);
  void (*bounce)(Node*, ErrorCode);
  bool releases = false;  // a message that every mailbox admits (runtime/message.h)
};

struct Node {
  explicit Node(const NodeOps* operations) : ops(operations) {}

  Node* next = nullptr;
  const NodeOps* ops;
  Cell* target = nullptr;
  // Both 32 bits, so that one store clears them.
  std::uint32_t holds_target = 0;  // 1: owns a reference to `target` (in transit between threads)
  std::uint32_t posted = 0;        // send time, in units of 256 ns, truncated; 0: tracing was off

  static constexpr int kPostedShift = 8;  // waits of up to 18 minutes can be measured
  static std::uint32_t posted_now() {
    return static_cast<std::uint32_t>(traces::now_ns() >> kPostedShift) | 1;
  }
  /// Id of a message, equal for sender and receiver and unique at that time.
  std::uint64_t flow() const { return std::bit_cast<std::uintptr_t>(this) ^ std::uint64_t{posted} << 32; }
  /// Time since posting; negative: unknown.
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

  /// Removes and returns the first message that is not a release; null if there is none.
  Node* remove_droppable() {
    Node* before = nullptr;
    for (Node* node = first_; node != nullptr; before = node, node = node->next) {
      if (node->ops->kind != NodeKind::kMessage || node->ops->releases) continue;
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
