#pragma once
// RequestActor: one request from its prompt to its last token, and what is done for its next turn.
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
// Threading: an actor on the pool, one for each request.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/request/progress_pace.h"
#include "actors/request/prompt_text.h"
#include "actors/request/request_meter.h"
#include "actors/request/text_pool.h"
#include "actors/served/served_model.h"
#include "models/text/text_stream.h"
#include "protocol/reply/reply_parser.h"
#include "protocol/service.h"
#include "runtime/actor.h"
#include "runtime/event.h"

namespace reprise::actors {

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
  using Failure = std::optional<protocol::ServiceError>;
  using Restoring = protocol::JobResult<protocol::Restored>;
  struct Choice;
  class OpenedSequence;
  class FlightGuard;
  struct Computation;

  runtime::Task<void> run();
  runtime::Task<Failure> serve();
  runtime::Task<void> watch_client();
  runtime::Task<Failure> prepare();
  /// Turns of the chat that only a store outside of the process may know.
  runtime::Task<void> fetch_turns();
  /// What its prompt is compacted to, nothing where that is not wanted, or the prompt is no longer.
  Failure settle_budget(Computation& computation) const;
  protocol::Progress progress_at(std::uint32_t processed) const;
  /// Tells the client of slices of the prompt that were computed, while that prefill lasts.
  runtime::Task<void> tell_slices(runtime::StreamReader<std::uint32_t> slices);

  // -- request_prefill.cc
  runtime::Task<Failure> enter(Computation& computation, protocol::Priority priority);
  runtime::Task<Failure> announce(Computation& computation);
  runtime::Task<Failure> open(Computation& computation, protocol::Priority priority);
  runtime::Task<Failure> restore(Computation& computation);
  /// What a lookup has found. The report has its tokens, or why it has not.
  runtime::Task<Failure> restore_found(Computation& computation, protocol::LookedUp::Restore from);
  /// What a tier below has brought. The report has its tokens, or why it has not.
  runtime::Task<Failure> load(Computation& computation, const protocol::LookedUp& found);
  runtime::Task<Failure> prefill(Computation& computation, bool want_digest);
  /// In the place of decoding, where the prompt's hidden state is all that is wanted.
  runtime::Task<Failure> give_embedding();
  protocol::CheckpointPlan plan_of(const Computation& computation) const;
  runtime::Task<void> settle(protocol::FlightNumber flight, std::uint32_t reported);
  runtime::Task<void> all_settled();
  runtime::Task<void> pin_prompt();

  // -- request_decode.cc
  runtime::Task<Failure> decode();
  runtime::Task<Failure> keep_prompt();
  runtime::Task<void> decode_beside();
  runtime::Task<Failure> decode_on_first();
  runtime::Task<Failure> decode_next(OpenedSequence& sequence);
  runtime::Task<Restoring> restore_prompt(OpenedSequence& sequence);
  void start_decoding(Choice& choice, OpenedSequence& sequence);
  void begin_budget(Choice& choice);
  std::uint64_t first_masked(Choice& choice) const;
  bool allow_next(Choice& choice);
  runtime::Task<Failure> give_made_mask(Choice& choice);
  runtime::Task<Failure> next_token(Choice& choice);
  runtime::Task<bool> send(protocol::Event event);
  runtime::Task<void> keep_turn_end(Choice& choice);
  /// The reply as the message that its client gets.
  Json message_of(const Choice& choice) const;
  /// Remembers the turn as it was sampled, for a client that sends it back (protocol/sampled_turns.h).
  void keep_turn(Choice& choice);
  /// Where the first tool call of the first choice begins in its sequence, on the grid; 0: it has none.
  std::uint32_t call_opener_at() const;

  // -- request_after.cc
  runtime::Task<void> prefill_history();
  /// The prompt and what there is of the reply, where decoding has left no checkpoints inside it.
  runtime::Task<void> prefill_reply();
  /// From the cache, and the rest with checkpoints at the end, of this origin, and on the way.
  runtime::Task<void> prefill_idle(TokenList tokens, protocol::Origin at_end);
  bool left_off_in_reply() const;
  /// Whether the restored answer is what a cold run gives; true also where that could not be found out.
  runtime::Task<bool> verify(protocol::Priority priority);

  Failure failure_of(const protocol::JobError& error) const;
  Failure failure_of(const runtime::Error& error) const { return unanswered(error.code, error.describe()); }
  Failure unanswered(runtime::ErrorCode code, const std::string& what) const;
  bool caches() const;
  protocol::AdapterId adapter() const {
    return job_.adapter ? job_.adapter->loaded.adapter : protocol::AdapterId{};
  }
  /// Everything that waits for this request's sake comes to its end.
  void break_off();
  double since_arrival_ms() const;
  const traces::RequestTrace& trace() const { return job_.request->trace; }

  RequestJob job_;
  const runtime::TimePoint arrival_;
  runtime::CancelSource lost_;          // the client has gone, or the device
  runtime::CancelSource end_of_watch_;  // for the client
  bool client_gone_ = false;
  bool prefilling_ = false;      // the prompt, with checkpoints
  bool tells_slices_ = false;    // of the prompt
  bool told_sampling_ = false;   // to the prefill, which may draw the first token
  bool ends_reasoning_ = false;  // for its client's sake
  std::string lost_why_;

  PreparedPrompt prompt_;
  std::unique_ptr<Computation> main_;
  std::uint32_t settling_ = 0;  // waits for checkpoints to be adopted
  runtime::Event settled_;

  std::vector<std::unique_ptr<Choice>> choices_;
  std::size_t choices_begun_ = 0;
  protocol::SnapshotId kept_prompt_{};  // n > 1: what choices go on from
  runtime::CancelSource all_begun_;     // no choice is left for another sequence
  std::uint32_t beside_ = 0;            // sequences beside the first, and waits for them
  runtime::Event beside_ended_;
  Failure beside_failed_;  // that one of them failed first of all
  bool writing_ = false;   // an event waits for the client's credit
  runtime::Event written_;

  protocol::Usage usage_;
  std::uint64_t digest_ = 0;
  bool to_verify_ = false;
};

}  // namespace reprise::actors
