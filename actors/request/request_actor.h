#pragma once
// RequestActor serves one request, from its prompt to its last token, and does idle work for the client's
// next turn. The work is done by plain classes that share a RequestContext: PromptRun (prepare to prefill),
// ReplyRun (decode, keep) and IdleWork. The actor runs their phases in order:
//
//   prepare   render, tokenize, check
//   announce  tell the registry, which may let it wait for another request with the same prefix
//   open      wait for a sequence; then Admitted
//   restore   restore the deepest snapshot of the prompt
//   prefill   compute the rest, with checkpoints; then Started
//   decode    decode all choices: Delta, ..., Finished. The prefill carries the decoding of a single choice, so
//             that its first token needs no further message
//   keep      snapshot the state after each reply, if it is canonical
//   settle    wait until the registry has adopted the snapshots, which are freed with the sequence otherwise
//   verify    compare with a cold run, if requested; then Done
// An error ends the request with one Failed. The client is watched throughout.
//
// Several choices (n > 1) start from a raw snapshot after the prompt. The request's own sequence decodes them
// one after the other, and additional sequences take some as they are admitted. So n choices need only the
// memory of one, and delay no other request.
//
// In idle time the request prefills the history with which the next turn will probably begin, and verifies a
// share of restored prompts. A long reply gets checkpoints inside it, for clients that leave early or edit
// it: from decoding if its states are canonical, otherwise from an idle prefill.
//
// However a request ends, guards release its sequences, lease and flight. An exception in the request becomes
// its Failed; one in another handler ends the actor and thereby the stream.
//
// Threading: an actor on the pool, one per request. RequestMeter is written by it and read by any thread;
// relaxed, since each figure is read by itself. ActiveRequests may be used from any thread; it holds a mutex
// briefly.

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/models/served_model.h"
#include "protocol/service.h"
#include "runtime/actor.h"
#include "runtime/cancel.h"

namespace reprise::actors {

class TextPool;
struct RequestContext;
class PromptRun;
class ReplyRun;
class IdleWork;

/// Progress of a request, for observers of the engine (protocol::RunningRequest).
struct RequestMeter {
  RequestMeter(std::uint64_t its_number, std::string its_model)
      : number(its_number), model(std::move(its_model)) {}

  const std::uint64_t number;
  const std::string model;
  std::atomic<std::uint32_t> prompt_tokens{0};
  std::atomic<std::uint32_t> reused_tokens{0};
  std::atomic<std::uint32_t> reply_tokens{0};
  std::atomic<std::uint32_t> max_reply_tokens{0};
  std::atomic<bool> ended{false};  // for its client
};

/// Sent to all requests of a model whose device hangs or whose adapter is unloaded: no answer will come.
struct ModelLost {
  std::string why;
  runtime::ActorId worker = 0;    // worker of the device; 0: any
  protocol::AdapterId adapter{};  // only requests with this adapter; none: all
};

/// Ends the reasoning of the request's replies now, for its client (protocol/chat/reasoning_budget.h).
struct EndReasoning {};

struct RequestJob {
  std::shared_ptr<const protocol::GenerateRequest> request;
  std::shared_ptr<const ServedModel> model;
  std::optional<ServedAdapter> adapter{};  // nullopt: the model without an adapter
  std::string name{};                      // name for the client
  std::string name_space{};                // cache namespace of request and adapter
  runtime::StreamWriter<protocol::Event> out;
  std::shared_ptr<const TextPool> texts;  // processes long texts: this thread is shared with other requests
  std::shared_ptr<const TextPool> mask_makers{};  // separate, so that masks do not wait for texts
  std::uint64_t tenant = 0;                       // as in protocol::OpenSequence
  std::uint64_t group = 0;
  std::shared_ptr<void> slot;             // held until the last event; the engine counts requests by it
  std::shared_ptr<void> idle_slot;        // null: no idle work
  bool ends_trace = false;                // the trace began with this job
  std::shared_ptr<RequestMeter> meter{};  // may be null
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
  runtime::Task<std::optional<protocol::Error>> serve();
  runtime::Task<void> watch_client();

  const std::unique_ptr<RequestContext> request_;
  const std::unique_ptr<PromptRun> prompt_run_;
  const std::unique_ptr<ReplyRun> reply_run_;
  const std::unique_ptr<IdleWork> idle_work_;
  runtime::CancelSource end_of_watch_;  // stops watch_client()
  bool to_verify_ = false;
};

/// The running requests, to list them and to pass on ModelLost.
class ActiveRequests {
 public:
  struct Entry {
    runtime::RefOf<RequestActor> request;
    std::shared_ptr<const RequestMeter> meter;
    std::string reply_id{};  // empty: none
    std::string tenant{};
  };

  void add(Entry entry);
  void tell_all(const ModelLost& lost);
  /// Sends EndReasoning to the tenant's requests with this reply id. Returns false if there is none.
  bool end_reasoning(const std::string& reply_id, const std::string& tenant);
  std::size_t size();
  /// Returns the requests whose clients still wait, the oldest first.
  std::vector<protocol::RunningRequest> running() const;

 private:
  mutable std::mutex mutex_;
  std::vector<Entry> requests_;
  std::size_t prune_at_ = 64;
};

}  // namespace reprise::actors
