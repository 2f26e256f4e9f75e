#pragma once
// Ask: sends a question and awaits its answer.
//
//   auto asked = ref.ask(Total{}, 2s);         // sent here, so that several asks can run concurrently
//   Result<int> total = co_await asked;
//
// The answer arrives as a turn of the asker, on its executor, in order with the replier's other messages to it.
// An ask ends exactly once: with the answer, with an error of the receiver (kStopped, kFailed, kNoReply,
// kMailboxFull, kDropped), at the deadline, or by the CancelToken. All are decided on the asker's executor, so
// they do not race. A deadline in the past answers kDeadline and sends nothing. Destroying an Ask abandons
// the question; the replier can check ReplyTo::wanted().
//
// Threading: created, awaited and destroyed on the asker's executor, within its turns.

#include <optional>

#include "runtime/message.h"
#include "runtime/wait.h"

namespace reprise::runtime {

template <class R>
class [[nodiscard]] Ask : public Wait {
 public:
  explicit Ask(Result<R> answer) : answer_(std::move(answer)) {}

  /// Calls `send` with the ReplyTo, unless a limit has already passed; that is then the answer.
  template <class Send>
  Ask(TimePoint deadline, const CancelToken& cancel, Send&& send) {
    start(deadline, cancel, std::forward<Send>(send));
  }

  ~Ask() override {
    if (slot_ != nullptr) slot_->forget_asker();
  }

  bool await_ready() const { return answer_.has_value(); }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> handle) {
    wait_here(handle);
  }
  Result<R> await_resume() {
    REPRISE_CHECK(answer_.has_value(), "an ask was awaited twice");
    return std::move(*answer_);
  }

 protected:
  Ask() = default;

  template <class Send>
  void start(TimePoint deadline, const CancelToken& cancel, Send&& send) {
    Cell* asker = Cell::current();
    REPRISE_CHECK(asker != nullptr, "ask() outside an actor's turn; plain threads use ask_blocking()");
    if (const std::optional<ErrorCode> passed = set_limits(deadline, cancel)) {
      answer_.emplace(*passed);
      return;
    }
    slot_ = new Slot(*this, *asker);
    send(ReplyTo<R>(slot_));
  }

  void give_up(ErrorCode why) override {
    end(why);
    if (waiting()) wake();
  }

 private:
  class Slot : public ReplySlot<R> {
   public:
    Slot(Ask& ask, Cell& asker) : ReplySlot<R>(&kOps), ask_(&ask), asker_(&asker) {}

    void forget_asker() {
      ask_ = nullptr;
      this->abandon();
      this->release();
    }

   private:
    void deliver() override {
      const CellPtr asker = asker_;  // `this` may be gone before post() returns
      asker->post(this);
    }
    static void run_node(Node* node, Cell&) {
      auto* slot = static_cast<Slot*>(node);
      if (slot->ask_ != nullptr) slot->ask_->arrived(slot->take_value());
      slot->release();
    }
    static void bounce_node(Node* node, ErrorCode) { static_cast<Slot*>(node)->release(); }
    static constexpr NodeOps kOps{NodeKind::kContinuation, "reply", nullptr, run_node, bounce_node};

    Ask* ask_;  // used on the asker's executor only; null once the Ask is destroyed
    const CellPtr asker_;
  };

  void end(Result<R> answer) {
    std::exchange(slot_, nullptr)->forget_asker();
    answer_.emplace(std::move(answer));
  }
  void arrived(Result<R> answer) {
    clear_limits();
    end(std::move(answer));
    if (waiting()) resume();
  }

  Slot* slot_ = nullptr;
  std::optional<Result<R>> answer_;
};

}  // namespace reprise::runtime
