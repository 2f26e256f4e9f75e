#pragma once
// The two ends of an answer.
//
// A question carries a ReplyTo<R>. The answer goes into a slot allocated by the asker, which travels back as
// a node. A ReplyTo answers exactly once: by answer(), or with kNoReply when destroyed unused. Most handlers
// return the value; one that answers later takes the ReplyTo as second parameter and keeps it:
//
//   void on(Compute job, ReplyTo<int> reply) { waiting_.push_back(std::move(reply)); }
//
// Asker and replier own the slot; the last to release it frees it.
//
// Threading: a ReplyTo may be used from any thread, by one at a time.

#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "runtime/detail/node.h"
#include "runtime/detail/pool.h"
#include "runtime/result.h"

namespace reprise::runtime {

template <class R>
class ReplySlot : public Node, public Pooled {
 public:
  explicit ReplySlot(const NodeOps* operations) : Node(operations) {}
  virtual ~ReplySlot() = default;

  /// Sends the answer; called once, by the replier.
  void answer(Result<R> value) {
    value_.emplace(std::move(value));
    deliver();
  }

  /// Returns whether the asker has given up on the answer. Relaxed: a hint.
  bool abandoned() const { return abandoned_.load(std::memory_order_relaxed); }

 protected:
  /// Sends the slot to the asker and gives up the replier's ownership.
  virtual void deliver() = 0;

  void abandon() { abandoned_.store(true, std::memory_order_relaxed); }
  Result<R> take_value() { return std::move(*value_); }

  /// acq_rel: the last owner must see all accesses that the other made to the slot.
  void release() {
    if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 private:
  std::optional<Result<R>> value_;
  std::atomic<int> owners_{2};
  std::atomic<bool> abandoned_{false};
};

template <class R>
class ReplyTo {
 public:
  ReplyTo() = default;  // for a message that was told: the answer is dropped
  explicit ReplyTo(ReplySlot<R>* slot) : slot_(slot) {}
  ReplyTo(ReplyTo&& other) noexcept : slot_(std::exchange(other.slot_, nullptr)) {}
  ReplyTo& operator=(ReplyTo&& other) noexcept {
    if (this != &other) {
      answer(ErrorCode::kNoReply);
      slot_ = std::exchange(other.slot_, nullptr);
    }
    return *this;
  }
  ~ReplyTo() { answer(ErrorCode::kNoReply); }

  /// Only the first call counts; later ones are ignored.
  void answer(Result<R> value) {
    if (slot_ != nullptr) std::exchange(slot_, nullptr)->answer(std::move(value));
  }

  /// Returns whether the asker may still read the answer.
  bool wanted() const { return slot_ != nullptr && !slot_->abandoned(); }
  explicit operator bool() const { return slot_ != nullptr; }

 private:
  ReplySlot<R>* slot_ = nullptr;
};

}  // namespace reprise::runtime
