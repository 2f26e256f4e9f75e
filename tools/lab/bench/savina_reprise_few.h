#pragma once
// Benchmarks of two actors, of a ring and of idle ones on the Reprise runtime; see savina_reprise.cc.

#include "tools/lab/bench/savina_reprise_placement.h"

namespace reprise::bench {

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

}  // namespace reprise::bench
