// The benchmarks of savina.h on CAF 0.17. All actors are event-based and class-based; handlers capture only
// `this`, so a message costs only the allocation of its mailbox element. Messages consist of CAF's built-in
// integer types, which it matches by number and which need no registration; each kind of message has its own
// type, the most frequent first.

#include <caf/all.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tools/lab/bench/savina.h"

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
    return {};  // no behavior: the actor ends
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

// ---- chameneos ----

// Meet: uint32_t, the other is the sender. Change: uint16_t. Fade: uint8_t.
class Creature : public event_based_actor {
 public:
  Creature(actor_config& config, actor mall, Color color)
      : event_based_actor(config), mall_(std::move(mall)), color_(color) {}

  behavior make_behavior() override {
    go_to_mall();
    return {
        [this](std::uint32_t other) {
          color_ = complement(color_, static_cast<Color>(other));
          ++met_;
          send(actor_cast<actor>(current_sender()), static_cast<std::uint16_t>(color_));
          go_to_mall();
        },
        [this](std::uint16_t color) {
          color_ = static_cast<Color>(color);
          ++met_;
          go_to_mall();
        },
        [this](std::uint8_t) {
          send(mall_, met_);
          quit();
        },
    };
  }

  void on_exit() override { mall_ = nullptr; }

 private:
  void go_to_mall() { send(mall_, static_cast<std::uint32_t>(color_)); }

  actor mall_;
  Color color_;
  std::uint64_t met_ = 0;
};

// Meet: uint32_t. Met: uint64_t.
class Mall : public event_based_actor {
 public:
  Mall(actor_config& config, const Chameneos& bench, Outcome& outcome)
      : event_based_actor(config), meetings_left_(bench.meetings), outcome_(outcome) {}

  behavior make_behavior() override {
    outcome_.start();
    for (std::uint32_t i = 0; i < Chameneos::kCreatures; ++i) {
      spawn<Creature>(actor_cast<actor>(this), static_cast<Color>(i % 3));
    }
    return {
        [this](std::uint32_t color) {
          if (meetings_left_ == 0) {
            send(actor_cast<actor>(current_sender()), std::uint8_t{0});
          } else if (!waiting_) {
            waiting_ = actor_cast<actor>(current_sender());
          } else {
            --meetings_left_;
            delegate(waiting_, color);  // keeps the sender
            waiting_ = nullptr;
          }
        },
        [this](std::uint64_t met) {
          sum_ += met;
          if (++faded_ < Chameneos::kCreatures) return;
          outcome_.stop(sum_);
          quit();
        },
    };
  }

 private:
  std::uint64_t meetings_left_;
  Outcome& outcome_;
  actor waiting_;
  std::uint64_t sum_ = 0;
  std::uint32_t faded_ = 0;
};

// ---- big ----

// Ping: uint32_t. Pong: uint16_t. Peers: vector of actors. Start: uint8_t.
class BigActor : public event_based_actor {
 public:
  BigActor(actor_config& config, std::uint32_t index, std::uint64_t pings, actor sink)
      : event_based_actor(config),
        index_(index),
        pings_left_(pings),
        sink_(std::move(sink)),
        random_(index) {}

  behavior make_behavior() override {
    return {
        [this](std::uint32_t from) { send(peers_[from], static_cast<std::uint16_t>(index_)); },
        [this](std::uint16_t from) {
          sum_ += from + 1u;
          if (--pings_left_ > 0) {
            ping();
          } else {
            send(sink_, sum_);
          }
        },
        [this](const std::vector<actor>& peers) { peers_ = peers; },
        [this](std::uint8_t) { ping(); },
    };
  }

  void on_exit() override {
    peers_.clear();
    sink_ = nullptr;
  }

 private:
  void ping() { send(peers_[Big::target(random_, index_)], index_); }

  std::uint32_t index_;
  std::uint64_t pings_left_;
  actor sink_;
  XorShift random_;
  std::vector<actor> peers_;
  std::uint64_t sum_ = 0;
};

// Done: uint64_t.
class Sink : public event_based_actor {
 public:
  Sink(actor_config& config, const Big& bench, Outcome& outcome)
      : event_based_actor(config), pings_(bench.pings), outcome_(outcome) {}

  behavior make_behavior() override {
    outcome_.start();
    for (std::uint32_t i = 0; i < Big::kActors; ++i) {
      actors_.push_back(spawn<BigActor>(i, pings_, actor_cast<actor>(this)));
    }
    for (const actor& each : actors_) send(each, actors_);
    for (const actor& each : actors_) send(each, std::uint8_t{0});
    return {[this](std::uint64_t sum) {
      sum_ += sum;
      if (++done_ < Big::kActors) return;
      outcome_.stop(sum_);
      for (const actor& each : actors_) send_exit(each, caf::exit_reason::user_shutdown);
      quit();
    }};
  }

  void on_exit() override { actors_.clear(); }

 private:
  std::uint64_t pings_;
  Outcome& outcome_;
  std::vector<actor> actors_;
  std::uint64_t sum_ = 0;
  std::uint32_t done_ = 0;
};

// ---- fjthroughput ----

class ThroughputWorker : public event_based_actor {
 public:
  ThroughputWorker(actor_config& config, std::uint64_t messages, actor main)
      : event_based_actor(config), messages_left_(messages), main_(std::move(main)) {}

  behavior make_behavior() override {
    return {[this](double theta) {
      sum_ += tiny_work(theta);
      if (--messages_left_ > 0) return;
      send(main_, sum_);
      quit();
    }};
  }

  void on_exit() override { main_ = nullptr; }

 private:
  std::uint64_t messages_left_;
  actor main_;
  std::uint64_t sum_ = 0;
};

class ThroughputMain : public event_based_actor {
 public:
  ThroughputMain(actor_config& config, const ForkJoinThroughput& bench, Outcome& outcome)
      : event_based_actor(config), per_worker_(bench.per_worker), outcome_(outcome) {}

  behavior make_behavior() override {
    outcome_.start();
    std::vector<actor> workers;
    for (std::uint32_t i = 0; i < ForkJoinThroughput::kWorkers; ++i) {
      workers.push_back(spawn<ThroughputWorker>(per_worker_, actor_cast<actor>(this)));
    }
    for (std::uint64_t m = 0; m < per_worker_; ++m) {
      for (const actor& worker : workers) send(worker, theta_of(m));
    }
    return {[this](std::uint64_t sum) {
      sum_ += sum;
      if (++done_ < ForkJoinThroughput::kWorkers) return;
      outcome_.stop(sum_);
      quit();
    }};
  }

 private:
  std::uint64_t per_worker_;
  Outcome& outcome_;
  std::uint64_t sum_ = 0;
  std::uint32_t done_ = 0;
};

// ---- fjcreate ----

class ShortLived : public event_based_actor {
 public:
  ShortLived(actor_config& config, Join& join, Outcome& outcome)
      : event_based_actor(config), join_(join), outcome_(outcome) {}

  ~ShortLived() override {
    if (join_.leave(result_)) outcome_.stop(join_.sum());
  }

  behavior make_behavior() override {
    return {[this](double theta) {
      result_ = tiny_work(theta);
      quit();
    }};
  }

 private:
  Join& join_;
  Outcome& outcome_;
  std::uint64_t result_ = 0;
};

// ---- concdict ----

// Read: uint64_t. Write: two uint64_t.
class Dictionary : public event_based_actor {
 public:
  Dictionary(actor_config& config, ConcurrentDictionary::Map map)
      : event_based_actor(config), map_(std::move(map)) {}

  behavior make_behavior() override {
    return {
        [this](std::uint64_t key) { answer(map_.find(key)->second); },
        [this](std::uint64_t key, std::uint64_t value) {
          map_[key] = value;
          answer(value);
        },
    };
  }

 private:
  void answer(std::uint64_t value) { send(actor_cast<actor>(current_sender()), value); }

  ConcurrentDictionary::Map map_;
};

class DictionaryWorker : public event_based_actor {
 public:
  DictionaryWorker(actor_config& config, std::uint32_t index, std::uint64_t requests, actor dictionary,
                   actor main)
      : event_based_actor(config),
        random_(index),
        requests_left_(requests),
        dictionary_(std::move(dictionary)),
        main_(std::move(main)) {}

  behavior make_behavior() override {
    ask();
    return {[this](std::uint64_t value) {
      sum_ += value;
      if (--requests_left_ > 0) {
        ask();
        return;
      }
      send(main_, sum_);
      quit();
    }};
  }

  void on_exit() override {
    dictionary_ = nullptr;
    main_ = nullptr;
  }

 private:
  void ask() {
    auto request = ConcurrentDictionary::next(random_);
    if (request.write) {
      send(dictionary_, request.key, ConcurrentDictionary::value_of(request.key));
    } else {
      send(dictionary_, request.key);
    }
  }

  XorShift random_;
  std::uint64_t requests_left_;
  actor dictionary_;
  actor main_;
  std::uint64_t sum_ = 0;
};

class DictionaryMain : public event_based_actor {
 public:
  DictionaryMain(actor_config& config, const ConcurrentDictionary& bench, ConcurrentDictionary::Map map,
                 Outcome& outcome)
      : event_based_actor(config), requests_(bench.requests), map_(std::move(map)), outcome_(outcome) {}

  behavior make_behavior() override {
    outcome_.start();
    dictionary_ = spawn<Dictionary>(std::move(map_));
    for (std::uint32_t i = 0; i < ConcurrentDictionary::kWorkers; ++i) {
      spawn<DictionaryWorker>(i, requests_, dictionary_, actor_cast<actor>(this));
    }
    return {[this](std::uint64_t sum) {
      sum_ += sum;
      if (++done_ < ConcurrentDictionary::kWorkers) return;
      outcome_.stop(sum_);
      send_exit(dictionary_, caf::exit_reason::user_shutdown);
      quit();
    }};
  }

  void on_exit() override { dictionary_ = nullptr; }

 private:
  std::uint64_t requests_;
  ConcurrentDictionary::Map map_;
  Outcome& outcome_;
  actor dictionary_;
  std::uint64_t sum_ = 0;
  std::uint32_t done_ = 0;
};

class CafRuntime {
 public:
  static constexpr const char* kName = "caf";

  explicit CafRuntime(int threads) : config_(threads), system_(config_) {}

  Result run(const PingPong& bench) {
    Outcome outcome;
    return run_main<Ping>(outcome, bench, outcome);
  }

  Result run(const Counting& bench) {
    Outcome outcome;
    return run_main<Producer>(outcome, bench, outcome);
  }

  Result run(const ThreadRing& bench) {
    Outcome outcome;
    return run_main<RingMain>(outcome, bench, outcome);
  }

  Result run(const Ask& bench) {
    Outcome outcome;
    std::vector<std::uint32_t> nanoseconds;
    nanoseconds.reserve(bench.asks);
    Result result = run_main<Asker>(outcome, bench, nanoseconds, outcome);
    add_latencies(result, std::move(nanoseconds));
    return result;
  }

  Result run(const Idle& bench) {
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
    actors.clear();  // an unreferenced actor ends
    system_.await_all_actors_done();

    Result result = outcome.wait();
    auto count = static_cast<double>(bench.actors);
    result.metrics.emplace_back("bytes_idle", (idle - before) / count);
    result.metrics.emplace_back("bytes_after_message", (after - before) / count);
    return result;
  }

  Result run(const Chameneos& bench) {
    Outcome outcome;
    return run_main<Mall>(outcome, bench, outcome);
  }

  Result run(const Big& bench) {
    Outcome outcome;
    return run_main<Sink>(outcome, bench, outcome);
  }

  Result run(const ForkJoinThroughput& bench) {
    Outcome outcome;
    return run_main<ThroughputMain>(outcome, bench, outcome);
  }

  Result run(const ForkJoinCreate& bench) {
    Outcome outcome;
    Join join(bench.actors);
    outcome.start();
    for (std::uint64_t i = 0; i < bench.actors; ++i) {
      // Scheduled at its first message and hidden from the count of running actors; Join counts it.
      caf::anon_send(system_.spawn<ShortLived, caf::lazy_init + caf::hidden>(join, outcome), theta_of(i));
    }
    return outcome.wait();
  }

  Result run(const ConcurrentDictionary& bench) {
    Outcome outcome;
    return run_main<DictionaryMain>(outcome, bench, ConcurrentDictionary::filled(), outcome);
  }

 private:
  // Uses CAF's default scheduling: work stealing, no limit on messages per turn.
  struct Config : caf::actor_system_config {
    explicit Config(int threads) { set("scheduler.max-threads", static_cast<std::size_t>(threads)); }
  };

  /// Spawns the actor `main` and waits until the run is over and all actors have ended.
  template <class Main, class... Args>
  Result run_main(Outcome& outcome, Args&&... args) {
    system_.spawn<Main>(std::forward<Args>(args)...);
    Result result = outcome.wait();
    system_.await_all_actors_done();
    return result;
  }

  Config config_;
  caf::actor_system system_;
};

}  // namespace

}  // namespace reprise::bench

int main(int argc, char** argv) {
  return reprise::bench::bench_main<reprise::bench::CafRuntime>(argc, argv);
}
