// Mailbox stress test: many producers (actors and plain threads; on pool workers, own threads and an
// io_context) send numbered messages to many consumers. Each must arrive once, in its sender's order. Runs
// for REPRISE_STRESS_SECONDS (default 2).

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdlib>
#include <random>

#include "runtime/interop/asio_executor.h"
#include "tests/runtime/probe.h"

namespace reprise::runtime {
namespace {

struct Numbered {
  std::uint32_t sender;
  std::uint64_t number;
};
struct Audit {
  using Reply = std::uint64_t;
};

class Consumer : public Actor {
 public:
  using Accepts = Messages<Numbered, Audit>;
  static constexpr MailboxSpec kMailbox{.capacity = 512, .overload = Overload::kSuspend};
  void on(Numbered numbered) {
    if (numbered.sender >= next_.size()) next_.resize(numbered.sender + 1, 0);
    if (numbered.number != next_[numbered.sender]) ++wrong_;
    next_[numbered.sender] = numbered.number + 1;
    ++received_;
  }
  std::uint64_t on(Audit) { return wrong_ == 0 ? received_ : ~std::uint64_t{0}; }

 private:
  std::vector<std::uint64_t> next_;
  std::uint64_t received_ = 0;
  std::uint64_t wrong_ = 0;
};

using ConsumerRef = RefOf<Consumer>;

struct Produce {
  using Reply = std::vector<std::uint64_t>;  // messages sent to each consumer
  std::shared_ptr<std::atomic<bool>> enough;
};

class Producer : public Actor {
 public:
  using Accepts = Messages<Produce>;
  Producer(std::uint32_t number, std::vector<ConsumerRef> consumers)
      : number_(number), consumers_(std::move(consumers)), sent_(consumers_.size(), 0), random_(number) {}

  Task<std::vector<std::uint64_t>> on(Produce produce) {
    while (!*produce.enough) {
      const std::size_t to = random_() % consumers_.size();
      // Bursts of tell() must keep their order with suspended sends.
      for (std::uint32_t burst = random_() % 8; burst > 0; --burst) {
        if (consumers_[to].tell(Numbered{number_, sent_[to]}) == SendStatus::kSent) ++sent_[to];
      }
      auto sending = consumers_[to].send(Numbered{number_, sent_[to]});
      const Result<void> sent = co_await sending;
      if (sent.ok()) ++sent_[to];
    }
    co_return sent_;
  }

 private:
  std::uint32_t number_;
  std::vector<ConsumerRef> consumers_;
  std::vector<std::uint64_t> sent_;
  std::mt19937 random_;
};

TEST(Order, EveryMessageArrivesOnceAndInItsSendersOrder) {
  const char* wished = std::getenv("REPRISE_STRESS_SECONDS");
  const auto duration = std::chrono::milliseconds(wished != nullptr ? std::atoi(wished) * 1000 : 2000);

  boost::asio::io_context loop;
  auto work = boost::asio::make_work_guard(loop);
  System system({.workers = 3});
  const ExecutorPtr executor = adopt_io_context(system, loop);
  std::vector<std::thread> loop_threads;  // two threads, so turns change threads
  for (int i = 0; i < 2; ++i) loop_threads.emplace_back([&loop] { loop.run(); });

  const auto place = [&](int i) {
    switch (i % 4) {
      case 0:
        return Placement::own_thread();
      case 1:
        return Placement::on(executor);
      default:
        return Placement::pool();
    }
  };
  std::vector<ConsumerRef> consumers;
  for (int i = 0; i < 8; ++i) consumers.push_back(system.spawn<Consumer>({.placement = place(i)}));

  constexpr std::uint32_t kProducers = 16;
  constexpr std::uint32_t kThreads = 3;
  const auto enough = std::make_shared<std::atomic<bool>>(false);
  std::vector<std::vector<std::uint64_t>> sent(kProducers + kThreads);
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < kProducers; ++i) {
    auto producer = system.spawn<Producer>({.placement = place(static_cast<int>(i))}, i, consumers);
    threads.emplace_back([&, i, producer] {
      Result<std::vector<std::uint64_t>> counts = producer.ask_blocking(Produce{enough}, duration + 60s);
      if (counts.ok()) sent[i] = *counts;
    });
  }
  for (std::uint32_t i = kProducers; i < kProducers + kThreads; ++i) {
    threads.emplace_back([&, i] {
      std::vector<std::uint64_t> counts(consumers.size(), 0);
      std::mt19937 random(i);
      while (!*enough) {
        const std::size_t to = random() % consumers.size();
        if (consumers[to].tell(Numbered{i, counts[to]}) == SendStatus::kSent) ++counts[to];
      }
      sent[i] = counts;
    });
  }
  std::this_thread::sleep_for(duration);
  *enough = true;
  for (std::thread& thread : threads) thread.join();

  std::uint64_t total = 0;
  for (std::size_t to = 0; to < consumers.size(); ++to) {
    std::uint64_t expected = 0;
    for (const std::vector<std::uint64_t>& counts : sent) {
      ASSERT_EQ(counts.size(), consumers.size()) << "a producer did not finish";
      expected += counts[to];
    }
    std::uint64_t received = 0;
    EXPECT_TRUE(
        eventually([&] { return (received = *consumers[to].ask_blocking(Audit{}, 20s)) >= expected; }));
    EXPECT_EQ(received, expected);
    total += received;
  }
  EXPECT_GT(total, 1000U);
  RecordProperty("messages", std::to_string(total));
  work.reset();
  const StopReport report = system.stop();
  EXPECT_TRUE(report.complete);
  for (std::thread& thread : loop_threads) thread.join();
}

// Wake-ups: repeatedly sends one message to an executor that has just begun to sleep.

struct Ping {
  using Reply = int;
};
class Ponger : public Actor {
 public:
  using Accepts = Messages<Ping>;
  int on(Ping) { return 1; }
};

TEST(Order, NoWakeUpIsLost) {
  System system({.workers = 2});
  auto ponger = system.spawn<Ponger>();
  std::mt19937 random(3);
  for (int i = 0; i < 3000; ++i) {
    // Pauses near the time for which an idle worker spins before it sleeps.
    const TimePoint until = Clock::now() + std::chrono::microseconds(random() % 40);
    while (Clock::now() < until) {
    }
    ASSERT_TRUE(ponger.ask_blocking(Ping{}, 20s).ok());
  }
}

}  // namespace
}  // namespace reprise::runtime
