// The three overload policies of a mailbox with capacity four, when messages come faster than the actor takes
// them. Sender and worker share an executor, which runs one turn at a time, so no message is taken during the
// sender's turn.

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "runtime/system.h"

using namespace reprise::runtime;
using namespace std::chrono_literals;

namespace {

using Numbers = std::vector<int>;

struct Job {
  int number;
};

template <Overload kPolicy>
class Worker : public Actor {
 public:
  using Accepts = Messages<Job>;
  static constexpr MailboxSpec kMailbox{.capacity = 4, .overload = kPolicy};
  explicit Worker(Numbers& done) : done_(done) {}
  void on(Job job) { done_.push_back(job.number); }

 private:
  Numbers& done_;
};

struct TellSix {
  using Reply = Numbers;  // numbers of the refused jobs
};
struct SendSix {
  using Reply = Numbers;
};

template <Overload kPolicy>
class Sender : public Actor {
 public:
  using Accepts = Messages<TellSix, SendSix>;
  explicit Sender(Numbers& done) : done_(done) {}
  void on_start() { worker_ = spawn<Worker<kPolicy>>({.placement = Placement::near()}, done_); }

  Numbers on(TellSix) {
    Numbers refused;
    for (int number = 0; number < 6; ++number) {
      if (worker_.tell(Job{number}) == SendStatus::kMailboxFull) refused.push_back(number);  // never waits
    }
    return refused;
  }
  Task<Numbers> on(SendSix) {
    Numbers refused;
    for (int number = 0; number < 6; ++number) {
      auto sending = worker_.send(Job{number}, Clock::now() + 20s);
      const Result<void> sent = co_await sending;  // with kSuspend: suspended until there is space
      if (!sent) refused.push_back(number);
    }
    co_return refused;
  }

 private:
  Numbers& done_;
  Ref<Job> worker_;
};

std::string list(const Numbers& numbers) {
  std::string text;
  for (int number : numbers) text.append({' ', static_cast<char>('0' + number)});
  return text;
}

template <Overload kPolicy, class Question>
bool run(const char* what, const Numbers& refused_expected, const Numbers& done_expected) {
  Numbers done;
  System system;
  const Result<Numbers> refused = system.spawn<Sender<kPolicy>>({}, done).ask_blocking(Question{}, 20s);
  system.stop();  // completes the waiting jobs; afterwards main may read `done`
  if (!refused) return std::fprintf(stderr, "no answer: %s\n", refused.error().describe().c_str()), false;
  std::printf("%s: refused%s; done%s\n", what, list(*refused).c_str(), list(done).c_str());
  return *refused == refused_expected && done == done_expected;
}

}  // namespace

int main() {
  int wrong = 0;
  wrong += !run<Overload::kReject, TellSix>("reject", {4, 5}, {0, 1, 2, 3});
  wrong += !run<Overload::kDropOldest, TellSix>("drop oldest", {}, {2, 3, 4, 5});
  wrong += !run<Overload::kSuspend, TellSix>("suspend, told", {4, 5}, {0, 1, 2, 3});
  wrong += !run<Overload::kSuspend, SendSix>("suspend, sent", {}, {0, 1, 2, 3, 4, 5});
  if (wrong != 0) std::fprintf(stderr, "%d of 4 not as it should be\n", wrong);
  return wrong;
}
