#pragma once
// Benchmarks of many actors on the Reprise runtime; see savina_reprise.cc.

#include "tools/lab/bench/savina_reprise_placement.h"

namespace reprise::bench {

// ---- chameneos ----

struct Change;
struct Meet;
struct Fade {};
using CreatureRef = Ref<Meet, Change, Fade>;
struct Change {
  Colour colour;
};
struct Meet {
  Colour colour;
  CreatureRef creature;
};
struct Met {
  std::uint64_t count;
};

class Creature : public Actor {
 public:
  using Accepts = Messages<Meet, Change, Fade>;
  static constexpr MailboxSpec kMailbox = kUnbounded;
  Creature(Colour colour, Ref<Meet, Met> mall) : colour_(colour), mall_(std::move(mall)) {}
  void on_start() { go(); }
  void on(const Meet& meet) {
    colour_ = complement(colour_, meet.colour);
    ++count_;
    meet.creature.tell(Change{colour_});
    go();
  }
  void on(Change change) {
    colour_ = change.colour;
    ++count_;
    go();
  }
  void on(Fade) {
    mall_.tell(Met{count_});
    stop();
  }

 private:
  void go() { mall_.tell(Meet{colour_, self(*this)}); }
  Colour colour_;
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
      spawn<Creature>(talkers(), static_cast<Colour>(i % 3), Ref<Meet, Met>(self(*this)));
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

/// Adds up what `expected` others send when they are done.
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

}  // namespace reprise::bench
