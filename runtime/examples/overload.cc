// What happens when messages come faster than an actor takes them: the three overload policies of a mailbox,
// here with room for four. The worker is held up in on_start until the gate opens, so that the outcome is
// always the same.

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "runtime/stream.h"
#include "runtime/system.h"

using namespace reprise::runtime;
using namespace std::chrono_literals;

namespace {

struct Job {
  int number;
};

template <Overload kPolicy>
class Worker : public Actor {
 public:
  using Accepts = Messages<Job>;
  static constexpr MailboxSpec kMailbox{.capacity = 4, .overload = kPolicy};
  Worker(StreamReader<int> gate, std::vector<int>& done) : gate_(std::move(gate)), done_(done) {}

  Task<void> on_start() {  // messages wait until it has ended
    auto waiting = gate_.next();
    const Result<int> opened = co_await waiting;
  }
  void on(Job job) { done_.push_back(job.number); }

 private:
  StreamReader<int> gate_;
  std::vector<int>& done_;
};

/// An actor, unlike a plain thread, can wait for room.
struct SendSix {
  using Reply = std::vector<int>;  // those that were given up
  Ref<Job> to;
  StreamWriter<int> gate;
};
class Sender : public Actor {
 public:
  using Accepts = Messages<SendSix>;
  Task<std::vector<int>> on(SendSix task) {
    std::vector<int> given_up;
    for (int number = 0; number < 6; ++number) {
      if (number == 5) task.gate.close();
      // Suspended while there is no room: for a while at the fifth, for as long as it takes at the others.
      auto sending = task.to.send(Job{number}, number == 4 ? Clock::now() + 50ms : TimePoint::max());
      const Result<void> sent = co_await sending;
      if (!sent) given_up.push_back(number);
    }
    co_return given_up;
  }
};

std::string list(const std::vector<int>& numbers) {
  std::string text;
  for (int number : numbers) text.append({' ', static_cast<char>('0' + number)});
  return text;
}

template <Overload kPolicy>
bool run(const char* policy, const std::vector<int>& refused_expected,
         const std::vector<int>& done_expected) {
  std::vector<int> refused, done;
  auto [gate, passage] = make_stream<int>(1);
  System system;
  const auto worker = system.spawn<Worker<kPolicy>>({}, std::move(passage), done);
  if (kPolicy == Overload::kSuspend) {
    refused = *system.spawn<Sender>().ask_blocking(SendSix{worker, std::move(gate)}, 20s);
  } else {
    for (int number = 0; number < 6; ++number) {
      if (worker.tell(Job{number}) == SendStatus::kMailboxFull) refused.push_back(number);
    }
    gate.close();
  }
  system.stop();  // works off what waits; then `done` is ours again

  std::printf("%s: refused%s; done%s\n", policy, list(refused).c_str(), list(done).c_str());
  return refused == refused_expected && done == done_expected;
}

}  // namespace

int main() {
  int wrong = 0;
  wrong += !run<Overload::kReject>("reject", {4, 5}, {0, 1, 2, 3});
  wrong += !run<Overload::kDropOldest>("drop oldest", {}, {2, 3, 4, 5});
  wrong += !run<Overload::kSuspend>("suspend", {4}, {0, 1, 2, 3, 5});
  if (wrong != 0) std::fprintf(stderr, "%d of 3 not as it should be\n", wrong);
  return wrong;
}
