// CAF: the benchmarks between two actors or around a ring, latency, memory, and the program's entry.
#include "tools/lab/bench/savina_caf.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

namespace reprise::bench {
namespace {

using caf::actor;
using caf::actor_cast;
using caf::actor_config;
using caf::behavior;
using caf::event_based_actor;

// ---- pingpong ----

class Pong : public event_based_actor {
 public:
  Pong(actor_config& config, actor ping) : event_based_actor(config), ping_(std::move(ping)) {}

  behavior make_behavior() override {
    return {[this](std::uint64_t n) { send(ping_, n); }};
  }

  void on_exit() override { ping_ = nullptr; }

 private:
  actor ping_;
};

class Ping : public event_based_actor {
 public:
  Ping(actor_config& config, const PingPong& bench, Outcome& outcome)
      : event_based_actor(config), round_trips_(bench.round_trips), outcome_(outcome) {}

  behavior make_behavior() override {
    outcome_.start();
    pong_ = spawn<Pong>(actor_cast<actor>(this));
    send(pong_, std::uint64_t{1});
    return {[this](std::uint64_t n) {
      sum_ += n;
      if (n < round_trips_) {
        send(pong_, n + 1);
        return;
      }
      outcome_.stop(sum_);
      send_exit(pong_, caf::exit_reason::user_shutdown);
      quit();
    }};
  }

  void on_exit() override { pong_ = nullptr; }

 private:
  std::uint64_t round_trips_;
  Outcome& outcome_;
  actor pong_;
  std::uint64_t sum_ = 0;
};

// ---- counting ----

// Increment: uint32_t. Retrieve: uint64_t.
class Counter : public event_based_actor {
 public:
  explicit Counter(actor_config& config) : event_based_actor(config) {}

  behavior make_behavior() override {
    return {
        [this](std::uint32_t) { ++count_; },
        [this](std::uint64_t) {
          send(actor_cast<actor>(current_sender()), count_);
          quit();
        },
    };
  }

 private:
  std::uint64_t count_ = 0;
};

class Producer : public event_based_actor {
 public:
  Producer(actor_config& config, const Counting& bench, Outcome& outcome)
      : event_based_actor(config), increments_(bench.increments), outcome_(outcome) {}

  behavior make_behavior() override {
    outcome_.start();
    actor counter = spawn<Counter>();
    for (std::uint64_t i = 0; i < increments_; ++i) send(counter, std::uint32_t{1});
    send(counter, std::uint64_t{0});
    return {[this](std::uint64_t total) {
      outcome_.stop(total);
      quit();
    }};
  }

 private:
  std::uint64_t increments_;
  Outcome& outcome_;
};

// ---- threadring ----

// Token: uint64_t. Successor: actor. Exit around the ring: uint32_t, actors yet to end.
class RingMember : public event_based_actor {
 public:
  RingMember(actor_config& config, std::uint32_t index, actor next, std::uint64_t hops, Outcome& outcome)
      : event_based_actor(config), index_(index), next_(std::move(next)), hops_(hops), outcome_(outcome) {}

  behavior make_behavior() override {
    return {
        [this](std::uint64_t hops_left) {
          if (hops_left > 0) {
            send(next_, hops_left - 1);
            return;
          }
          outcome_.stop(hops_ * 1000 + index_);
          send(next_, ThreadRing::kActors);
        },
        [this](std::uint32_t left) {
          if (left > 1) send(next_, left - 1);
          quit();
        },
        [this](actor next) { next_ = std::move(next); },
    };
  }

  void on_exit() override { next_ = nullptr; }

 private:
  std::uint32_t index_;
  actor next_;
  std::uint64_t hops_;
  Outcome& outcome_;
};

class RingMain : public event_based_actor {
 public:
  RingMain(actor_config& config, const ThreadRing& bench, Outcome& outcome)
      : event_based_actor(config), hops_(bench.hops), outcome_(outcome) {}

  behavior make_behavior() override {
    outcome_.start();
    actor last = spawn<RingMember>(ThreadRing::kActors - 1, actor{}, hops_, outcome_);
    actor first = last;
    for (std::uint32_t i = ThreadRing::kActors - 1; i-- > 0;)
      first = spawn<RingMember>(i, first, hops_, outcome_);
    send(last, first);
    send(first, hops_);
    return {};  // no behaviour: the actor ends
  }

 private:
  std::uint64_t hops_;
  Outcome& outcome_;
};

// ---- ask ----

class Answerer : public event_based_actor {
 public:
  explicit Answerer(actor_config& config) : event_based_actor(config) {}

  behavior make_behavior() override {
    return {[](std::uint64_t n) { return n + 1; }};
  }
};

class Asker : public event_based_actor {
 public:
  Asker(actor_config& config, const Ask& bench, std::vector<std::uint32_t>& nanoseconds, Outcome& outcome)
      : event_based_actor(config), asks_(bench.asks), nanoseconds_(nanoseconds), outcome_(outcome) {}

  behavior make_behavior() override {
    outcome_.start();
    answerer_ = spawn<Answerer>();
    ask(1);
    return {[](caf::unit_t) {}};  // keeps the actor alive between answers
  }

  void on_exit() override { answerer_ = nullptr; }

 private:
  void ask(std::uint64_t n) {
    sent_ = std::chrono::steady_clock::now();
    request(answerer_, caf::infinite, n).await([this, n](std::uint64_t answer) {
      auto taken = std::chrono::steady_clock::now() - sent_;
      nanoseconds_.push_back(static_cast<std::uint32_t>(std::chrono::nanoseconds(taken).count()));
      sum_ += answer;
      if (n < asks_) {
        ask(n + 1);
        return;
      }
      outcome_.stop(sum_);
      send_exit(answerer_, caf::exit_reason::user_shutdown);
      quit();
    });
  }

  std::uint64_t asks_;
  std::vector<std::uint32_t>& nanoseconds_;
  Outcome& outcome_;
  actor answerer_;
  std::chrono::steady_clock::time_point sent_;
  std::uint64_t sum_ = 0;
};

// ---- idle ----

class Idler : public event_based_actor {
 public:
  Idler(actor_config& config, Tally& started, Tally& poked)
      : event_based_actor(config), started_(started), poked_(poked) {}

  behavior make_behavior() override {
    started_.add();
    return {[this](std::uint64_t n) {
      sum_ += n;
      poked_.add();
    }};
  }

 private:
  Tally& started_;
  Tally& poked_;
  std::uint64_t sum_ = 0;
};

}  // namespace

Result CafRuntime::run(const PingPong& bench) {
  Outcome outcome;
  return run_main<Ping>(outcome, bench, outcome);
}

Result CafRuntime::run(const Counting& bench) {
  Outcome outcome;
  return run_main<Producer>(outcome, bench, outcome);
}

Result CafRuntime::run(const ThreadRing& bench) {
  Outcome outcome;
  return run_main<RingMain>(outcome, bench, outcome);
}

Result CafRuntime::run(const Ask& bench) {
  Outcome outcome;
  std::vector<std::uint32_t> nanoseconds;
  nanoseconds.reserve(bench.asks);
  Result result = run_main<Asker>(outcome, bench, nanoseconds, outcome);
  add_latencies(result, std::move(nanoseconds));
  return result;
}

Result CafRuntime::run(const Idle& bench) {
  Outcome outcome;
  outcome.start();
  Tally started, poked;
  std::vector<actor> actors(bench.actors);
  double before = resident_bytes();
  for (std::uint64_t i = 0; i < bench.actors; ++i) {
    actors[i] = system_.spawn<Idler>(started, poked);
    if ((i + 1) % Idle::kBatch == 0) started.wait_for(i + 1);
  }
  started.wait_for(bench.actors);
  double idle = resident_bytes();
  for (std::uint64_t i = 0; i < bench.actors; ++i) {
    caf::anon_send(actors[i], std::uint64_t{1});
    if ((i + 1) % Idle::kBatch == 0) poked.wait_for(i + 1);
  }
  poked.wait_for(bench.actors);
  double after = resident_bytes();
  outcome.stop(poked.count());
  actors.clear();  // an actor that nobody refers to ends
  system_.await_all_actors_done();

  Result result = outcome.wait();
  auto count = static_cast<double>(bench.actors);
  result.metrics.emplace_back("bytes_idle", (idle - before) / count);
  result.metrics.emplace_back("bytes_after_message", (after - before) / count);
  return result;
}

}  // namespace reprise::bench

int main(int argc, char** argv) {
  return reprise::bench::bench_main<reprise::bench::CafRuntime>(argc, argv);
}
