// Asio: actors await operations and run on a host's io_context.

#include "runtime/interop/asio.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <future>

#include "runtime/interop/asio_executor.h"
#include "tests/runtime/probe.h"

namespace reprise::runtime {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

struct Loop {
  asio::io_context context;
  asio::executor_work_guard<asio::io_context::executor_type> work = asio::make_work_guard(context);
  std::thread thread{[this] { context.run(); }};

  ~Loop() {
    work.reset();
    context.stop();
    thread.join();
  }
};

struct Go {
  using Reply = int;
};
struct CancelReading {};

class Waiter : public Actor {
 public:
  using Accepts = Messages<Go, CancelReading>;
  static constexpr std::uint32_t kConcurrentHandlers = 2;
  explicit Waiter(asio::io_context& context) : timer_(context) {}

  Task<int> on(Go) {
    const std::thread::id executor = std::this_thread::get_id();
    timer_.expires_after(2ms);
    auto short_wait = timer_.async_wait(use_actor);
    const Result<void> waited = co_await short_wait;
    const bool on_executor = std::this_thread::get_id() == executor;

    timer_.expires_after(1h);
    auto limited = timer_.async_wait(use_actor.with(Clock::now() + 5ms));
    const Result<void> late = co_await limited;

    timer_.expires_after(1h);
    auto cancellable = timer_.async_wait(use_actor.with(TimePoint::max(), source_.token()));
    const Result<void> canceled = co_await cancellable;

    co_return waited.ok() && on_executor && !late.ok() && late.error().code == ErrorCode::kDeadline &&
            !canceled.ok() && canceled.error().code == ErrorCode::kCanceled
        ? 1
        : 0;
  }
  void on(CancelReading) { source_.cancel(); }

 private:
  asio::steady_timer timer_;
  CancelSource source_;
};

TEST(Asio, AnOperationResumesOnTheActorAndObeysItsLimits) {
  Loop loop;
  System system({.workers = 2});
  const ExecutorPtr executor = adopt_io_context(system, loop.context);
  for (const Placement& place : {Placement::pool(), Placement::own_thread(), Placement::on(executor)}) {
    auto waiter = system.spawn<Waiter>({.placement = place}, loop.context);
    std::thread canceler([&] {
      std::this_thread::sleep_for(30ms);
      waiter.tell(CancelReading{});
    });
    EXPECT_EQ(*waiter.ask_blocking(Go{}, 10s), 1);
    canceler.join();
  }
}

// -- echo over loopback, with both actors on the host's loop

class EchoSession : public Actor {
 public:
  using Accepts = Messages<>;
  explicit EchoSession(tcp::socket socket) : socket_(std::move(socket)) {}
  void on_start() { launch(serve()); }

 private:
  Task<void> serve() {
    while (true) {
      auto reading = socket_.async_read_some(asio::buffer(bytes_), use_actor);
      const Result<std::size_t> count = co_await reading;
      if (!count.ok()) break;  // kEnded: the client has disconnected
      auto writing = asio::async_write(socket_, asio::buffer(bytes_, *count), use_actor);
      const Result<std::size_t> written = co_await writing;
      if (!written.ok()) break;
    }
    stop();
  }
  tcp::socket socket_;
  std::array<char, 1024> bytes_{};
};

class Client : public Actor {
 public:
  using Accepts = Messages<Go>;
  Client(asio::io_context& context, tcp::endpoint server) : socket_(context), server_(std::move(server)) {}
  Task<int> on(Go) {
    auto connecting = socket_.async_connect(server_, use_actor);
    const Result<void> connected = co_await connecting;
    if (!connected.ok()) co_return -1;
    int echoed = 0;
    for (int i = 0; i < 100; ++i) {
      const std::string sent = "line " + std::to_string(i) + "\n";
      auto writing = asio::async_write(socket_, asio::buffer(sent), use_actor);
      const Result<std::size_t> written = co_await writing;
      std::string back(sent.size(), '?');
      auto reading = asio::async_read(socket_, asio::buffer(back), use_actor);
      const Result<std::size_t> read = co_await reading;
      if (written.ok() && read.ok() && back == sent) ++echoed;
    }
    socket_.close();
    co_return echoed;
  }

 private:
  tcp::socket socket_;
  tcp::endpoint server_;
};

TEST(Asio, ActorsOnTheHostsLoopServeSockets) {
  Loop loop;
  System system({.workers = 1});
  const ExecutorPtr executor = adopt_io_context(system, loop.context);
  tcp::acceptor acceptor(loop.context, {asio::ip::make_address("127.0.0.1"), 0});
  acceptor.async_accept([&](const boost::system::error_code& error, tcp::socket socket) {
    if (!error) system.spawn<EchoSession>({.placement = Placement::on(executor)}, std::move(socket));
  });
  auto client =
      system.spawn<Client>({.placement = Placement::on(executor)}, loop.context, acceptor.local_endpoint());
  EXPECT_EQ(*client.ask_blocking(Go{}, 20s), 100);
  EXPECT_TRUE(eventually([&] { return system.actor_count() == 1; })) << "the session ends with its client";
}

TEST(Asio, StoppingAnActorCancelsItsOperation) {
  Loop loop;
  System system({.workers = 1});
  const ExecutorPtr executor = adopt_io_context(system, loop.context);
  tcp::acceptor acceptor(loop.context, {asio::ip::make_address("127.0.0.1"), 0});
  tcp::socket silent(loop.context);
  acceptor.async_accept([&](const boost::system::error_code& error, tcp::socket socket) {
    if (!error) system.spawn<EchoSession>({.placement = Placement::on(executor)}, std::move(socket));
  });
  silent.connect(acceptor.local_endpoint());
  ASSERT_TRUE(eventually([&] { return system.actor_count() == 1; }));
  const StopReport report = system.stop();
  EXPECT_TRUE(report.complete);
  char byte = 0;
  boost::system::error_code error;
  asio::read(silent, asio::buffer(&byte, 1), error);
  EXPECT_EQ(error, asio::error::eof) << "its socket was closed";
}

struct Knock {
  using Reply = int;
};
class Doorman : public Actor {
 public:
  using Accepts = Messages<Knock>;
  Task<int> on(Knock) {
    auto pause = sleep_for(1ms);
    const Result<void> rested = co_await pause;
    co_return rested.ok() ? 1 : 0;
  }
};

TEST(Asio, AHostMayRunItsLoopItself) {
  asio::io_context context;
  System system({.workers = 1});
  const ExecutorPtr executor = adopt_io_context(system, context);
  auto ponger = system.spawn<Doorman>({.placement = Placement::on(executor)});
  std::atomic<int> answers{0};
  std::thread asks([&] {
    for (int i = 0; i < 20; ++i) answers += *ponger.ask_blocking(Knock{}, 10s);
  });
  while (answers < 20) {  // the host polls the loop itself
    context.restart();
    context.run_for(1ms);
  }
  asks.join();
  // The loop has ended; stop() must not need it.
  EXPECT_TRUE(system.stop(1s, 5s).complete);
}

struct AskOther {
  using Reply = int;
  RefOf<Doorman> other;
};
class LimitedAsker : public Actor {
 public:
  using Accepts = Messages<AskOther>;
  Task<int> on(AskOther ask) {
    auto asked = ask.other.ask(Knock{}, 1h);
    const Result<int> answer = co_await asked;
    co_return answer.ok() ? *answer : 0;
  }
};

TEST(Asio, ADeadlineThatWasNotNeededDoesNotKeepTheLoop) {
  asio::io_context context;
  System system({.workers = 1});
  const ExecutorPtr executor = adopt_io_context(system, context);
  auto asker = system.spawn<LimitedAsker>({.placement = Placement::on(executor)});
  asker.tell(AskOther{system.spawn<Doorman>()});
  auto work =
      std::make_unique<asio::executor_work_guard<asio::io_context::executor_type>>(context.get_executor());
  asio::steady_timer release(context, 50ms);
  release.async_wait([&](const boost::system::error_code&) { work.reset(); });
  const TimePoint begin = Clock::now();
  context.run();
  EXPECT_LT(Clock::now() - begin, 20s);
}

TEST(Asio, ALoopThatIsGoneDoesNotHinderAStop) {
  asio::io_context context;
  System system({.workers = 1});
  const ExecutorPtr executor = adopt_io_context(system, context);
  auto ponger = system.spawn<Doorman>({.placement = Placement::on(executor)});
  ponger.tell(Knock{});
  context.stop();
  const TimePoint begin = Clock::now();
  const StopReport report = system.stop(100ms, 5s);
  EXPECT_TRUE(report.complete);
  EXPECT_LT(Clock::now() - begin, 5s);
  EXPECT_TRUE(ponger.stopped());
}

// -- a deadline that passes while the executor is about to sleep

std::atomic<bool> pause_is_due{false};
asio::io_context* paused_loop = nullptr;

struct Nap {
  using Reply = int;
};
class Napper : public Actor {
 public:
  using Accepts = Messages<Nap>;
  Task<int> on(Nap) {
    auto pause = sleep_for(1ms);
    pause_is_due = true;
    const Result<void> rested = co_await pause;
    co_return rested.ok() ? 1 : 0;
  }
};

/// Returns after the loop's other thread has run the handlers of all timers that are due within 50 ms.
void pause_past_the_deadline() {
  if (!pause_is_due.exchange(false)) return;
  std::promise<void> passed;
  asio::steady_timer later(*paused_loop, 50ms);
  later.async_wait([&](const boost::system::error_code&) { passed.set_value(); });
  passed.get_future().wait();
}

TEST(Asio, ADeadlineBeforeTheSleepIsNotLost) {
  Loop loop;
  std::thread second([&] { loop.context.run(); });
  paused_loop = &loop.context;
  System system({.workers = 1});
  const ExecutorPtr executor = adopt_io_context(system, loop.context);
  auto napper = system.spawn<Napper>({.placement = Placement::on(executor)});
  Executor::before_sleep = pause_past_the_deadline;
  const Result<int> answer = napper.ask_blocking(Nap{}, 5s);
  Executor::before_sleep = nullptr;
  EXPECT_TRUE(answer.ok()) << "nothing woke the executor for its timer";
  EXPECT_FALSE(pause_is_due) << "the pause was made";
  EXPECT_TRUE(system.stop(100ms, 5s).complete);
  loop.work.reset();
  second.join();
}

}  // namespace
}  // namespace reprise::runtime
