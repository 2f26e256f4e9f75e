#include "runtime/executor.h"

#include <concurrentqueue.h>

#include <algorithm>

#include "base/check.h"
#include "runtime/detail/system_core.h"

namespace reprise::runtime {
namespace {

struct Traits : moodycamel::ConcurrentQueueDefaultTraits {
  static constexpr std::size_t BLOCK_SIZE = 128;  // nodes; few blocks per burst between two executors
  static constexpr std::size_t INITIAL_IMPLICIT_PRODUCER_HASH_SIZE = 8;
};

thread_local Executor* current_executor = nullptr;

/// Assigns small indices to executors, so that an executor finds its outlet to another by index.
class IndexPool {
 public:
  std::uint32_t take() {
    std::lock_guard lock(mutex_);
    if (free_.empty()) return next_++;
    const std::uint32_t index = free_.back();
    free_.pop_back();
    return index;
  }
  void give_back(std::uint32_t index) {
    std::lock_guard lock(mutex_);
    free_.push_back(index);
  }

 private:
  std::mutex mutex_;
  std::vector<std::uint32_t> free_;
  std::uint32_t next_ = 0;
};

IndexPool& indices() {
  static IndexPool* pool = new IndexPool;  // never destroyed: executors may end during static destruction
  return *pool;
}

}  // namespace

struct Inbox::Queue {
  moodycamel::ConcurrentQueue<Node*, Traits> nodes{Traits::BLOCK_SIZE * 2};
  moodycamel::ConsumerToken reader{nodes};  // rotates over the producers, so that none starves another
};

struct Inbox::Producer::Token {
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

Inbox::Producer::Producer(Inbox& inbox) : queue_(*inbox.queue_), token_(std::make_unique<Token>(queue_)) {
  REPRISE_CHECK(token_->producer.valid(), "out of memory in an inbox");
}

Inbox::Producer::~Producer() = default;

void Inbox::Producer::push(Node* node) {
  const bool taken = queue_.nodes.enqueue(token_->producer, node);
  REPRISE_CHECK(taken, "out of memory in an inbox");
}

struct Executor::PeerQueue {
  explicit PeerQueue(Executor& executor) : target(&executor), outlet(executor.inbox_) {}
  ExecutorPtr target;  // declared first, so that it outlives the outlet
  Inbox::Producer outlet;
};

Executor::Executor(std::shared_ptr<SystemCore> core, Transport transport)
    : core_(std::move(core)), index_(indices().take()), transport_(transport), timers_(Clock::now()) {}

Executor::~Executor() {
  bounce_inbox();
  indices().give_back(index_);
}

// Not inlined: a coroutine must not keep the address of a thread_local across a suspension.
[[gnu::noinline]] Executor* Executor::current() {
  return current_executor;
}

Executor::Presence::Presence(Executor& executor) : outer_(std::exchange(current_executor, &executor)) {}
Executor::Presence::~Presence() {
  current_executor = outer_;
}

void Executor::post(Node* node) {
  Executor* here = current();
  if (here == this && transport_ == Transport::kInbox) return node->target->accept(node);
  node->target->add_ref();  // released after the transit
  node->holds_target = 1;
  if (transport_ == Transport::kOwn) return transport(node);
  if (here != nullptr) {
    here->outlet_to(*this).push(node);
    ring();
  } else {
    const ExecutorPtr alive(this);  // running the node may release all other references before ring()
    inbox_.push(node);
    ring();
  }
}

void Executor::ring() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  // acquire: a sender that finds the executor closed sees everything the executor did before.
  Doorbell seen = doorbell_.load(std::memory_order_acquire);
  if (seen == Doorbell::kAwake) return;
  if (seen == Doorbell::kClosed) return bounce_inbox();
  // acq_rel: the winner passes the right to run the executor to the woken thread.
  if (doorbell_.compare_exchange_strong(seen, Doorbell::kAwake, std::memory_order_acq_rel)) wake();
}

Executor::Sleep Executor::announce_sleep() {
  if (void (*const pause)() = before_sleep.load(std::memory_order_relaxed)) pause();
  // release: the thread that wakes this executor continues from its current state.
  doorbell_.store(Doorbell::kAsleep, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (inbox_.empty()) return Sleep::kAsleep;
  return cancel_sleep() ? Sleep::kStayAwake : Sleep::kWoken;
}

bool Executor::cancel_sleep() {
  Doorbell seen = Doorbell::kAsleep;
  return doorbell_.compare_exchange_strong(seen, Doorbell::kAwake, std::memory_order_acq_rel);
}

bool Executor::idle() const {
  return doorbell_.load(std::memory_order_seq_cst) != Doorbell::kAwake && inbox_.empty();
}

bool Executor::try_seal() {
  std::lock_guard lock(register_mutex_);
  if (residents_ != nullptr) return false;
  sealed_ = true;
  return true;
}

void Executor::close() {
  doorbell_.store(Doorbell::kClosed, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  bounce_inbox();
  roads_.clear();
}

void Executor::bounce_inbox() {
  std::array<Node*, kInboxBatch> nodes;
  while (const std::size_t count = inbox_.pop_unordered(nodes.data(), nodes.size())) {
    for (std::size_t i = 0; i < count; ++i) bounce(nodes[i]);
  }
}

void Executor::bounce(Node* node) {
  const CellPtr target(node->target);
  if (std::exchange(node->holds_target, 0) != 0) target->release();
  node->ops->bounce(node, ErrorCode::kStopped);
}

void Executor::deliver(Node* node) {
  Cell* target = node->target;
  const bool held = std::exchange(node->holds_target, 0) != 0;
  target->accept(node);
  if (held) target->release();
}

void Executor::transport(Node*) {
  REPRISE_CHECK(false, "an executor has no transport of its own");
}

Inbox::Producer& Executor::outlet_to(Executor& target) {
  if (target.index_ >= roads_.size()) roads_.resize(target.index_ + 1);
  std::unique_ptr<PeerQueue>& road = roads_[target.index_];
  // The index was reused by a new executor: replace the outlet to the old one, which has ended.
  if (road == nullptr || road->target.get() != &target) road = std::make_unique<PeerQueue>(target);
  return road->outlet;
}

bool Executor::enter(Cell& cell) {
  std::lock_guard lock(register_mutex_);
  if (sealed_) return false;
  cell.next_resident_ = residents_;
  if (residents_ != nullptr) residents_->previous_resident_ = &cell;
  residents_ = &cell;
  population_.store(population_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return true;
}

void Executor::leave(Cell& cell) {
  std::lock_guard lock(register_mutex_);
  if (cell.previous_resident_ != nullptr) {
    cell.previous_resident_->next_resident_ = cell.next_resident_;
  } else {
    residents_ = cell.next_resident_;
  }
  if (cell.next_resident_ != nullptr) cell.next_resident_->previous_resident_ = cell.previous_resident_;
  population_.store(population_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
}

void Executor::for_each_resident(const std::function<void(Cell&)>& visit) {
  std::lock_guard lock(register_mutex_);
  for (Cell* cell = residents_; cell != nullptr; cell = cell->next_resident_) visit(*cell);
}

void Executor::make_ready(Cell& cell) {
  cell.next_ready_ = nullptr;
  if (first_ready_ == nullptr) {
    first_ready_ = &cell;
  } else {
    last_ready_->next_ready_ = &cell;
  }
  last_ready_ = &cell;
  ready_count_.store(ready_count_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

void Executor::arm(TimerEntry& timer, TimePoint deadline) {
  timers_.arm(timer, deadline);
}

void Executor::count_handlers(int change) {
  handlers_.store(handlers_.load(std::memory_order_relaxed) + static_cast<std::uint32_t>(change),
                  std::memory_order_relaxed);
}

bool Executor::take_in() {
  std::array<Node*, kInboxBatch> nodes;
  const std::size_t count = inbox_.pop(nodes.data(), nodes.size());
  for (std::size_t i = 0; i < count; ++i) deliver(nodes[i]);
  return count != 0;
}

void Executor::run_ready() {
  std::uint64_t begin = ticks();
  const std::uint64_t round_end = begin + time_slice_ticks();
  for (int i = 0; i < kCellsPerRound && first_ready_ != nullptr && begin < round_end; ++i) {
    Cell& cell = *first_ready_;
    first_ready_ = cell.next_ready_;
    ready_count_.store(ready_count_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
    running_actor_.store(cell.id(), std::memory_order_relaxed);
    running_since_.store(begin, std::memory_order_relaxed);
    const bool stopped = cell.run(Cell::kQuantum);
    const std::uint64_t end = ticks();
    cell.busy_ticks_.store(cell.busy_ticks() + (end - begin), std::memory_order_relaxed);
    begin = end;
    if (stopped) cell.release();
  }
  running_actor_.store(0, std::memory_order_relaxed);
}

const Cell& Executor::ready_at(std::uint32_t position) const {
  const Cell* cell = first_ready_;
  for (; position != 0; --position) cell = cell->next_ready_;
  return *cell;
}

Cell& Executor::take_ready(std::uint32_t position) {
  Cell* before = nullptr;
  Cell* cell = first_ready_;
  for (; position != 0; --position) before = std::exchange(cell, cell->next_ready_);
  (before == nullptr ? first_ready_ : before->next_ready_) = cell->next_ready_;
  if (last_ready_ == cell) last_ready_ = before;
  ready_count_.store(ready_count_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  return *cell;
}

void Executor::run_turn_of(std::uint32_t position) {
  Cell& cell = take_ready(position);
  if (cell.run(1)) cell.release();
}

bool Executor::run_round() {
  const bool arrived = take_in();
  fire_timers();
  if (first_ready_ == nullptr) return arrived;
  // seq_cst, with activity(): two equal readings mean that no round ran in between.
  activity_.store(activity_.load(std::memory_order_relaxed) + 1, std::memory_order_seq_cst);
  run_ready();
  return true;
}

}  // namespace reprise::runtime
