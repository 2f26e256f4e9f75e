#pragma once
// The way into a home from other threads: a moodycamel queue of nodes.
//
// moodycamel::ConcurrentQueue is lock-free and keeps order within one *producer*: nodes of one producer come
// out in the order in which they went in; between producers there is no order. The producers here are
//   - one Outlet for each sending home, used only while that home runs (so by one thread at a time, and each
//     hand-over of a home between threads is a synchronisation): all sends of all its actors, in their order;
//   - one implicit producer for each plain thread that sends.
//
// Threading: push(), pop_unordered(), empty(): any thread. pop(): the home. Outlet::push(): the thread that
// runs the outlet's home. empty() is a hint; see Home for what may be concluded from it.

#include <cstddef>
#include <memory>

#include "runtime/node.h"

namespace reprise::runtime {

class Inbox {
 public:
  class Outlet;

  Inbox();
  ~Inbox();  // must be empty
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  void push(Node* node);

  /// Takes up to `most` nodes, from all producers in turn. How many it took; 0 may mean that others are
  /// pushing.
  std::size_t pop(Node** nodes, std::size_t most);

  /// The same for an inbox whose home has closed.
  std::size_t pop_unordered(Node** nodes, std::size_t most);

  bool empty() const;

 private:
  struct Queue;
  std::unique_ptr<Queue> queue_;
};

/// The producer of one home towards one inbox; must end before the inbox does.
class Inbox::Outlet {
 public:
  explicit Outlet(Inbox& inbox);
  ~Outlet();
  Outlet(const Outlet&) = delete;
  Outlet& operator=(const Outlet&) = delete;

  void push(Node* node);

 private:
  struct Token;
  Queue& queue_;
  std::unique_ptr<Token> token_;
};

}  // namespace reprise::runtime
