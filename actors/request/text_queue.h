#pragma once
// TextQueue: the jobs of a text pool that wait for one of its actors. Tenants take turns (base/fair_queue.h): no tenant
// keeps others waiting behind more than the jobs that run, none has all actors at once, and the one that fills its share is
// refused, not the others. Jobs whose askers have gone are dropped.
//
// Failure: it is made anew, and what waited is answered with an error. Actors that have stopped for good get no further
// jobs; without any, everything is refused.
//
// Threading: an actor on the pool. TextProgress may be read by any thread.

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/request/text_actor.h"
#include "base/fair_queue.h"
#include "runtime/actor.h"
#include "runtime/ticks.h"

namespace reprise::actors {

/// TextProgress records when a job of the pool last ended, so that /health can report a pool that is stuck.
class TextProgress {
 public:
  static constexpr std::chrono::seconds kPatience{10};

  /// `held_up`: jobs that wait while every actor is at work.
  void note(std::size_t held_up, bool one_ended, runtime::TimePoint now) {
    // Relaxed: a report that is a moment old will do.
    const bool begins = held_up_.exchange(held_up, std::memory_order_relaxed) == 0 && held_up > 0;
    if (begins || one_ended) since_.store(now, std::memory_order_relaxed);
  }
  /// Returns what is wrong if jobs wait and none has ended for `kPatience`; else nothing.
  std::optional<std::string> problem(runtime::TimePoint now = runtime::Clock::now()) const;

 private:
  std::atomic<std::size_t> held_up_{0};
  std::atomic<runtime::TimePoint> since_{};  // the last job ended, or the first began to wait
};

class TextQueue : public runtime::Actor {
 public:
  using Accepts = runtime::Messages<TokenizeJob, DetokenizeJob, RenderJob, PrepareJob, HistoryJob, MaskJob>;
  using Limits = FairQueue<std::unique_ptr<TextWork>>::Limits;
  static constexpr const char* kName = "text queue";
  static constexpr runtime::MailboxSpec kMailbox{.capacity = 4096, .overload = runtime::Overload::kReject};

  TextQueue(const Limits& limits, std::vector<runtime::RefOf<TextActor>> actors,
            std::shared_ptr<TextProgress> progress);

  void on(TokenizeJob job, runtime::ReplyTo<TokenizeJob::Reply> reply) {
    add(std::move(job), std::move(reply));
  }
  void on(DetokenizeJob job, runtime::ReplyTo<DetokenizeJob::Reply> reply) {
    add(std::move(job), std::move(reply));
  }
  void on(RenderJob job, runtime::ReplyTo<RenderJob::Reply> reply) { add(std::move(job), std::move(reply)); }
  void on(PrepareJob job, runtime::ReplyTo<PrepareJob::Reply> reply) {
    add(std::move(job), std::move(reply));
  }
  void on(HistoryJob job, runtime::ReplyTo<HistoryJob::Reply> reply) {
    add(std::move(job), std::move(reply));
  }
  void on(MaskJob job, runtime::ReplyTo<MaskJob::Reply> reply) { add(std::move(job), std::move(reply)); }

 private:
  template <class Job>
  void add(Job job, runtime::ReplyTo<typename Job::Reply> reply) {
    enter(std::make_unique<TextWorkOf<Job>>(std::move(job), std::move(reply)));
  }
  void enter(std::unique_ptr<TextWork> work);
  /// Gives free actors what waits.
  void hand_out();
  std::optional<std::size_t> free_actor();
  runtime::Task<void> run(std::size_t actor, std::string owner, std::unique_ptr<TextWork> work);
  void note(bool one_ended);

  const std::vector<runtime::RefOf<TextActor>> actors_;
  const std::shared_ptr<TextProgress> progress_;
  std::vector<std::size_t> free_;  // of actors_
  FairQueue<std::unique_ptr<TextWork>> queue_;
};

}  // namespace reprise::actors
