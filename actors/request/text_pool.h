#pragma once
// TextPool runs actors that tokenize, detokenize, render and make token masks, for text requests and for
// requests with long texts, so that this work does not block the callers' threads.
//
// TextQueue holds the jobs that wait for an actor. Tenants take turns (base/fair_queue.h): a tenant cannot
// occupy all actors, and only the one whose share of the queue is full is refused. Jobs whose askers are gone
// are dropped.
//
// Failure: a text or template that throws fails its job only. Any other exception restarts the stateless
// TextActor; Engine::health() reports several such restarts a minute. An actor that fails too often stops and
// gets no more jobs; without any actor, all jobs are refused. A restart of the queue fails the jobs in it.
//
// Threading: each TextActor has its own thread, of lower priority than those that compute. The queue is an
// actor on the pool. TextPool::ask() must be called in an actor's turn; the rest of TextPool, and
// TextProgress, from any thread.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/models/model_directory.h"
#include "actors/models/restart_log.h"
#include "actors/request/prompt_text.h"
#include "base/fair_queue.h"
#include "protocol/grammar/mask_maker.h"
#include "protocol/service.h"
#include "runtime/actor.h"
#include "runtime/detail/ticks.h"
#include "runtime/system.h"

namespace reprise::actors {

// -- jobs

struct TokenizeJob {
  using Reply = protocol::Answer<protocol::Tokenized>;
  protocol::TokenizeRequest request;

  protocol::TextCaller caller() const { return request.caller; }
};
struct DetokenizeJob {
  using Reply = protocol::Answer<protocol::Detokenized>;
  protocol::DetokenizeRequest request;

  protocol::TextCaller caller() const { return request.caller; }
};
struct RenderJob {
  using Reply = protocol::Answer<protocol::Rendered>;
  protocol::RenderRequest request;

  protocol::TextCaller caller() const { return request.caller; }
};

struct TextOfRequest {
  std::shared_ptr<const protocol::GenerateRequest> request;
  std::shared_ptr<const ServedModel> model;
  // HistoryJob only: the assistant's message, the chat's turns known as sampled, and this turn if it was
  // kept.
  Json reply{};
  std::vector<protocol::RecognizedTurn> turns{};
  protocol::SharedTurn reply_turn{};

  protocol::TextCaller caller() const { return {request->origin.tenant, request->origin.text_time}; }
};
/// prepare_prompt() of prompt_text.h and history_after() of the chat format.
struct PrepareJob {
  using Reply = Outcome<PreparedPrompt, protocol::Error>;
  TextOfRequest of;

  protocol::TextCaller caller() const { return of.caller(); }
};
struct HistoryJob {
  using Reply = protocol::Answer<TokenList>;
  TextOfRequest of;

  protocol::TextCaller caller() const { return of.caller(); }
};

/// Makes the mask of the next token of a reply, unless it is known. The asker must not use the constraint
/// until the answer.
struct MaskJob {
  using Reply = Outcome<SharedMask, protocol::Error>;
  std::shared_ptr<protocol::grammar::ReplyConstraint> of;
  protocol::TextCaller asked_by{};

  protocol::TextCaller caller() const { return asked_by; }
};

class TextActor;

/// A job and the reply to its asker.
class TextWork {
 public:
  TextWork() = default;
  virtual ~TextWork() = default;
  TextWork(const TextWork&) = delete;
  TextWork& operator=(const TextWork&) = delete;

  virtual protocol::TextCaller caller() const = 0;
  /// Returns whether the asker still waits.
  virtual bool wanted() const = 0;
  /// Does the job on the actor's thread and answers.
  virtual void run(const TextActor& actor) = 0;
  virtual void refuse(protocol::Error error) = 0;
};

/// Returns the CPU time of the calling thread in microseconds.
std::uint64_t thread_us();

template <class Job>
class TextWorkOf final : public TextWork {
 public:
  TextWorkOf(Job job, runtime::ReplyTo<typename Job::Reply> reply)
      : job_(std::move(job)), reply_(std::move(reply)) {}

  protocol::TextCaller caller() const override { return job_->caller(); }
  bool wanted() const override { return reply_.wanted(); }
  void run(const TextActor& actor) override;
  void refuse(protocol::Error error) override { reply_.answer(typename Job::Reply(std::move(error))); }

 private:
  std::optional<Job> job_;
  runtime::ReplyTo<typename Job::Reply> reply_;
};

/// Answered when the work is done or its asker is gone.
struct DoTextWork {
  using Reply = protocol::Nothing;
  std::unique_ptr<TextWork> work;
};

// -- actors

class TextActor : public runtime::Actor {
 public:
  using Accepts = runtime::Messages<DoTextWork>;
  static constexpr const char* kName = "texts";
  static constexpr std::uint32_t kMaxJobs = 64;  // jobs that may wait, per actor

  TextActor(std::shared_ptr<const ModelDirectory> directory, std::shared_ptr<Restarts> restarts)
      : directory_(std::move(directory)), restarts_(std::move(restarts)) {}

  void on_start();
  protocol::Nothing on(DoTextWork work);

  // Each returns the answer to its job. `wanted` returns whether the asker still waits; if not, work stops.
  TokenizeJob::Reply done(const TokenizeJob& job, const protocol::grammar::IsWanted& wanted) const;
  DetokenizeJob::Reply done(const DetokenizeJob& job, const protocol::grammar::IsWanted& wanted) const;
  RenderJob::Reply done(const RenderJob& job, const protocol::grammar::IsWanted& wanted) const;
  PrepareJob::Reply done(const PrepareJob& job, const protocol::grammar::IsWanted& wanted) const;
  HistoryJob::Reply done(const HistoryJob& job, const protocol::grammar::IsWanted& wanted) const;
  MaskJob::Reply done(const MaskJob& job, const protocol::grammar::IsWanted& wanted) const;

 private:
  protocol::Answer<std::shared_ptr<const ServedModel>> find(const std::string& name, bool wants_text) const;

  const std::shared_ptr<const ModelDirectory> directory_;
  const std::shared_ptr<Restarts> restarts_;
};

// Destroys the job and charges its time before answering, since the asker may continue at once.
template <class Job>
void TextWorkOf<Job>::run(const TextActor& actor) {
  const std::uint64_t began = thread_us();
  typename Job::Reply made = actor.done(*job_, [this] { return reply_.wanted(); });
  const protocol::TextTime time = job_->caller().time;
  job_.reset();
  if (time) time->fetch_add(thread_us() - began, std::memory_order_relaxed);
  reply_.answer(std::move(made));
}

// -- the queue

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
  /// Gives waiting jobs to free actors.
  void hand_out();
  std::optional<std::size_t> free_actor();
  runtime::Task<void> run(std::size_t actor, std::string owner, std::unique_ptr<TextWork> work);
  void note(bool one_ended);

  const std::vector<runtime::RefOf<TextActor>> actors_;
  const std::shared_ptr<TextProgress> progress_;
  std::vector<std::size_t> free_;  // indices in actors_
  FairQueue<std::unique_ptr<TextWork>> queue_;
};

// -- the pool

class TextPool {
 public:
  TextPool(runtime::System& system, std::uint32_t actors, const TextQueue::Limits& limits,
           const std::shared_ptr<ModelDirectory>& directory, const std::shared_ptr<Restarts>& restarts) {
    using namespace std::chrono_literals;
    for (std::uint32_t i = 0; i < actors; ++i) {
      actors_.push_back(system.spawn<TextActor>({.placement = runtime::Placement::own_thread(),
                                                 .on_failure = runtime::OnFailure::restart(1000, 1min)},
                                                std::shared_ptr<const ModelDirectory>(directory), restarts));
    }
    queue_ = system.spawn<TextQueue>({.on_failure = runtime::OnFailure::restart(1000, 1min)}, limits, actors_,
                                     progress_);
  }
  ~TextPool() {
    queue_.stop();
    for (const runtime::RefOf<TextActor>& actor : actors_) actor.stop();
  }
  TextPool(const TextPool&) = delete;
  TextPool& operator=(const TextPool&) = delete;

  template <class Job>
  runtime::Ask<typename Job::Reply> ask(Job job, runtime::CancelToken cancel = {}) const {
    return queue_.ask(std::move(job), runtime::deadline_after(kDeadline), std::move(cancel));
  }

  /// Returns true if the queue or an actor has stopped for good.
  bool failed() const {
    return queue_.stopped() ||
           std::any_of(actors_.begin(), actors_.end(), [](const auto& actor) { return actor.stopped(); });
  }
  /// Returns what is wrong if jobs wait and none comes to its end; else nothing.
  std::optional<std::string> problem() const { return progress_->problem(); }

  /// Returns the number of text actors for `workers` workers, at least two: one tenant may occupy all but
  /// one.
  static std::uint32_t size_for(unsigned workers) { return std::clamp(workers, 2U, 4U); }
  static constexpr std::uint32_t kMaskMakers = 2;  // actors of the separate pool for masks

  /// Returns how many text jobs may wait; one tenant may have half of them.
  static TextQueue::Limits limits_for(std::uint32_t actors) {
    const std::size_t all = std::size_t{actors} * TextActor::kMaxJobs;
    return {.all = all, .of_one = all / 2, .running_of_one = running_of_one(actors)};
  }
  /// Returns how many mask jobs may wait: one for each running reply.
  static TextQueue::Limits limits_for_masks(std::uint32_t replies) {
    return {.all = replies, .of_one = replies, .running_of_one = running_of_one(kMaskMakers)};
  }

 private:
  static constexpr std::chrono::seconds kDeadline{30};
  static std::size_t running_of_one(std::uint32_t actors) { return std::max(actors, 2U) - 1; }

  const std::shared_ptr<TextProgress> progress_ = std::make_shared<TextProgress>();
  std::vector<runtime::RefOf<TextActor>> actors_;
  runtime::RefOf<TextQueue> queue_;
};

}  // namespace reprise::actors
