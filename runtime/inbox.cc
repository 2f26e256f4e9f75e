#include "runtime/inbox.h"

#include <concurrentqueue.h>

#include "base/check.h"

namespace reprise::runtime {

namespace {

struct Traits : moodycamel::ConcurrentQueueDefaultTraits {
  static constexpr std::size_t BLOCK_SIZE = 128;  // nodes; a burst between two homes touches few blocks
  static constexpr std::size_t INITIAL_IMPLICIT_PRODUCER_HASH_SIZE = 8;
};

}  // namespace

struct Inbox::Queue {
  moodycamel::ConcurrentQueue<Node*, Traits> nodes{Traits::BLOCK_SIZE * 2};
  moodycamel::ConsumerToken reader{nodes};  // remembers whose turn it is, so that no producer starves another
};

struct Inbox::Outlet::Token {
  explicit Token(Queue& queue) : producer(queue.nodes) {}
  moodycamel::ProducerToken producer;
};

Inbox::Inbox() : queue_(std::make_unique<Queue>()) {}

Inbox::~Inbox() {
  REPRISE_CHECK(empty(), "an inbox was destroyed with messages in it");
}

void Inbox::push(Node* node) {
  const bool taken = queue_->nodes.enqueue(node);
  REPRISE_CHECK(taken, "out of memory in an inbox");
}

std::size_t Inbox::pop(Node** nodes, std::size_t most) {
  return queue_->nodes.try_dequeue_bulk(queue_->reader, nodes, most);
}

std::size_t Inbox::pop_unordered(Node** nodes, std::size_t most) {
  return queue_->nodes.try_dequeue_bulk(nodes, most);
}

bool Inbox::empty() const {
  return queue_->nodes.size_approx() == 0;
}

Inbox::Outlet::Outlet(Inbox& inbox) : queue_(*inbox.queue_), token_(std::make_unique<Token>(queue_)) {
  REPRISE_CHECK(token_->producer.valid(), "out of memory in an inbox");
}

Inbox::Outlet::~Outlet() = default;

void Inbox::Outlet::push(Node* node) {
  const bool taken = queue_.nodes.enqueue(token_->producer, node);
  REPRISE_CHECK(taken, "out of memory in an inbox");
}

}  // namespace reprise::runtime
