#pragma once
// ReplyRun: the choices of a request, token by token, as events for its client (the phases decode and keep of
// actors/request/request_actor.h).
//
// Threading: the request actor's. Its tasks may not outlive it.

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

  /// One of the request's n answers.
  struct Choice {
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

  /// Both must outlive it.
  ReplyRun(RequestContext& request, PromptRun& prompt_run) : request_(request), prompt_run_(prompt_run) {}

  runtime::Task<Failure> decode();
  /// In the place of decoding, where the prompt's hidden state is all that is wanted.
  runtime::Task<Failure> give_embedding();
  runtime::Task<bool> send(protocol::Event event);
  /// Closes the reasoning of all choices now.
  void end_reasoning();

  const std::vector<std::unique_ptr<Choice>>& choices() const { return choices_; }
  /// The reply as the message that its client gets.
  Json message_of(const Choice& choice) const;
  /// Where the first tool call of the first choice begins in its sequence, on the grid; 0: it has none.
  std::uint32_t call_opener_at() const;

 private:
  using Restoring = protocol::JobResult<protocol::Restored>;

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
  runtime::Task<void> keep_turn_end(Choice& choice);
  /// Remembers the turn as it was sampled, for a client that sends it back (protocol/sampled_turns.h).
  void keep_turn(Choice& choice);

  RequestContext& request_;
  PromptRun& prompt_run_;
  std::vector<std::unique_ptr<Choice>> choices_;
  std::size_t choices_begun_ = 0;
  protocol::SnapshotId kept_prompt_{};  // n > 1: what choices go on from
  std::uint32_t beside_ = 0;            // sequences beside the first, and waits for them
  runtime::Event beside_ended_;
  Failure beside_failed_;  // that one of them failed first of all
  bool writing_ = false;   // an event waits for the client's credit
  runtime::Event written_;
};

}  // namespace reprise::actors
