// The benchmarks of savina.h on the Reprise runtime.
//
// Placement, which savina.h leaves to the runtime: actors that mostly wait for each other are placed near one
// another, where messages need no atomics; actors with work of their own are spread over the pool, as
// runtime/actor.h advises. `SAVINA_SPREAD=1` spreads all of them, to show the cost of crossing threads.

#include <thread>

#include "runtime/system.h"
#include "tools/lab/bench/savina.h"

namespace reprise::bench {
namespace {

namespace rt = reprise::runtime;
using rt::Actor;
using rt::MailboxSpec;
using rt::Messages;
using rt::Placement;
using rt::Ref;
using rt::RefOf;
using rt::Task;

constexpr MailboxSpec kUnbounded{.capacity = MailboxSpec::kUnbounded};

/// Placement for actors that communicate more than they compute.
rt::SpawnOptions talkers() {
  static const bool spread = std::getenv("SAVINA_SPREAD") != nullptr;
  return {.placement = spread ? Placement::pool() : Placement::near()};
}

// ---- pingpong ----

struct Pong {
  std::uint64_t n;
};
struct Ping {
  std::uint64_t n;
};

class PongActor : public Actor {
 public:
  using Accepts = Messages<Ping>;
  static constexpr MailboxSpec kMailbox = kUnbounded;
  explicit PongActor(Ref<Pong> ping) : ping_(std::move(ping)) {}
  void on(Ping ping) { ping_.tell(Pong{ping.n}); }

 private:
  Ref<Pong> ping_;
};

class PingActor : public Actor {
 public:
  using Accepts = Messages<Pong>;
  static constexpr MailboxSpec kMailbox = kUnbounded;
  PingActor(Outcome& outcome, PingPong bench) : outcome_(outcome), bench_(bench) {}
  void on_start() {
    outcome_.start();
    pong_ = spawn<PongActor>(talkers(), self(*this));
    pong_.tell(Ping{1});
  }
  void on(Pong pong) {
    sum_ += pong.n;
    if (pong.n < bench_.round_trips) {
      pong_.tell(Ping{pong.n + 1});
      return;
    }
    outcome_.stop(sum_);
    stop();
  }

 private:
  Outcome& outcome_;
  PingPong bench_;
  RefOf<PongActor> pong_;
  std::uint64_t sum_ = 0;
};

// ---- counting ----

struct Increment {};
struct Total {
  std::uint64_t n;
};
struct Retrieve {
  Ref<Total> to;
};

class CounterActor : public Actor {
 public:
  using Accepts = Messages<Increment, Retrieve>;
  static constexpr MailboxSpec kMailbox = kUnbounded;
  void on(Increment) { ++count_; }
  void on(const Retrieve& retrieve) { retrieve.to.tell(Total{count_}); }

 private:
  std::uint64_t count_ = 0;
};

class ProducerActor : public Actor {
 public:
  using Accepts = Messages<Total>;
  ProducerActor(Outcome& outcome, Counting bench) : outcome_(outcome), bench_(bench) {}
  void on_start() {
    outcome_.start();
    auto counter = spawn<CounterActor>({});
    for (std::uint64_t i = 0; i < bench_.increments; ++i) counter.tell(Increment{});
    counter.tell(Retrieve{self(*this)});
  }
  void on(Total total) {
    outcome_.stop(total.n);
    stop();
  }

 private:
  Outcome& outcome_;
  Counting bench_;
};

// ---- threadring ----

struct Token {
  std::uint64_t n;
};
struct Successor {
  Ref<Token> actor;
};
struct RingEnded {
  std::uint32_t index;
};

class RingActor : public Actor {
 public:
  using Accepts = Messages<Token, Successor>;
  static constexpr MailboxSpec kMailbox = kUnbounded;
  RingActor(std::uint32_t index, Ref<RingEnded> main) : index_(index), main_(std::move(main)) {}
  void on(Successor successor) { successor_ = std::move(successor.actor); }
  void on(Token token) {
    if (token.n > 0) {
      successor_.tell(Token{token.n - 1});
    } else {
      main_.tell(RingEnded{index_});
    }
  }

 private:
  std::uint32_t index_;
  Ref<RingEnded> main_;
  Ref<Token> successor_;
};

class RingMain : public Actor {
 public:
  using Accepts = Messages<RingEnded>;
  RingMain(Outcome& outcome, ThreadRing bench) : outcome_(outcome), bench_(bench) {}
  void on_start() {
    outcome_.start();
    std::vector<RefOf<RingActor>> ring;
    for (std::uint32_t i = 0; i < ThreadRing::kActors; ++i) {
      ring.push_back(spawn<RingActor>(talkers(), i, Ref<RingEnded>(self(*this))));
    }
    for (std::uint32_t i = 0; i < ThreadRing::kActors; ++i) {
      ring[i].tell(Successor{ring[(i + 1) % ThreadRing::kActors]});
    }
    ring[0].tell(Token{bench_.hops});
  }
  void on(RingEnded ended) {
    outcome_.stop(bench_.hops * 1000 + ended.index);
    stop();
  }

 private:
  Outcome& outcome_;
  ThreadRing bench_;
};

// ---- ask ----

struct Question {
  using Reply = std::uint64_t;
  std::uint64_t n;
};

class Answerer : public Actor {
 public:
  using Accepts = Messages<Question>;
  std::uint64_t on(Question question) { return question.n + 1; }
};

class AskMain : public Actor {
 public:
  using Accepts = Messages<>;
  AskMain(Outcome& outcome, Ask bench, std::vector<std::uint32_t>& nanoseconds)
      : outcome_(outcome), bench_(bench), nanoseconds_(nanoseconds) {}
  Task<void> on_start() {
    outcome_.start();
    auto answerer = spawn<Answerer>(talkers());
    std::uint64_t sum = 0;
    for (std::uint64_t n = 1; n <= bench_.asks; ++n) {
      const auto begin = std::chrono::steady_clock::now();
      auto asked = answerer.ask(Question{n}, rt::TimePoint::max());
      const rt::Result<std::uint64_t> answer = co_await asked;
      sum += *answer;
      nanoseconds_.push_back(static_cast<std::uint32_t>((std::chrono::steady_clock::now() - begin).count()));
    }
    outcome_.stop(sum);
    stop();
  }

 private:
  Outcome& outcome_;
  Ask bench_;
  std::vector<std::uint32_t>& nanoseconds_;
};

// ---- idle ----

struct Poke {
  std::uint64_t n;
};

class IdleActor : public Actor {
 public:
  using Accepts = Messages<Poke>;
  explicit IdleActor(Tally* started, Tally* poked) : started_(started), poked_(poked) {}
  void on_start() { started_->add(); }
  void on(Poke poke) {
    state_ += poke.n;
    poked_->add();
  }

 private:
  Tally* started_;
  Tally* poked_;
  std::uint64_t state_ = 0;
};

// ---- chameneos ----

struct Change;
struct Meet;
struct Fade {};
using CreatureRef = Ref<Meet, Change, Fade>;
struct Change {
  Color color;
};
struct Meet {
  Color color;
  CreatureRef creature;
};
struct Met {
  std::uint64_t count;
};

class Creature : public Actor {
 public:
  using Accepts = Messages<Meet, Change, Fade>;
  static constexpr MailboxSpec kMailbox = kUnbounded;
  Creature(Color color, Ref<Meet, Met> mall) : color_(color), mall_(std::move(mall)) {}
  void on_start() { go(); }
  void on(const Meet& meet) {
    color_ = complement(color_, meet.color);
    ++count_;
    meet.creature.tell(Change{color_});
    go();
  }
  void on(Change change) {
    color_ = change.color;
    ++count_;
    go();
  }
  void on(Fade) {
    mall_.tell(Met{count_});
    stop();
  }

 private:
  void go() { mall_.tell(Meet{color_, self(*this)}); }
  Color color_;
  Ref<Meet, Met> mall_;
  std::uint64_t count_ = 0;
};

class Mall : public Actor {
 public:
  using Accepts = Messages<Meet, Met>;
  static constexpr MailboxSpec kMailbox = kUnbounded;
  Mall(Outcome& outcome, Chameneos bench) : outcome_(outcome), bench_(bench) {}
  void on_start() {
    outcome_.start();
    for (std::uint32_t i = 0; i < Chameneos::kCreatures; ++i) {
      spawn<Creature>(talkers(), static_cast<Color>(i % 3), Ref<Meet, Met>(self(*this)));
    }
  }
  void on(Meet meet) {
    if (held_ == bench_.meetings) {
      meet.creature.tell(Fade{});
    } else if (!first_) {
      first_ = std::move(meet.creature);
    } else {
      first_.tell(std::move(meet));
      first_ = {};
      ++held_;
    }
  }
  void on(Met met) {
    sum_ += met.count;
    if (++faded_ < Chameneos::kCreatures) return;
    outcome_.stop(sum_);
    stop();
  }

 private:
  Outcome& outcome_;
  Chameneos bench_;
  CreatureRef first_;
  std::uint64_t held_ = 0;
  std::uint64_t sum_ = 0;
  std::uint32_t faded_ = 0;
};

// ---- big ----

struct Peers;
struct BigStart {};
struct BigPing {
  std::uint32_t from;
};
struct BigPong {
  std::uint32_t from;
};
struct Done {
  std::uint64_t sum;
};
using BigRef = Ref<Peers, BigStart, BigPing, BigPong>;
struct Peers {
  std::shared_ptr<const std::vector<BigRef>> all;
};

class BigActor : public Actor {
 public:
  using Accepts = Messages<Peers, BigStart, BigPing, BigPong>;
  static constexpr MailboxSpec kMailbox = kUnbounded;
  BigActor(std::uint32_t index, Big bench, Ref<Done> sink)
      : index_(index), bench_(bench), sink_(std::move(sink)), random_(index) {}
  void on(Peers peers) { peers_ = *peers.all; }
  void on(BigStart) { ping(); }
  void on(BigPing from) { peers_[from.from].tell(BigPong{index_}); }
  void on(BigPong from) {
    sum_ += from.from + 1;
    if (++pongs_ < bench_.pings) {
      ping();
    } else {
      sink_.tell(Done{sum_});
    }
  }

 private:
  void ping() { peers_[Big::target(random_, index_)].tell(BigPing{index_}); }
  std::uint32_t index_;
  Big bench_;
  Ref<Done> sink_;
  XorShift random_;
  std::vector<BigRef> peers_;
  std::uint64_t pongs_ = 0;
  std::uint64_t sum_ = 0;
};

/// Sums the results of `expected` actors.
class SumMain : public Actor {
 public:
  using Accepts = Messages<Done>;
  static constexpr MailboxSpec kMailbox = kUnbounded;
  SumMain(Outcome& outcome, std::uint32_t expected) : outcome_(outcome), expected_(expected) {}
  void on(Done done) {
    sum_ += done.sum;
    if (++seen_ < expected_) return;
    outcome_.stop(sum_);
    stop();
  }

 protected:
  Outcome& outcome_;

 private:
  std::uint32_t expected_;
  std::uint32_t seen_ = 0;
  std::uint64_t sum_ = 0;
};

class BigMain : public SumMain {
 public:
  BigMain(Outcome& outcome, Big bench) : SumMain(outcome, Big::kActors), bench_(bench) {}
  void on_start() {
    outcome_.start();
    auto all = std::make_shared<std::vector<BigRef>>();
    for (std::uint32_t i = 0; i < Big::kActors; ++i) {
      all->push_back(spawn<BigActor>(talkers(), i, bench_, Ref<Done>(self(*this))));
    }
    for (const BigRef& actor : *all) actor.tell(Peers{all});
    for (const BigRef& actor : *all) actor.tell(BigStart{});
  }

 private:
  Big bench_;
};

// ---- fjthroughput ----

struct Work {
  double theta;
};

class WorkerActor : public Actor {
 public:
  using Accepts = Messages<Work>;
  static constexpr MailboxSpec kMailbox = kUnbounded;
  WorkerActor(std::uint64_t expected, Ref<Done> main) : left_(expected), main_(std::move(main)) {}
  void on(Work work) {
    sum_ += tiny_work(work.theta);
    if (--left_ == 0) main_.tell(Done{sum_});
  }

 private:
  std::uint64_t left_;
  Ref<Done> main_;
  std::uint64_t sum_ = 0;
};

class ThroughputMain : public SumMain {
 public:
  ThroughputMain(Outcome& outcome, ForkJoinThroughput bench)
      : SumMain(outcome, ForkJoinThroughput::kWorkers), bench_(bench) {}
  void on_start() {
    outcome_.start();
    std::vector<RefOf<WorkerActor>> workers;
    for (std::uint32_t i = 0; i < ForkJoinThroughput::kWorkers; ++i) {
      workers.push_back(spawn<WorkerActor>({}, bench_.per_worker, Ref<Done>(self(*this))));
    }
    for (std::uint64_t m = 0; m < bench_.per_worker; ++m) {
      for (const auto& worker : workers) worker.tell(Work{theta_of(m)});
    }
  }

 private:
  ForkJoinThroughput bench_;
};

// ---- fjcreate ----

class OnceActor : public Actor {
 public:
  using Accepts = Messages<Work>;
  OnceActor(Outcome& outcome, Join& join) : outcome_(outcome), join_(join) {}
  ~OnceActor() override {
    if (join_.leave(result_)) outcome_.stop(join_.sum());
  }
  void on(Work work) {
    result_ = tiny_work(work.theta);
    stop();
  }

 private:
  Outcome& outcome_;
  Join& join_;
  std::uint64_t result_ = 0;
};

// ---- concdict ----

struct Value {
  std::uint64_t value;
};
struct Write {
  std::uint64_t key;
  std::uint64_t value;
  Ref<Value> from;
};
struct Read {
  std::uint64_t key;
  Ref<Value> from;
};

class DictionaryActor : public Actor {
 public:
  using Accepts = Messages<Write, Read>;
  static constexpr MailboxSpec kMailbox = kUnbounded;
  explicit DictionaryActor(ConcurrentDictionary::Map map) : map_(std::move(map)) {}
  void on(const Write& write) { write.from.tell(Value{map_[write.key] = write.value}); }
  void on(const Read& read) { read.from.tell(Value{map_[read.key]}); }

 private:
  ConcurrentDictionary::Map map_;
};

class DictionaryUser : public Actor {
 public:
  using Accepts = Messages<Value>;
  static constexpr MailboxSpec kMailbox = kUnbounded;
  DictionaryUser(std::uint32_t index, std::uint64_t requests, RefOf<DictionaryActor> dictionary,
                 Ref<Done> main)
      : random_(index), left_(requests), dictionary_(std::move(dictionary)), main_(std::move(main)) {}
  void on_start() { request(); }
  void on(Value value) {
    sum_ += value.value;
    if (--left_ > 0) {
      request();
    } else {
      main_.tell(Done{sum_});
    }
  }

 private:
  void request() {
    const ConcurrentDictionary::Request next = ConcurrentDictionary::next(random_);
    if (next.write) {
      dictionary_.tell(Write{next.key, ConcurrentDictionary::value_of(next.key), self(*this)});
    } else {
      dictionary_.tell(Read{next.key, self(*this)});
    }
  }
  XorShift random_;
  std::uint64_t left_;
  RefOf<DictionaryActor> dictionary_;
  Ref<Done> main_;
  std::uint64_t sum_ = 0;
};

class DictionaryMain : public SumMain {
 public:
  DictionaryMain(Outcome& outcome, ConcurrentDictionary bench, ConcurrentDictionary::Map map)
      : SumMain(outcome, ConcurrentDictionary::kWorkers), bench_(bench), map_(std::move(map)) {}
  void on_start() {
    outcome_.start();
    auto dictionary = spawn<DictionaryActor>(talkers(), std::move(map_));
    for (std::uint32_t i = 0; i < ConcurrentDictionary::kWorkers; ++i) {
      spawn<DictionaryUser>(talkers(), i, bench_.requests, dictionary, Ref<Done>(self(*this)));
    }
  }

 private:
  ConcurrentDictionary bench_;
  ConcurrentDictionary::Map map_;
};

class Reprise {
 public:
  static constexpr const char* kName = "reprise";

  explicit Reprise(int threads) : system_({.workers = static_cast<unsigned>(threads)}) {}

  Result run(const PingPong& bench) { return run_main<PingActor>(bench); }
  Result run(const Counting& bench) { return run_main<ProducerActor>(bench); }
  Result run(const ThreadRing& bench) { return run_main<RingMain>(bench); }
  Result run(const Chameneos& bench) { return run_main<Mall>(bench); }
  Result run(const Big& bench) { return run_main<BigMain>(bench); }
  Result run(const ForkJoinThroughput& bench) { return run_main<ThroughputMain>(bench); }
  Result run(const ConcurrentDictionary& bench) {
    return run_main<DictionaryMain>(bench, ConcurrentDictionary::filled());
  }
  Result run(const ForkJoinCreate& bench) {
    Outcome outcome;
    Join join(bench.actors);
    outcome.start();
    for (std::uint64_t i = 0; i < bench.actors; ++i) {
      system_.spawn<OnceActor>({}, std::ref(outcome), std::ref(join)).tell(Work{theta_of(i)});
    }
    return finish(outcome);
  }
  Result run(const Ask& bench) {
    std::vector<std::uint32_t> nanoseconds;
    nanoseconds.reserve(bench.asks);
    Result result = run_main<AskMain>(bench, std::ref(nanoseconds));
    add_latencies(result, std::move(nanoseconds));
    return result;
  }
  Result run(const Idle& bench) {
    Tally started;
    Tally poked;
    std::vector<RefOf<IdleActor>> actors;
    actors.reserve(bench.actors);
    const double before = resident_bytes();
    Outcome outcome;
    outcome.start();
    for (std::uint64_t i = 1; i <= bench.actors; ++i) {
      actors.push_back(system_.spawn<IdleActor>({}, &started, &poked));
      if (i % Idle::kBatch == 0 || i == bench.actors) started.wait_for(i);
    }
    const double idle = resident_bytes();
    for (std::uint64_t i = 1; i <= bench.actors; ++i) {
      actors[i - 1].tell(Poke{1});
      if (i % Idle::kBatch == 0 || i == bench.actors) poked.wait_for(i);
    }
    const double after = resident_bytes();
    outcome.stop(poked.count());
    Result result = outcome.wait();
    const auto count = static_cast<double>(bench.actors);
    result.metrics = {{"bytes_idle", (idle - before) / count},
                      {"bytes_after_message", (after - before) / count}};
    for (const auto& actor : actors) actor.stop();
    return result;
  }

 private:
  template <class Main, class Bench, class... More>
  Result run_main(const Bench& bench, More&&... more) {
    Outcome outcome;
    system_.spawn<Main>({}, std::ref(outcome), bench, std::forward<More>(more)...);
    return finish(outcome);
  }
  Result finish(Outcome& outcome) {
    const Result result = outcome.wait();
    while (system_.actor_count() != 0) std::this_thread::yield();
    return result;
  }

  rt::System system_;
};

}  // namespace

}  // namespace reprise::bench

int main(int argc, char** argv) {
  return reprise::bench::bench_main<reprise::bench::Reprise>(argc, argv);
}
