#include "runtime/testing/simulator.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"

namespace reprise::runtime {

namespace {

using std::chrono::milliseconds;

constexpr TimePoint kBegin{std::chrono::hours(1)};
/// How far time goes at least with each kStopSteps while System::stop() waits, which has deadlines of its own.
constexpr Duration kStopJump = milliseconds(10);
constexpr int kStopSteps = 1000;

}  // namespace

std::uint64_t SimulatedChance::next() {
  std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

/// The one executor of a simulated system. Nodes in transit wait in a channel for each pair of sender and receiver; the
/// heads of the channels, the ready actors and the actions that are due are what a step chooses from.
class SimulatedExecutor : public Executor {
 public:
  SimulatedExecutor(std::shared_ptr<SystemCore> core, SimulatorOptions options, TimePoint& now)
      : Executor(std::move(core), Transport::kOwn),
        faults_(options.faults),
        log_(std::move(options.log)),
        chance_(options.seed),
        now_(now) {}

  void after(Duration delay, std::function<void()> action) {
    actions_.emplace(now_ + delay, std::move(action));
  }
  void add_victim(const CellPtr& cell) { victims_.push_back(cell); }

  /// Makes a step. If nothing can run, time jumps first, at most to `end`; returns false if that was not far enough.
  bool step(TimePoint end) {
    check_thread();
    while (true) {
      arrive();
      {
        const Presence presence(*this);
        fire_timers();
      }
      if (can_run()) break;
      const TimePoint next = next_event();
      if (next == TimePoint::max() || next > end) {
        if (end != TimePoint::max()) now_ = std::max(now_, end);
        return false;
      }
      now_ = std::max(now_, next);
    }
    ++steps_;
    stop_a_victim();
    choose();
    return true;
  }

  std::uint64_t steps() const { return steps_; }
  std::uint64_t hash() const { return hash_; }

  // -- called by the system

  bool idle() const override { return !can_run() && waiting_.empty(); }

  void finish() override {
    if (ended_ || population() != 0 || !try_seal()) return;
    ended_ = true;
    bounce_transit();
    close();
  }

  void help() override {
    actions_.clear();  // the test's own, which may spawn
    const TimePoint end = now_ + kStopJump;
    for (int i = 0; i < kStopSteps; ++i) {
      if (!step(end)) return;
    }
    now_ = std::max(now_, end);
  }

  bool wait_ended(TimePoint) override { return ended_; }

  void join_or_leave() override {
    ended_ = true;
    actions_.clear();
    bounce_transit();
  }

 private:
  struct Transit {
    Node* node;
    TimePoint due;
  };
  using Channel = std::deque<Transit>;
  using Pair = std::pair<ActorId, ActorId>;  // sender (0: not an actor), receiver

  enum class Step : std::uint64_t { kDeliver = 1, kTurn, kAction, kStop };

  void wake() override {}

  void check_thread() const {
    REPRISE_CHECK(std::this_thread::get_id() == thread_, "a simulated system was used by another thread");
  }

  void transport(Node* node) override {
    check_thread();
    if (ended_) return bounce(node);
    const Cell* sender = Cell::current();
    const Pair pair{sender == nullptr ? delivering_to_ : sender->id(), node->target->id()};
    TimePoint due = now_;
    if (chance_.percent(faults_.delayed_percent)) due += chance_.up_to(faults_.max_delay);
    Channel& channel = channels_[pair];
    if (!channel.empty()) due = std::max(due, channel.back().due);
    channel.push_back({node, due});
    if (channel.size() == 1) show_head(pair, channel);
  }

  void show_head(const Pair& pair, Channel& channel) {
    if (channel.front().due <= now_) {
      arrived_.push_back(pair);
    } else {
      waiting_.emplace(channel.front().due, pair);
    }
  }

  /// Moves the channels whose head is due to arrived_.
  void arrive() {
    while (!waiting_.empty() && waiting_.begin()->first <= now_) {
      arrived_.push_back(waiting_.begin()->second);
      waiting_.erase(waiting_.begin());
    }
  }

  bool action_is_due() const { return !actions_.empty() && actions_.begin()->first <= now_; }
  bool can_run() const { return !arrived_.empty() || ready_actors() != 0 || action_is_due(); }

  TimePoint next_event() const {
    TimePoint next = next_timer();
    if (!waiting_.empty()) next = std::min(next, waiting_.begin()->first);
    if (!actions_.empty()) next = std::min(next, actions_.begin()->first);
    return next;
  }

  void choose() {
    std::uint64_t choice = chance_.below(arrived_.size() + ready_actors() + (action_is_due() ? 1 : 0));
    if (choice < arrived_.size()) return deliver_head(choice);
    choice -= arrived_.size();
    if (choice < ready_actors()) return run_turn(static_cast<std::uint32_t>(choice));
    auto action = actions_.extract(actions_.begin());
    note(Step::kAction, 0, 0, 0);
    if (log_) log("an action of the test");
    action.mapped()();
  }

  void deliver_head(std::uint64_t choice) {
    const Pair pair = std::exchange(arrived_[choice], arrived_.back());
    arrived_.pop_back();
    const auto found = channels_.find(pair);
    Node* node = found->second.front().node;
    found->second.pop_front();
    if (found->second.empty()) {
      channels_.erase(found);
    } else {
      show_head(pair, found->second);
    }
    note(Step::kDeliver, pair.first, pair.second, static_cast<std::uint64_t>(node->ops->kind));
    if (log_) {
      log(name_of(*node->target) + " <- " + (pair.first == 0 ? "outside" : "#" + std::to_string(pair.first)) +
          ": " + node->ops->turn.name);
    }
    const Presence presence(*this);
    delivering_to_ = pair.second;
    deliver(node);
    delivering_to_ = 0;
  }

  void run_turn(std::uint32_t position) {
    const Cell& cell = ready_at(position);
    note(Step::kTurn, cell.id(), cell.turns(), static_cast<std::uint64_t>(cell.life()));
    if (log_) log(name_of(cell) + " runs");
    const Presence presence(*this);
    run_turn_of(position);
    now_ += chance_.up_to(faults_.max_turn_time);
  }

  void stop_a_victim() {
    if (faults_.stops_per_mille == 0 || victims_.empty() || chance_.below(1000) >= faults_.stops_per_mille)
      return;
    const CellPtr victim = std::exchange(victims_[chance_.below(victims_.size())], victims_.back());
    victims_.pop_back();
    note(Step::kStop, victim->id(), 0, 0);
    if (log_) log(name_of(*victim) + " is stopped by a fault");
    victim->request_stop();
  }

  void note(Step step, std::uint64_t first, std::uint64_t second, std::uint64_t third) {
    const auto time = static_cast<std::uint64_t>((now_ - kBegin).count());
    for (const std::uint64_t value : {static_cast<std::uint64_t>(step), first, second, third, time}) {
      hash_ = SimulatedChance(hash_ ^ value).next();
    }
  }

  static std::string name_of(const Cell& cell) {
    return std::string(cell.name()) + "#" + std::to_string(cell.id());
  }

  void log(const std::string& text) const {
    const auto microseconds = std::chrono::duration_cast<std::chrono::microseconds>(now_ - kBegin).count();
    log_(std::to_string(microseconds) + " us: " + text);
  }

  void bounce_transit() {
    while (!channels_.empty()) {
      auto channel = channels_.extract(channels_.begin());
      for (const Transit& transit : channel.mapped()) bounce(transit.node);
    }
    arrived_.clear();
    waiting_.clear();
    victims_.clear();
  }

  const SimulatedFaults faults_;
  const std::function<void(const std::string&)> log_;
  const std::thread::id thread_ = std::this_thread::get_id();
  SimulatedChance chance_;
  TimePoint& now_;
  std::map<Pair, Channel> channels_;        // those with nodes
  std::vector<Pair> arrived_;               // channels whose head can be delivered
  std::multimap<TimePoint, Pair> waiting_;  // the other channels, by the time of their head
  std::multimap<TimePoint, std::function<void()>> actions_;
  std::vector<CellPtr> victims_;
  ActorId delivering_to_ = 0;  // a stopped actor answers while a node is delivered to it, not in a turn
  std::uint64_t steps_ = 0;
  std::uint64_t hash_ = 0;
  bool ended_ = false;
};

Simulator::Simulator(SimulatorOptions options)
    : now_(std::make_unique<TimePoint>(kBegin)), chance_(SimulatedChance(~options.seed).next()) {
  REPRISE_CHECK(Clock::virtual_time() == nullptr, "two simulators at once on one thread");
  Clock::set_virtual_time(now_.get());
  FailureHooks hooks = std::move(options.hooks);
  system_.reset(new System(std::move(hooks), [&](const std::shared_ptr<SystemCore>& core) {
    steps_ = new SimulatedExecutor(core, std::move(options), *now_);
    executor_ = ExecutorPtr::adopt(steps_);
    return executor_;
  }));
}

Simulator::~Simulator() {
  system_.reset();
  Clock::set_virtual_time(nullptr);
}

void Simulator::after(Duration delay, std::function<void()> action) {
  steps_->after(delay, std::move(action));
}

void Simulator::add_victim(const CellPtr& cell) {
  steps_->add_victim(cell);
}

bool Simulator::step() {
  return steps_->step(TimePoint::max());
}

bool Simulator::run(std::uint64_t max_steps) {
  for (std::uint64_t i = 0; i < max_steps; ++i) {
    if (!step()) return true;
  }
  return false;
}

bool Simulator::run_until(const std::function<bool()>& done, Duration limit, std::uint64_t max_steps) {
  const TimePoint end = deadline_after(limit);
  for (std::uint64_t i = 0; !done(); ++i) {
    REPRISE_CHECK(i < max_steps, "a simulation makes steps without end");
    if (now() >= end || !steps_->step(end)) return done();
  }
  return true;
}

std::uint64_t Simulator::steps() const {
  return steps_->steps();
}

std::uint64_t Simulator::trace_hash() const {
  return steps_->hash();
}

}  // namespace reprise::runtime
