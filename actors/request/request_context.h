#pragma once
// What the parts of a request share (actors/request/request_actor.h): its job, its client, what it computes, and how what
// goes wrong is told; and the guards that give back what it holds.
//
// Threading: the request actor's.

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/cache/checkpoint_plan.h"
#include "actors/request/request_actor.h"
#include "runtime/cancel.h"

namespace reprise::actors {

/// Bytes of text that are rendered and tokenised in the request's own turn.
inline constexpr std::size_t kShortText = 32u << 10;

/// A sequence, or the wait for one: closed with its end.
class OpenedSequence {
 public:
  explicit OpenedSequence(const ServedModel& model)
      : worker_(model.worker), arch_(model.arch.arch), ticket_(next_ticket()) {}
  ~OpenedSequence() { worker_.tell(protocol::CloseSequence{.arch = arch_, .ticket = ticket_}); }
  OpenedSequence(const OpenedSequence&) = delete;
  OpenedSequence& operator=(const OpenedSequence&) = delete;

  std::uint64_t ticket() const { return ticket_; }
  protocol::SequenceId id{};

 private:
  static std::uint64_t next_ticket() {
    static std::atomic<std::uint64_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;  // relaxed: hands out numbers
  }

  runtime::RefOf<DeviceWorker> worker_;
  protocol::ArchId arch_;
  std::uint64_t ticket_;
};

/// A prompt in flight, with the lease that it may hold: both end with it, and the registry forgets it.
class FlightGuard {
 public:
  explicit FlightGuard(runtime::RefOf<PrefixRegistry> registry)
      : registry_(std::move(registry)), number_(next_number()) {}
  ~FlightGuard() { registry_.tell(protocol::EndFlight{.flight = number_}); }
  FlightGuard(const FlightGuard&) = delete;
  FlightGuard& operator=(const FlightGuard&) = delete;

  protocol::FlightNumber number() const { return number_; }

 private:
  static protocol::FlightNumber next_number() {
    static std::atomic<protocol::FlightNumber> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;  // relaxed: hands out numbers
  }

  runtime::RefOf<PrefixRegistry> registry_;
  const protocol::FlightNumber number_;
};

/// Tokens on their way into a sequence: the request's prompt, or idle work for it.
struct Computation {
  SharedTokens tokens;
  std::uint32_t max_tokens = 0;  // to be decoded afterwards
  KvBudget kv{};                 // that it is compacted to; 0 tokens: it is not
  bool reads_cache = false;
  bool writes_cache = false;
  protocol::FlightNumber request = 0;  // on whose behalf
  std::uint64_t conversation = 0;
  std::uint32_t keep = 0;  // the place where its last user message ends

  std::optional<protocol::Announced> announced{};
  protocol::FlightNumber number = 0;  // of its flight, also when that has ended
  std::unique_ptr<FlightGuard> flight{};
  std::unique_ptr<OpenedSequence> sequence{};
  std::vector<std::uint32_t> wanted{};
  std::uint32_t reported = 0;  // of its checkpoints, to the registry
  std::vector<PlannedCheckpoint> plan{};
  protocol::CacheReport report{};
  std::uint64_t digest = 0;
  protocol::Prefill::Hidden wants_hidden = protocol::Prefill::Hidden::kNone;
  std::vector<float> hidden{};
  std::optional<KvKept> kept{};

  /// Of the prompt, to restore: what compaction looks back from must be computed.
  std::uint32_t most_restored() const {
    return kv.tokens == 0 ? UINT32_MAX : static_cast<std::uint32_t>(tokens->size()) - kv.window;
  }
};

/// Nothing: it went well.
using RequestFailure = std::optional<protocol::ServiceError>;

struct RequestContext {
  RequestFailure failure_of(const protocol::JobError& error) const;
  RequestFailure failure_of(const runtime::Error& error) const {
    return unanswered(error.code, error.describe());
  }
  RequestFailure unanswered(runtime::ErrorCode code, const std::string& what) const;
  bool caches() const;
  protocol::AdapterId adapter() const {
    return job.adapter ? job.adapter->loaded.adapter : protocol::AdapterId{};
  }
  /// Everything that waits for this request's sake comes to its end.
  void break_off();
  double since_arrival_ms() const;
  const traces::RequestTrace& trace() const { return job.request->trace; }

  RequestJob job;
  const std::function<void(runtime::Task<void>)> launch;  // beside what the request does, on its actor
  const runtime::TimePoint arrival = runtime::Clock::now();
  runtime::CancelSource lost{};       // the client has gone, or the device
  runtime::CancelSource all_begun{};  // no choice is left for another sequence
  bool client_gone = false;
  bool ends_reasoning = false;  // for its client's sake
  std::string lost_why{};
  PreparedPrompt prompt{};
  std::unique_ptr<Computation> main{};
  protocol::Usage usage{};
};

}  // namespace reprise::actors
