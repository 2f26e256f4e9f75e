// Events: which waiters wake, and how waits end.

#include "runtime/event.h"

#include "tests/runtime/probe.h"

namespace reprise::runtime {
namespace {

struct WaitForIt {
  using Reply = std::string;  // "woken", or the error
  Duration patience;
};
struct Signal {};
struct GiveUp {};
struct ForgetWait {};

class EventWaiter : public Actor {
 public:
  using Accepts = Messages<WaitForIt, Signal, GiveUp, ForgetWait>;
  static constexpr std::uint32_t kConcurrentHandlers = 16;

  Task<std::string> on(WaitForIt wait) {
    auto waiting = event_->wait(deadline_after(wait.patience), given_up_.token());
    const Result<void> woken = co_await waiting;
    co_return woken.ok() ? "woken" : std::string(woken.error().describe());
  }
  void on(Signal) { event_->signal(); }
  void on(GiveUp) { given_up_.cancel(); }
  void on(ForgetWait) { event_.reset(); }

 private:
  std::unique_ptr<Event> event_ = std::make_unique<Event>();
  CancelSource given_up_;
};

class EventTest : public testing::Test {
 protected:
  std::thread ask(Duration patience, std::string& answer) {
    return std::thread([this, patience, &answer] {
      const Result<std::string> result = waiter_.ask_blocking(WaitForIt{patience}, 30s);
      answer = result.ok() ? *result : result.error().describe();
    });
  }
  void until_waiting(std::uint32_t count) {
    EXPECT_TRUE(eventually([&] { return system_.actors().front().suspended_handlers == count; }));
  }

  System system_{{.workers = 1}};
  RefOf<EventWaiter> waiter_ = system_.spawn<EventWaiter>();
};

TEST_F(EventTest, ASignalWakesAllWhoWait) {
  std::array<std::string, 5> answers;
  std::vector<std::thread> threads;
  for (std::string& answer : answers) threads.push_back(ask(20s, answer));
  until_waiting(5);
  waiter_.tell(Signal{});
  for (std::thread& thread : threads) thread.join();
  for (const std::string& answer : answers) EXPECT_EQ(answer, "woken");
}

TEST_F(EventTest, ASignalIsNotRemembered) {
  waiter_.tell(Signal{});  // same sender, so this message is handled after the signal
  const Result<std::string> answer = waiter_.ask_blocking(WaitForIt{20ms}, 30s);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(*answer, Error{ErrorCode::kDeadline}.describe());
}

TEST_F(EventTest, CancellationAndTheEventsEndAreTold) {
  std::string canceled;
  std::thread first = ask(20s, canceled);
  until_waiting(1);
  waiter_.tell(GiveUp{});
  first.join();
  EXPECT_EQ(canceled, Error{ErrorCode::kCanceled}.describe());
  std::string at_once;
  std::thread second = ask(20s, at_once);
  second.join();
  EXPECT_EQ(at_once, Error{ErrorCode::kCanceled}.describe());
}

TEST_F(EventTest, AWaitMayOutliveItsEvent) {
  std::string answer;
  std::thread waiting = ask(20s, answer);
  until_waiting(1);
  waiter_.tell(ForgetWait{});
  waiter_.tell(GiveUp{});
  waiting.join();
  EXPECT_EQ(answer, Error{ErrorCode::kCanceled}.describe());
}

TEST_F(EventTest, AnActorMayEndWhileItsCoroutinesWait) {
  std::string answer;
  std::thread waiting = ask(20s, answer);
  until_waiting(1);
  waiter_.stop();
  waiting.join();
  EXPECT_NE(answer, "woken");
}

}  // namespace
}  // namespace reprise::runtime
