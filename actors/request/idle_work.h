#pragma once
// IdleWork: what a request does in idle time, when its client has all that it asked for: for its next turn, and to prove
// that what was restored is what a cold run computes.
//
// Threading: the request actor's. Its tasks may not outlive it.

#include "actors/request/prompt_run.h"
#include "actors/request/reply_run.h"

namespace reprise::actors {

class IdleWork {
 public:
  /// All of these must outlive it.
  IdleWork(RequestContext& request, PromptRun& prompt_run, const ReplyRun& reply_run)
      : request_(request), prompt_run_(prompt_run), reply_run_(reply_run) {}

  /// The history that the next turn will probably begin with.
  runtime::Task<void> prefill_history();
  /// The prompt and what there is of the reply, where decoding has left no checkpoints inside it.
  runtime::Task<void> prefill_reply();
  bool left_off_in_reply() const;
  /// Whether the restored answer is what a cold run gives; true also where that could not be found out.
  runtime::Task<bool> verify(protocol::Priority priority);

 private:
  using Failure = RequestFailure;

  /// From the cache, and the rest with checkpoints at the end, of this origin, and on the way.
  runtime::Task<void> prefill_idle(TokenList tokens, protocol::Origin at_end);

  RequestContext& request_;
  PromptRun& prompt_run_;
  const ReplyRun& reply_run_;
};

}  // namespace reprise::actors
