#pragma once
// RequestContext is shared by the parts of a request (actors/request/request_actor.h): job, client,
// computation, error reporting. Guards release the sequence and the flight.
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
#include "actors/request/prompt_text.h"
#include "actors/request/request_actor.h"
#include "runtime/cancel.h"

namespace reprise::actors {

/// Texts up to this many bytes are rendered and tokenized on the request's own thread.
inline constexpr std::size_t kShortText = 32u << 10;

/// A sequence, or the wait for one; the destructor closes it.
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
    return last.fetch_add(1, std::memory_order_relaxed) + 1;  // relaxed: numbers only have to be unique
  }

  protocol::SequenceRef worker_;
  protocol::ArchId arch_;
  std::uint64_t ticket_;
};

/// A prompt in flight; the destructor ends it and its lease in the registry.
class FlightGuard {
 public:
  explicit FlightGuard(protocol::RegistryRef registry)
      : registry_(std::move(registry)), number_(next_number()) {}
  ~FlightGuard() { registry_.tell(protocol::EndFlight{.flight = number_}); }
  FlightGuard(const FlightGuard&) = delete;
  FlightGuard& operator=(const FlightGuard&) = delete;

  protocol::FlightNumber number() const { return number_; }

 private:
  static protocol::FlightNumber next_number() {
    static std::atomic<protocol::FlightNumber> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;  // relaxed: numbers only have to be unique
  }

  protocol::RegistryRef registry_;
  const protocol::FlightNumber number_;
};

/// A prompt to be computed in a sequence: the request's own, or idle work for it.
struct Computation {
  SharedTokens tokens;
  std::uint32_t max_tokens = 0;
  KvBudget kv{};  // 0 tokens: none
  bool reads_cache = false;
  bool writes_cache = false;
  protocol::FlightNumber request = 0;  // flight of the request that it serves
  std::uint64_t conversation = 0;
  std::uint32_t keep = 0;  // position of the end of its last user message

  std::optional<protocol::Announced> announced{};
  protocol::FlightNumber number = 0;  // remains after the flight has ended
  std::unique_ptr<FlightGuard> flight{};
  std::unique_ptr<OpenedSequence> sequence{};
  std::vector<std::uint32_t> wanted{};
  std::uint32_t reported = 0;  // checkpoints reported to the registry
  std::vector<PlannedCheckpoint> plan{};
  protocol::CacheReport report{};
  std::uint64_t digest = 0;
  protocol::Prefill::Hidden wants_hidden = protocol::Prefill::Hidden::kNone;
  std::vector<float> hidden{};
  std::optional<KvKept> kept{};

  /// Returns how many tokens may be restored: the window whose queries compaction uses must be computed.
  std::uint32_t max_restored() const {
    return kv.tokens == 0 ? UINT32_MAX : static_cast<std::uint32_t>(tokens->size()) - kv.window;
  }
};

/// nullopt: success.
using RequestFailure = std::optional<protocol::Error>;

struct RequestContext {
  RequestFailure failure_of(const protocol::Error& error) const;
  RequestFailure failure_of(const runtime::Error& error) const {
    return unanswered(error.code, error.describe());
  }
  RequestFailure unanswered(runtime::ErrorCode code, const std::string& what) const;
  bool caches() const;
  protocol::AdapterId adapter() const {
    return job.adapter ? job.adapter->loaded.adapter : protocol::AdapterId{};
  }
  /// Ends all waits of this request.
  void break_off();
  double since_arrival_ms() const;
  const traces::RequestTrace& trace() const { return job.request->origin.trace; }

  RequestJob job;
  const std::function<void(runtime::Task<void>)> launch;  // runs a task on the request's actor
  const runtime::TimePoint arrival = runtime::Clock::now();
  runtime::CancelSource lost{};       // ends when client or device is lost
  runtime::CancelSource all_begun{};  // canceled when no choice is left to begin
  bool client_gone = false;
  bool ends_reasoning = false;  // the client asked to end reasoning
  std::string lost_why{};
  PreparedPrompt prompt{};
  std::unique_ptr<Computation> main{};
  protocol::Usage usage{};
};

}  // namespace reprise::actors
