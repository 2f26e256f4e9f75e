#pragma once
// The parts of a request, and the guards that give back what it holds (actors/request/request_actor.h).
//
// Threading: the request actor's.

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actors/cache/checkpoint_plan.h"
#include "actors/request/request_actor.h"
#include "protocol/chat/reasoning_budget.h"

namespace reprise::actors {

/// Bytes of text that are rendered and tokenised in the request's own turn.
inline constexpr std::size_t kShortText = 32u << 10;

/// A sequence, or the wait for one: closed with its end.
class RequestActor::OpenedSequence {
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
class RequestActor::FlightGuard {
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
struct RequestActor::Computation {
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

/// One of the request's n answers.
struct RequestActor::Choice {
  std::uint32_t index = 0;
  protocol::SequenceId sequence{};  // that decodes it
  runtime::StreamReader<protocol::DecodeEvent> in{};
  std::optional<models::TextStream> text{};
  std::shared_ptr<protocol::grammar::ReplyConstraint> constraint{};  // null: all tokens may come
  std::optional<protocol::ReasoningBudget> budget{};                 // none: reasoning is unlimited
  std::shared_ptr<MaskSlot> masks{};  // of both, for the device; null: it is never masked
  TokenList tokens{};
  std::string reply{};
  std::uint32_t reported = 0;  // checkpoints of its decoding, to the registry
  bool finished = false;
  std::optional<std::size_t>
      said{};  // of its tokens, without the one that ended it; nothing where it was cut
  protocol::SharedTurn
      turn{};  // kept for a client that sends it back; null: it has no calls and no reasoning
};

}  // namespace reprise::actors
