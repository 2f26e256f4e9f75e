#pragma once
// TextActor: tokenises, detokenises and renders, for those who ask for just that and for requests with long
// texts, and makes masks of tokens that take their time, away from their own threads.
//
// Failure: a text or a template that throws is that job's answer, and the actor goes on. Whatever else leaves
// a handler makes it start anew: it holds nothing, so nothing is lost but the job. Several such failures a
// minute are told by Engine::health().
//
// Threading: an actor on a thread of its own, for a text may be long and other actors must not wait for it; a
// few of them stand side by side (text_pool.h). The thread has a lower priority than those that compute.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "actors/request/prompt_text.h"
#include "actors/served/model_directory.h"
#include "actors/served/restart_log.h"
#include "protocol/grammar/mask_maker.h"
#include "protocol/service.h"
#include "runtime/actor.h"

namespace reprise::actors {

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
  // HistoryJob: what the assistant said, the chat's turns that are known as they were sampled, and this one's where it is kept.
  Json reply{};
  std::vector<protocol::RecognizedTurn> turns{};
  protocol::SharedTurn reply_turn{};

  protocol::TextCaller caller() const { return {request->tenant, request->text_time}; }
};
/// prepare_prompt() of prompt_text.h and history_after() of the chat format.
struct PrepareJob {
  using Reply = Outcome<PreparedPrompt, protocol::ServiceError>;
  TextOfRequest of;

  protocol::TextCaller caller() const { return of.caller(); }
};
struct HistoryJob {
  using Reply = protocol::Answer<TokenList>;
  TextOfRequest of;

  protocol::TextCaller caller() const { return of.caller(); }
};

/// The mask behind the tokens that the reply has, where it is not known yet. Whoever asks leaves the constraint alone
/// until the answer.
struct MaskJob {
  using Reply = Outcome<SharedMask, protocol::ServiceError>;
  std::shared_ptr<protocol::grammar::ReplyConstraint> of;
  protocol::TextCaller asked_by{};

  protocol::TextCaller caller() const { return asked_by; }
};

class TextActor;

/// One job with the way back to its asker.
class TextWork {
 public:
  TextWork() = default;
  virtual ~TextWork() = default;
  TextWork(const TextWork&) = delete;
  TextWork& operator=(const TextWork&) = delete;

  virtual protocol::TextCaller caller() const = 0;
  /// Returns whether the asker still waits.
  virtual bool wanted() const = 0;
  /// Does it on the actor's thread, and answers.
  virtual void run(const TextActor& actor) = 0;
  virtual void refuse(protocol::ServiceError error) = 0;
};

/// Microseconds that the calling thread has run.
std::uint64_t thread_us();

template <class Job>
class TextWorkOf final : public TextWork {
 public:
  TextWorkOf(Job job, runtime::ReplyTo<typename Job::Reply> reply)
      : job_(std::move(job)), reply_(std::move(reply)) {}

  protocol::TextCaller caller() const override { return job_->caller(); }
  bool wanted() const override { return reply_.wanted(); }
  void run(const TextActor& actor) override;
  void refuse(protocol::ServiceError error) override { reply_.answer(typename Job::Reply(std::move(error))); }

 private:
  std::optional<Job> job_;
  runtime::ReplyTo<typename Job::Reply> reply_;
};

/// Answered when the work has been done, or its asker has gone.
struct DoTextWork {
  using Reply = protocol::Nothing;
  std::unique_ptr<TextWork> work;
};

class TextActor : public runtime::Actor {
 public:
  using Accepts = runtime::Messages<DoTextWork, protocol::InjectCrash>;
  static constexpr const char* kName = "texts";
  static constexpr std::uint32_t kMostJobs = 64;  // that wait in the pool, for each actor

  TextActor(std::shared_ptr<const ModelDirectory> directory, std::shared_ptr<Restarts> restarts)
      : directory_(std::move(directory)), restarts_(std::move(restarts)) {}

  void on_start();
  protocol::Nothing on(DoTextWork work);
  protocol::Nothing on(const protocol::InjectCrash& crash);

  // Each returns the answer to its job. `wanted` returns whether the asker still waits; work stops when it does not.
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

// The job is destroyed and its time is charged before the answer is sent, since the asker may continue at once.
template <class Job>
void TextWorkOf<Job>::run(const TextActor& actor) {
  const std::uint64_t began = thread_us();
  typename Job::Reply made = actor.done(*job_, [this] { return reply_.wanted(); });
  const protocol::TextTime time = job_->caller().time;
  job_.reset();
  if (time) time->fetch_add(thread_us() - began, std::memory_order_relaxed);
  reply_.answer(std::move(made));
}

}  // namespace reprise::actors
