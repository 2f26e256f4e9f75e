#pragma once
// ReplyRun decodes the choices of a request and sends them as events to the client (the phases decode and
// keep of actors/request/request_actor.h).
//
// Threading: the request actor's. Its tasks must not outlive it.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/request/prompt_run.h"
#include "models/text/text_stream.h"
#include "protocol/chat/reasoning_budget.h"
#include "protocol/grammar/mask_maker.h"
#include "runtime/event.h"

namespace reprise::actors {

class ReplyRun {
 public:
  using Failure = RequestFailure;

  struct Choice {
    std::uint32_t index = 0;
    protocol::SequenceId sequence{};
    runtime::StreamReader<protocol::DecodeEvent> in{};
    std::optional<models::TextStream> text{};
    std::shared_ptr<protocol::grammar::ReplyConstraint> constraint{};  // null: unconstrained
    std::optional<protocol::ReasoningBudget> budget{};                 // nullopt: unlimited
    std::shared_ptr<MaskSlot> masks{};  // given to the device; null: never masked
    TokenList tokens{};
    std::string reply{};
    std::uint32_t reported = 0;  // checkpoints reported to the registry
    bool finished = false;
    std::optional<std::size_t> said{};  // tokens without the stop token; nullopt: cut off
    protocol::SharedTurn turn{};        // as sampled, kept for the next request; null: no calls, no reasoning
  };

  /// Both arguments must outlive it.
  ReplyRun(RequestContext& request, PromptRun& prompt_run) : request_(request), prompt_run_(prompt_run) {}

  /// Creates the choices. Returns the decoding of the only one, for the prefill to carry; nullopt if there
  /// are several, or for an embedding request.
  std::optional<protocol::Decode> begin();
  runtime::Task<Failure> decode();
  /// Sends the hidden state of the prompt instead of decoding, for an embedding request.
  runtime::Task<Failure> give_embedding();
  runtime::Task<bool> send(protocol::Event event);
  /// Ends the reasoning of all choices now.
  void end_reasoning();

  const std::vector<std::unique_ptr<Choice>>& choices() const { return choices_; }
  /// Returns the reply as the message that the client gets.
  Json message_of(const Choice& choice) const;
  /// Returns the position before the first tool call of the first choice, rounded to the grid; 0 if it has
  /// none.
  std::uint32_t call_opener_at() const;

 private:
  using Restoring = protocol::JobResult<protocol::Restored>;

  runtime::Task<Failure> keep_prompt();
  runtime::Task<void> decode_on_additional();
  runtime::Task<Failure> decode_on_first();
  runtime::Task<Failure> decode_next(OpenedSequence& sequence);
  runtime::Task<Restoring> restore_prompt(OpenedSequence& sequence);
  /// Prepares the choice to be decoded and returns the job for it.
  protocol::Decode start_decoding(Choice& choice, const OpenedSequence& sequence);
  void begin_budget(Choice& choice);
  std::uint64_t first_masked(Choice& choice) const;
  bool allow_next(Choice& choice);
  runtime::Task<Failure> give_made_mask(Choice& choice);
  runtime::Task<Failure> next_token(Choice& choice);
  runtime::Task<void> keep_turn_end(Choice& choice);
  /// Keeps the turn as sampled, for a client that sends it back (protocol/sampled_turns.h).
  void keep_turn(Choice& choice);

  RequestContext& request_;
  PromptRun& prompt_run_;
  std::vector<std::unique_ptr<Choice>> choices_;
  std::size_t choices_begun_ = 0;
  protocol::SnapshotId kept_prompt_{};  // n > 1: snapshot from which choices start
  std::uint32_t additional_ = 0;        // additional sequences, open or being opened
  runtime::Event additional_ended_;
  Failure additional_failed_;  // the first failure of an additional sequence
  bool writing_ = false;       // an event waits for credit of the client
  runtime::Event written_;
};

}  // namespace reprise::actors
