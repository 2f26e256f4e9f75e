#pragma once
// The two ends of one answer.
//
// A question carries ReplyTo<R>; the answer goes into a slot that the asker made, and the slot itself travels
// back as a node. A ReplyTo answers exactly once: by answer(), or with kNoReply when it is let go unused.
// Handlers usually just return the value; one that answers later takes the ReplyTo as its second parameter
// and keeps it:
//
//   void on(Compute job, ReplyTo<int> reply) { waiting_.push_back(std::move(reply)); }
//
// A slot has two owners, asker and replier; who lets go last frees it.
// Threading: a ReplyTo may be moved to and answered from any thread, by one at a time.

#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "runtime/node.h"
#include "runtime/pool.h"
#include "runtime/result.h"

namespace reprise::runtime {

template <class R>
class ReplySlot : public Node, public Pooled {
 public:
  explicit ReplySlot(const NodeOps* operations) : Node(operations) {}
  virtual ~ReplySlot() = default;

  /// The replier's, once.
  void answer(Result<R> value) {
    value_.emplace(std::move(value));
    deliver();
  }

  /// The asker has gone away: the answer will not be read. A hint, so relaxed.
  bool abandoned() const { return abandoned_.load(std::memory_order_relaxed); }

 protected:
  /// Brings the slot, with its value, to the asker, and gives up the replier's ownership.
  virtual void deliver() = 0;

  void abandon() { abandoned_.store(true, std::memory_order_relaxed); }
  Result<R> take_value() { return std::move(*value_); }

  /// acq_rel: whoever is last must see all that the other did with the slot before.
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
  ReplyTo() = default;  // nobody asks: the answer is dropped
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

  /// The first answer counts; later ones are ignored.
  void answer(Result<R> value) {
    if (slot_ != nullptr) std::exchange(slot_, nullptr)->answer(std::move(value));
  }

  /// Whether somebody may still read the answer.
  bool wanted() const { return slot_ != nullptr && !slot_->abandoned(); }
  explicit operator bool() const { return slot_ != nullptr; }

 private:
  ReplySlot<R>* slot_ = nullptr;
};

}  // namespace reprise::runtime
