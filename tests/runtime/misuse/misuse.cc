// Code that must not compile: misuse_test.py checks the compiler's messages. Each misuse is in its own
// function, next to the expected error; without REPRISE_MISUSE all of it compiles.
#include "runtime/system.h"

namespace {

using namespace reprise::runtime;
using namespace std::chrono_literals;

struct Add {
  int amount = 0;
};
struct Total {
  using Reply = int;
};
struct Unrelated {};
struct Forgotten {};
struct Unanswered {
  using Reply = int;
};
struct Misanswered {
  using Reply = int;
};
struct AnsweredTwice {
  using Reply = int;
};

class Counter : public Actor {
 public:
  using Accepts =
      Messages<Add, Total
#ifdef REPRISE_MISUSE
               ,
               Forgotten,     // error: ActorHasNoHandlerFor<Counter, Forgotten>
               Unanswered,    // error: HandlerReturnsNoReplyTo<Counter, Unanswered, std::string>
               Misanswered,   // error: HandlerReturnsNoReplyTo<Counter, Misanswered, Task<std::string>>
               AnsweredTwice  // error: HandlerWithReplyToReturns<Counter, AnsweredTwice, int>
#endif
               >;
  void on(const Add& add) {
    sum_ += add.amount;
  }
  int on(Total) {
    return sum_;
  }
  std::string on(Unanswered) {
    return "a word for a number";
  }
  Task<std::string> on(Misanswered) {
    co_return "a word for a number";
  }
  int on(AnsweredTwice, ReplyTo<int> reply) {
    reply.answer(sum_);
    return sum_;
  }

 private:
  int sum_ = 0;
};

using AddsUp = Ref<Add, Total>;

[[maybe_unused]] void spawn_it(System& system) {
  system.spawn<Counter>();
}
[[maybe_unused]] void send_what_it_takes(const AddsUp& counter) {
  counter.tell(Add{1});
  counter.tell(Total{});
  static_cast<void>(counter.send(Add{1}));
  static_cast<void>(counter.ask(Total{}, 1s));
  static_cast<void>(counter.ask_blocking(Total{}, 1s));
}

#ifdef REPRISE_MISUSE
void tell_a_stranger(const AddsUp& counter) {
  counter.tell(Unrelated{});  // error: ActorDoesNotTake<Unrelated, Add, Total>
}
void tell_a_name(const AddsUp& counter, const Unrelated& unrelated) {
  counter.tell(unrelated);  // error: ActorDoesNotTake<Unrelated, Add, Total>
}
void send_a_stranger(const AddsUp& counter) {
  counter.send(Unrelated{}, Clock::now() + 1s);  // error: ActorDoesNotTake<Unrelated, Add, Total>
}
void ask_a_stranger(const AddsUp& counter) {
  counter.ask(Unrelated{}, 1s);  // error: ActorDoesNotTake<Unrelated, Add, Total>
}
void ask_what_has_no_answer(const AddsUp& counter) {
  counter.ask(Add{1}, 1s);  // error: MessageHasNoReply<Add>
}
void wait_for_a_stranger(const AddsUp& counter) {
  counter.ask_blocking(Unrelated{}, 1s);  // error: ActorDoesNotTake<Unrelated, Add, Total>
}
void wait_for_what_has_no_answer(const AddsUp& counter) {
  counter.ask_blocking(Add{1}, 1s);  // error: MessageHasNoReply<Add>
}
#endif

}  // namespace
