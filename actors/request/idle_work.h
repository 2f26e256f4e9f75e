#pragma once
// IdleWork runs after a reply, in idle time: it prefills the history for the client's next turn, and verifies
// restored states against a cold run.
//
// Threading: the request actor's. Its tasks must not outlive it.

#include "actors/request/prompt_run.h"
#include "actors/request/reply_run.h"

namespace reprise::actors {

class IdleWork {
 public:
  /// All arguments must outlive it.
  IdleWork(RequestContext& request, PromptRun& prompt_run, const ReplyRun& reply_run)
      : request_(request), prompt_run_(prompt_run), reply_run_(reply_run) {}

  /// Prefills the history with which the next turn will probably begin.
  runtime::Task<void> prefill_history();
  /// Prefills the prompt and the reply, for checkpoints inside the reply, if decoding could not take them.
  runtime::Task<void> prefill_reply();
  bool left_off_in_reply() const;
  /// Recomputes the prompt cold. Returns false if the result differs from that with the restored state; true
  /// also if the comparison failed to run.
  runtime::Task<bool> verify(protocol::Priority priority);

 private:
  using Failure = RequestFailure;

  /// Restores what the cache has of `tokens` and prefills the rest, with checkpoints inside and one of origin
  /// `at_end` at the end.
  runtime::Task<void> prefill_idle(TokenList tokens, protocol::Origin at_end);

  RequestContext& request_;
  PromptRun& prompt_run_;
  const ReplyRun& reply_run_;
};

}  // namespace reprise::actors
