// CAF: the benchmarks with many actors.
#include <cstdint>
#include <utility>
#include <vector>

#include "tools/lab/bench/savina_caf.h"

namespace reprise::bench {
namespace {

using caf::actor;
using caf::actor_cast;
using caf::actor_config;
using caf::behavior;
using caf::event_based_actor;

// ---- chameneos ----

// Meet: uint32_t, the other is the sender. Change: uint16_t. Fade: uint8_t.
class Creature : public event_based_actor {
 public:
  Creature(actor_config& config, actor mall, Colour colour)
      : event_based_actor(config), mall_(std::move(mall)), colour_(colour) {}

  behavior make_behavior() override {
    go_to_mall();
    return {
        [this](std::uint32_t other) {
          colour_ = complement(colour_, static_cast<Colour>(other));
          ++met_;
          send(actor_cast<actor>(current_sender()), static_cast<std::uint16_t>(colour_));
          go_to_mall();
        },
        [this](std::uint16_t colour) {
          colour_ = static_cast<Colour>(colour);
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
  void go_to_mall() { send(mall_, static_cast<std::uint32_t>(colour_)); }

  actor mall_;
  Colour colour_;
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
      spawn<Creature>(actor_cast<actor>(this), static_cast<Colour>(i % 3));
    }
    return {
        [this](std::uint32_t colour) {
          if (meetings_left_ == 0) {
            send(actor_cast<actor>(current_sender()), std::uint8_t{0});
          } else if (!waiting_) {
            waiting_ = actor_cast<actor>(current_sender());
          } else {
            --meetings_left_;
            delegate(waiting_, colour);  // keeps the sender
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

}  // namespace

Result CafRuntime::run(const Chameneos& bench) {
  Outcome outcome;
  return run_main<Mall>(outcome, bench, outcome);
}

Result CafRuntime::run(const Big& bench) {
  Outcome outcome;
  return run_main<Sink>(outcome, bench, outcome);
}

Result CafRuntime::run(const ForkJoinThroughput& bench) {
  Outcome outcome;
  return run_main<ThroughputMain>(outcome, bench, outcome);
}

Result CafRuntime::run(const ForkJoinCreate& bench) {
  Outcome outcome;
  Join join(bench.actors);
  outcome.start();
  for (std::uint64_t i = 0; i < bench.actors; ++i) {
    // Scheduled at its first message, and not counted among the running actors: the join counts it.
    caf::anon_send(system_.spawn<ShortLived, caf::lazy_init + caf::hidden>(join, outcome), theta_of(i));
  }
  return outcome.wait();
}

Result CafRuntime::run(const ConcurrentDictionary& bench) {
  Outcome outcome;
  return run_main<DictionaryMain>(outcome, bench, ConcurrentDictionary::filled(), outcome);
}

}  // namespace reprise::bench
