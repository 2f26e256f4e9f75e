#pragma once
// A fake worker and a fake registry for tests of requests: they record what requests hold, and delay or fail
// an answer where the test says so.

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "actors/cache/registry_figures.h"
#include "actors/request/request_actor.h"
#include "protocol/cache_view.h"
#include "runtime/system.h"

namespace reprise::actors {

using protocol::Error;
using protocol::ErrorKind;
using protocol::JobResult;
using protocol::MissReason;

/// Where a peer delays the request, or makes it fail.
enum class At : std::uint8_t {
  kNowhere,
  kAnnounce,
  kOpen,
  kLookup,
  kLoad,  // a state from a tier
  kRestore,
  kPrefill,
  kKeepPrompt,  // n > 1
  kDecode,
  kTurnEnd,
  kSettle,
};

/// The resources that the peers hold for requests, and the peers' behavior.
struct Script {
  std::atomic<At> hold{At::kNowhere};
  std::atomic<bool> held{false};  // a request waits there
  std::atomic<At> fail{At::kNowhere};
  std::atomic<ErrorKind> fault{ErrorKind::kDeviceFailed};
  std::atomic<bool> knows_prefix{true};
  std::atomic<bool> cancels_idle{false};  // prefills of idle sequences are canceled
  std::atomic<bool> holds_idle{false};    // prefills of idle sequences wait for LetGo
  std::atomic<bool> brings{false};        // the registry has a state from a lower tier

  std::mutex mutex;
  // All guarded by mutex.
  std::set<std::uint64_t> tickets;
  std::set<protocol::FlightNumber> flights;
  std::set<protocol::FlightNumber> leases;
  std::vector<MissReason> ended_leases;
  std::vector<std::uint32_t> brought;  // tokens, as reported at the ends of leases
  std::vector<std::uint32_t> settled;
  std::vector<protocol::SharedPlan> plans;           // of prefills
  std::vector<protocol::SharedPlan> snapshot_plans;  // of canonical snapshots
  std::vector<SharedTokens> prefilled;               // tokens of prefills
  std::vector<protocol::Priority> priorities;        // of opened sequences
  std::set<std::uint64_t> idle_sequences;
  std::map<std::uint64_t, std::uint64_t> snapshots;    // raw snapshot -> its sequence
  std::map<std::uint64_t, std::uint32_t> held_tokens;  // sequence -> restored tokens
  std::optional<std::uint32_t> branch;                 // announced
  std::vector<std::uint32_t> wanted;                   // positions that other requests wait for
  TokenList reply;                                     // empty: as many as asked for, by the prompt
  std::uint32_t messages_to_decode = 0;                // Decode messages; others came with a prefill
  std::uint32_t lookups = 0;
  std::uint32_t dropped = 0;
  bool closed_unsettled = false;
  bool settling = false;

  bool nothing_held() {
    const std::lock_guard lock(mutex);
    return tickets.empty() && flights.empty() && leases.empty() && snapshots.empty();
  }
};

struct LetGo {};

/// Holds or fails the answer if the script says so.
template <class Reply>
bool holds(Script& script, At at, std::vector<std::function<void()>>& later, runtime::ReplyTo<Reply>& reply,
           const Reply& answer) {
  if (script.hold != at) return false;
  auto kept = std::make_shared<runtime::ReplyTo<Reply>>(std::move(reply));
  later.push_back([kept, answer] { kept->answer(answer); });
  script.held = true;
  return true;
}

/// The messages of a ref, and one more.
template <class Ref, class More>
struct WithMore;
template <class... Ms, class More>
struct WithMore<runtime::Ref<Ms...>, More> {
  using Type = runtime::Messages<Ms..., More>;
};

/// Samples `Script::reply`, or tokens that depend on the prompt.
class ScriptedWorker : public runtime::Actor {
 public:
  using Accepts = WithMore<protocol::SequenceRef, LetGo>::Type;
  explicit ScriptedWorker(std::shared_ptr<Script> script) : script_(std::move(script)) {}

  void on(protocol::OpenSequence job, runtime::ReplyTo<JobResult<protocol::Opened>> reply) {
    {
      const std::lock_guard lock(script_->mutex);
      script_->tickets.insert(job.ticket);
      script_->priorities.push_back(job.priority);
      if (job.priority == protocol::Priority::kIdle) script_->idle_sequences.insert(job.ticket);
    }
    answer(At::kOpen, std::move(reply),
           protocol::Opened{.sequence = {.generation = 1, .number = job.ticket}});
  }
  void on(protocol::CloseSequence job) {
    const std::lock_guard lock(script_->mutex);
    script_->tickets.erase(job.ticket);
    std::erase_if(script_->snapshots, [&](const auto& one) { return one.second == job.ticket; });
    script_->closed_unsettled = script_->closed_unsettled || script_->settling;
  }
  void on(protocol::Cancel) {}
  void on(protocol::LeaveOff) {  // the prefill ends soon
    if (script_->hold == At::kPrefill) on(LetGo{});
  }
  void on(protocol::RestoreKv job, runtime::ReplyTo<JobResult<protocol::Restored>> reply) {
    note_restored(At::kRestore, job.sequence, job.at);
    answer(At::kRestore, std::move(reply), protocol::Restored{.tokens = job.at});
  }
  void on(protocol::LoadKv job, runtime::ReplyTo<JobResult<protocol::Restored>> reply) {
    note_restored(At::kLoad, job.sequence, job.state->stored);
    answer(At::kLoad, std::move(reply), protocol::Restored{.tokens = job.state->stored});
  }
  void on(protocol::SnapshotKv job, runtime::ReplyTo<JobResult<protocol::SnapshotTaken>> reply) {
    const bool raw = job.kind == protocol::SnapshotKv::Kind::kRaw;
    protocol::SnapshotTaken taken{.snapshot = {.generation = 1, .number = ++snapshots_}, .tokens = 12};
    taken.reported = !raw;
    {
      const std::lock_guard lock(script_->mutex);
      if (raw) script_->snapshots[snapshots_] = job.sequence.number;
      if (!raw) script_->snapshot_plans.push_back(job.plan);
    }
    answer(raw ? At::kKeepPrompt : At::kTurnEnd, std::move(reply), taken);
  }
  void on(protocol::Prefill job, runtime::ReplyTo<JobResult<protocol::Prefilled>> reply) {
    std::uint32_t held = 0;
    bool idle = false;
    {
      const std::lock_guard lock(script_->mutex);
      script_->plans.push_back(job.plan);
      script_->prefilled.push_back(job.tokens);
      held = script_->held_tokens[job.sequence.number];
      idle = script_->idle_sequences.contains(job.sequence.number);
    }
    prompt_ = job.tokens;
    if (job.progress) {
      std::uint32_t processed = 9;
      static_cast<void>(job.progress.try_write(processed));
      progress_ = std::move(job.progress);
    }
    using Answer = JobResult<protocol::Prefilled>;
    if (idle && script_->cancels_idle) {
      return reply.answer(Answer(Error{ErrorKind::kCanceled, "a request needs the memory"}));
    }
    if (idle && script_->holds_idle) script_->hold = At::kPrefill;
    const auto reported = static_cast<std::uint32_t>(job.plan ? job.plan->checkpoints.size() : 0);
    answer(At::kPrefill, std::move(reply),
           protocol::Prefilled{.computed = job.end - held, .reported = reported});
    if (job.decode && script_->fail != At::kPrefill) begin(std::move(*job.decode));
  }
  void on(protocol::Decode job) {
    {
      const std::lock_guard lock(script_->mutex);
      ++script_->messages_to_decode;
    }
    begin(std::move(job));
  }
  void begin(protocol::Decode job) {
    if (script_->fail == At::kDecode) {
      protocol::DecodeEvent event{.end = protocol::DecodeEnd::kFault, .error = {script_->fault, "a test"}};
      static_cast<void>(job.out.try_write(event));
      return job.out.close();
    }
    if (script_->hold == At::kDecode) {
      auto kept = std::make_shared<protocol::Decode>(std::move(job));
      later_.push_back([this, kept] { decode(*kept); });
      script_->held = true;
    } else {
      decode(job);
    }
  }
  protocol::Dropped on(protocol::DropKvSnapshot job) {
    const std::lock_guard lock(script_->mutex);
    ++script_->dropped;
    script_->snapshots.erase(job.snapshot.number);
    return {};
  }
  void on(LetGo) {
    for (const auto& one : std::exchange(later_, {})) one();
  }

  // Not used by requests.
  void on(protocol::MaskReady) {}

 private:
  template <class T>
  void answer(At at, runtime::ReplyTo<JobResult<T>> reply, T value) {
    JobResult<T> result(std::move(value));
    if (script_->fail == at) result = Error{script_->fault, "a test"};
    if (!holds(*script_, at, later_, reply, result)) reply.answer(std::move(result));
  }
  void note_restored(At at, protocol::SequenceId sequence, std::uint32_t tokens) {
    if (script_->fail == at) return;
    const std::lock_guard lock(script_->mutex);
    script_->held_tokens[sequence.number] = tokens;
  }
  void decode(protocol::Decode& job) {
    TokenList reply;
    {
      const std::lock_guard lock(script_->mutex);
      reply = script_->reply;
    }
    const auto first = static_cast<std::uint32_t>(token_hash(*prompt_) % 50);
    for (std::uint32_t i = 0; reply.size() < job.max_tokens; ++i) {
      reply.push_back(static_cast<TokenId>(first + i));
    }
    for (std::uint32_t i = 0; i < job.max_tokens; ++i) {
      protocol::DecodeEvent event{.token = protocol::DecodedToken{.token = reply[i]}};
      if (i + 1 == job.max_tokens) event.end = protocol::DecodeEnd::kLength;
      static_cast<void>(job.out.try_write(event));
    }
    job.out.close();
  }

  const std::shared_ptr<Script> script_;
  std::vector<std::function<void()>> later_;
  std::uint64_t snapshots_ = 0;
  SharedTokens prompt_;  // the newest
  runtime::StreamWriter<std::uint32_t> progress_;
};

class ScriptedRegistry : public runtime::Actor {
 public:
  using Accepts = WithMore<protocol::RegistryRef, LetGo>::Type;
  explicit ScriptedRegistry(std::shared_ptr<Script> script) : script_(std::move(script)) {}

  void on(protocol::Announce announce, runtime::ReplyTo<protocol::Announced> reply) {
    protocol::Announced announced{.known = 8, .restorable = 8};
    {
      const std::lock_guard lock(script_->mutex);
      script_->flights.insert(announce.flight);
      announced.branch = script_->branch;
    }
    if (!holds(*script_, At::kAnnounce, later_, reply, announced)) reply.answer(announced);
  }
  void on(protocol::Lookup lookup, runtime::ReplyTo<protocol::LookedUp> reply) {
    protocol::LookedUp found;
    {
      const std::lock_guard lock(script_->mutex);
      ++script_->lookups;
      found.wanted = script_->wanted;
      if (script_->knows_prefix) {
        found.restore = protocol::LookedUp::Restore{
            .snapshot = {.generation = 1, .number = 900}, .at = 8, .origin = protocol::Origin::kHistory};
        script_->leases.insert(lookup.flight);
      } else {
        found.reason = MissReason::kNeverSeen;
      }
      if (script_->brings) {
        auto state = std::make_shared<protocol::HostState>();
        state->stored = state->logical = 9;
        found.brought = protocol::LookedUp::Brought{
            .state = std::move(state), .origin = protocol::Origin::kTurnEnd, .tier = protocol::Tier::kDisk};
      }
    }
    if (!holds(*script_, At::kLookup, later_, reply, found)) reply.answer(found);
  }
  void on(protocol::EndLease end) {
    const std::lock_guard lock(script_->mutex);
    script_->leases.erase(end.flight);
    script_->ended_leases.push_back(end.failed);
    script_->brought.push_back(end.brought_tokens);
  }
  void on(protocol::Settle settle, runtime::ReplyTo<protocol::FlightSettled> reply) {
    {
      const std::lock_guard lock(script_->mutex);
      script_->settled.push_back(settle.reported);
      script_->settling = script_->hold == At::kSettle;
    }
    if (!holds(*script_, At::kSettle, later_, reply, protocol::FlightSettled{})) {
      reply.answer(protocol::FlightSettled{});
    }
  }
  protocol::Pinned on(protocol::Pin) { return {}; }
  protocol::CacheView on(protocol::ViewCache) { return {}; }
  void on(protocol::EndFlight end) {
    const std::lock_guard lock(script_->mutex);
    script_->flights.erase(end.flight);
    script_->leases.erase(end.flight);
  }
  void on(LetGo) {
    {
      const std::lock_guard lock(script_->mutex);
      script_->settling = false;
    }
    for (const auto& one : std::exchange(later_, {})) one();
  }

  // Not used by requests in these tests.
  void on(protocol::DropEntry) {}
  protocol::Nothing on(protocol::DropNamespaces) { return {}; }

 private:
  const std::shared_ptr<Script> script_;
  std::vector<std::function<void()>> later_;
};

/// Returns a model of 100 tokens that decodes canonical states, without a tokenizer.
inline std::shared_ptr<ServedModel> scripted_model(runtime::RefOf<ScriptedWorker> worker,
                                                   runtime::RefOf<ScriptedRegistry> registry) {
  auto model = std::make_shared<ServedModel>();
  model->card.id = std::string("m");
  model->card.context = 10'000;
  model->card.vocab = 100;
  model->arch = {.arch = {.generation = 1, .number = 1}, .device = {}, .architecture = {}, .vocab = 100};
  model->arch.context = 10'000;
  model->arch.token_bytes = 4;
  model->arch.page_tokens = 64;
  model->arch.slot_bytes = 64;
  model->arch.state_bytes = 1 << 20;
  model->arch.decode_is_canonical = true;
  model->worker = std::move(worker);
  model->registry = std::move(registry);
  model->registry_figures = std::make_shared<RegistryFigures>();
  return model;
}

}  // namespace reprise::actors
