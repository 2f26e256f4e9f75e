#pragma once
// RequestActor: one request from its prompt to its last token, and what is done for its next turn.
//
// The work is that of plain classes over what they share (request_context.h): PromptRun prepares to prefills, ReplyRun
// decodes and keeps, IdleWork does the rest. The actor has their order.
//
//   prepare   render, tokenise, check
//   announce  the registry may let it wait for another with the same beginning
//   open      a sequence, when there is memory for it; then Admitted
//   restore   the deepest snapshot of its beginning
//   prefill   the rest; the worker tells the registry of the checkpoints on the way; then Started
//   decode    its choices, from one prefill: Delta, ..., Finished
//   keep      the state behind each reply, where it is canonical
//   settle    until the registry has adopted what was kept, for that goes with the sequence otherwise
//   verify    where that was asked for before the answer ends; then Done
// Whatever goes wrong on the way is told by one Failed. Its client is watched all the while.
//
// Several choices (n > 1) go on from a raw snapshot behind the prompt. The request's own sequence decodes one
// after the other, and others beside it as they get a sequence of their own: so n of them take what memory
// there is, hold up nobody, and come to their end in the memory for one.
//
// Afterwards, in idle time: the history that the next turn will probably begin with is prefilled, and a share
// of restored answers is recomputed cold and compared. A long reply has checkpoints inside it, for a client that leaves
// before its end, or sends it back changed: decoding takes them where its states are canonical; elsewhere they are taken
// by a prefill in idle time.
//
// Whatever way it ends, by itself, by its client, by a fault or by being stopped: the sequences, the lease
// and the flight end with the guards that hold them.
//
// Failure: what a request throws on its way becomes its Failed. An exception in one of its small handlers ends
// the actor, and its stream with it; the guards give back what it held either way.
//
// Threading: an actor on the pool, one for each request. RequestMeter is written by it and read by any thread: each figure is
// by itself, relaxed. RequestRoll: any thread; a short lock.

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/request/text_pool.h"
#include "actors/served/served_model.h"
#include "protocol/service.h"
#include "runtime/actor.h"
#include "runtime/cancel.h"

namespace reprise::actors {

struct RequestContext;
class PromptRun;
class ReplyRun;
class IdleWork;

/// How far a request is, for whoever looks at the engine (protocol::RunningRequest).
struct RequestMeter {
  RequestMeter(std::uint64_t its_number, std::string its_model)
      : number(its_number), model(std::move(its_model)) {}

  const std::uint64_t number;
  const std::string model;
  std::atomic<std::uint32_t> prompt_tokens{0};
  std::atomic<std::uint32_t> reused_tokens{0};
  std::atomic<std::uint32_t> reply_tokens{0};
  std::atomic<std::uint32_t> most_reply_tokens{0};
  std::atomic<bool> ended{false};  // the client has all that it gets
};

/// To every request of a model whose device hangs, or whose adapter goes: it will not answer.
struct ModelLost {
  std::string why;
  runtime::ActorId worker = 0;    // the device's; 0: of every model
  protocol::AdapterId adapter{};  // it is this adapter alone that goes; none: all of the device
};

/// Makes a request close the reasoning of its replies now, for its client (protocol/chat/reasoning_budget.h).
struct EndReasoning {};

struct RequestJob {
  std::shared_ptr<const protocol::GenerateRequest> request;
  std::shared_ptr<const ServedModel> model;
  std::optional<ServedAdapter> adapter{};  // of the model; none: as it is
  std::string name{};                      // of the two, to the client
  std::string name_space{};                // of the request and the adapter
  runtime::StreamWriter<protocol::Event> out;
  std::shared_ptr<const TextPool> texts;  // for long ones: other requests live on this actor's thread, too
  std::shared_ptr<const TextPool> mask_makers{};  // masks do not wait behind texts
  std::uint64_t tenant = 0;                       // as in protocol::OpenSequence
  std::uint64_t group = 0;
  std::shared_ptr<void> slot;             // held until the last event: the engine counts requests by it
  std::shared_ptr<void> idle_slot;        // may be null: then no idle work
  bool ends_trace = false;                // the request's trace was begun for this job
  std::shared_ptr<RequestMeter> meter{};  // null: nobody looks
};

class RequestActor : public runtime::Actor {
 public:
  using Accepts = runtime::Messages<ModelLost, EndReasoning>;
  static constexpr const char* kName = "request";
  static constexpr std::uint32_t kConcurrentHandlers = 64;

  explicit RequestActor(RequestJob job);
  ~RequestActor() override;

  void on_start();
  void on(ModelLost lost);
  void on(EndReasoning end);

 private:
  runtime::Task<void> run();
  runtime::Task<std::optional<protocol::ServiceError>> serve();
  runtime::Task<void> watch_client();

  const std::unique_ptr<RequestContext> request_;
  const std::unique_ptr<PromptRun> prompt_run_;
  const std::unique_ptr<ReplyRun> reply_run_;
  const std::unique_ptr<IdleWork> idle_work_;
  runtime::CancelSource end_of_watch_;  // for the client
  bool to_verify_ = false;
};

/// The requests that run, to be told when their model is lost, and to be looked at.
class RequestRoll {
 public:
  struct Entry {
    runtime::RefOf<RequestActor> request;
    std::shared_ptr<const RequestMeter> meter;
    std::string reply_id{};  // empty: none
    std::string tenant{};
  };

  void add(Entry entry);
  void tell_all(const ModelLost& lost);
  /// Sends EndReasoning to the tenant's requests whose replies have this id. Returns false if none is under way.
  bool end_reasoning(const std::string& reply_id, const std::string& tenant);
  std::size_t size();
  /// Those whose clients still wait for something, the oldest first.
  std::vector<protocol::RunningRequest> running() const;

 private:
  mutable std::mutex mutex_;
  std::vector<Entry> requests_;
  std::size_t prune_at_ = 64;
};

}  // namespace reprise::actors
