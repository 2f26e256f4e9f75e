#include "runtime/detail/mailbox.h"

#include <memory>

#include "base/check.h"
#include "runtime/detail/parked_send.h"

namespace reprise::runtime {

Mailbox::~Mailbox() {
  REPRISE_CHECK(control_.empty() && set_aside_.empty() && arrived_.empty() && parked_.empty(),
                "a mailbox was destroyed with messages in it");
}

Admission Mailbox::admit(bool can_wait) {
  if (closed()) return Admission::kClosed;
  if (!spec_.bounded()) return Admission::kAdmitted;
  const std::uint32_t before = admitted_.fetch_add(1, std::memory_order_relaxed);
  if (before < spec_.capacity) return Admission::kAdmitted;
  // The executor drops older messages; this second bound applies if the executor is too busy to do so.
  if (spec_.overload == Overload::kDropOldest && before < 2 * spec_.capacity) return Admission::kAdmitted;
  // A parked message stays counted, so later messages find no space and cannot overtake it.
  const bool may_park = spec_.overload == Overload::kSuspend && can_wait;
  if (may_park && before - spec_.capacity < kMaxParked) return Admission::kPark;
  admitted_.fetch_sub(1, std::memory_order_relaxed);
  return Admission::kFull;
}

Admission Mailbox::admit_release() {
  if (closed()) return Admission::kClosed;
  admit_always();
  return Admission::kAdmitted;
}

void Mailbox::withdraw() {
  admitted_.fetch_sub(1, std::memory_order_relaxed);
}

void Mailbox::admit_always() {
  if (spec_.bounded()) admitted_.fetch_add(1, std::memory_order_relaxed);
}

std::uint32_t Mailbox::depth() const {
  return (spec_.bounded() ? admitted_ : waiting_).load(std::memory_order_relaxed);
}

void Mailbox::put(Node* node) {
  switch (node->ops->kind) {
    case NodeKind::kMessage:
      if (parked_.empty() || !node->ops->releases) return put_message(node);
      parked_.push(node);  // its sender's earlier messages may be among them
      ++parked_count_;
      return;
    case NodeKind::kContinuation:
      return arrived_.push(node);
    case NodeKind::kControl:
      return control_.push(node);
    case NodeKind::kParked:
      parked_.push(node);
      ++parked_count_;
      admit_parked();
      if (parked_count_ >= weed_at_) weed_parked();
      return;
  }
}

void Mailbox::put_message(Node* node) {
  arrived_.push(node);
  const std::uint32_t now_waiting = waiting_.load(std::memory_order_relaxed) + 1;
  waiting_.store(now_waiting, std::memory_order_relaxed);
  if (spec_.overload == Overload::kDropOldest && spec_.bounded() && now_waiting > spec_.capacity)
    drop_oldest();
}

void Mailbox::drop_oldest() {
  Node* oldest = set_aside_.remove_droppable();
  if (oldest == nullptr) oldest = arrived_.remove_droppable();
  if (oldest == nullptr) return;  // releases alone exceed the capacity
  note_taken();
  oldest->ops->bounce(oldest, ErrorCode::kDropped);
}

void Mailbox::note_taken() {
  waiting_.store(waiting_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  if (spec_.bounded()) admitted_.fetch_sub(1, std::memory_order_relaxed);
}

void Mailbox::admit_parked() {
  while (!parked_.empty()) {
    const bool is_release = parked_.front()->ops->kind == NodeKind::kMessage;
    if (!is_release && waiting_.load(std::memory_order_relaxed) >= spec_.capacity) return;
    Node* node = parked_.pop();
    --parked_count_;
    if (is_release) {
      put_message(node);
      continue;
    }
    const std::unique_ptr<ParkedSend> parked(static_cast<ParkedSend*>(node));
    if (parked->still_wanted()) {
      put_message(parked->message);
      parked->admitted.answer({});
    } else {
      withdraw();
      parked->message->ops->bounce(parked->message, ErrorCode::kCanceled);
    }
  }
}

/// Drops the messages of senders that gave up. Called when the list has doubled, so the amortized cost is
/// small.
void Mailbox::weed_parked() {
  NodeList all = std::exchange(parked_, {});
  parked_count_ = 0;
  while (Node* node = all.pop()) {
    if (node->ops->kind == NodeKind::kMessage || static_cast<ParkedSend*>(node)->still_wanted()) {
      parked_.push(node);
      ++parked_count_;
    } else {
      withdraw();
      ParkedSend::bounce_node(node, ErrorCode::kCanceled);
    }
  }
  weed_at_ = 2 * parked_count_ + kFirstWeeding;
}

Node* Mailbox::take(bool messages_too) {
  if (Node* node = control_.pop()) return node;
  if (messages_too) {
    Node* node = set_aside_.pop();
    if (node == nullptr) node = arrived_.pop();
    if (node != nullptr && node->ops->kind == NodeKind::kMessage) {
      note_taken();
      if (!parked_.empty()) admit_parked();
    }
    return node;
  }
  while (Node* node = arrived_.pop()) {
    if (node->ops->kind != NodeKind::kMessage) return node;
    set_aside_.push(node);
  }
  return nullptr;
}

void Mailbox::bounce_list(NodeList& list, ErrorCode why) {
  while (Node* node = list.pop()) {
    if (&list == &parked_) {
      withdraw();
      --parked_count_;
    } else if (node->ops->kind == NodeKind::kMessage) {
      note_taken();
    }
    node->ops->bounce(node, why);
  }
}

void Mailbox::bounce_waiting(ErrorCode why) {
  for (NodeList* list : {&set_aside_, &arrived_, &parked_}) bounce_list(*list, why);
}

void Mailbox::bounce_all(ErrorCode why) {
  bounce_list(control_, why);
  bounce_waiting(why);
}

}  // namespace reprise::runtime
