#include "actors/worker/prefilling.h"

#include <algorithm>
#include <string>
#include <utility>

namespace reprise::actors {

using protocol::JobError;
using protocol::JobFault;
using Phase = SequenceRun::Phase;

namespace {

std::vector<std::uint32_t> places_of(const protocol::Prefill& job) {
  std::vector<std::uint32_t> places;
  if (!job.plan) return places;
  for (const protocol::PlannedCheckpoint& planned : job.plan->places) places.push_back(planned.at);
  return places;
}

std::optional<JobError> refusal_of(const StateTable& table, const SequenceRun& run,
                                   const protocol::Prefill& job) {
  const auto bad = [](std::string why) { return JobError{JobFault::kBadJob, std::move(why)}; };
  if (table.failed()) return JobError{JobFault::kDeviceFailed, "the model has failed"};
  if (run.phase != Phase::kIdle || run.in_step) return bad("the sequence is busy");
  // A request whose slot was lost to a restore that failed begins as one that was preempted does.
  if (!run.state && run.priority == protocol::Priority::kIdle) {
    return JobError{JobFault::kCancelled, "idle work was canceled to free memory"};
  }
  if (!job.tokens || job.end > job.tokens->size() || job.end <= run.held_tokens()) {
    return bad("a prefill must end after the tokens that the sequence holds, and within its own");
  }
  if (run.compacted()) return bad("a compacted prompt cannot be extended");
  if (job.hidden != protocol::Prefill::Hidden::kNone && !table.rules().gives_hidden) {
    return bad("this device cannot return hidden states");
  }
  if (job.hidden == protocol::Prefill::Hidden::kSum && run.held_tokens() > 0) {
    return bad("a sum of hidden states needs all tokens to be computed");
  }
  const auto vocab = static_cast<TokenId>(table.facts().vocab);
  for (std::uint32_t i = 0; i < job.end; ++i) {
    const TokenId token = (*job.tokens)[i];
    if (token < 0 || token >= vocab) {
      return bad("token " + std::to_string(token) + " is not in the vocabulary of " + std::to_string(vocab));
    }
  }
  const std::uint32_t grid = table.rules().grid;
  if (run.held_tokens() % grid != 0) {
    return bad("a prefill must start at a multiple of the grid");
  }
  std::uint32_t last = 0;
  for (const std::uint32_t at : places_of(job)) {
    if (at <= last || at % grid != 0 || at > job.end) {
      return bad("checkpoints must ascend, be multiples of the grid and be within the prefill");
    }
    last = at;
  }
  return std::nullopt;
}

}  // namespace

std::optional<JobError> begin_prefill(StateTable& table, SequenceRun& run, protocol::Prefill& job,
                                      runtime::ReplyTo<protocol::JobResult<protocol::Prefilled>>& reply) {
  if (std::optional<JobError> refusal = refusal_of(table, run, job)) return refusal;
  run.checkpoints.clear();
  for (const std::uint32_t at : places_of(job)) {
    if (at > run.held_tokens()) run.checkpoints.push_back(at);
  }
  run.awaited = std::exchange(run.early_checkpoints, {});
  for (const std::uint32_t at : run.awaited) {
    if (!job.plan) break;
    const auto place = std::lower_bound(run.checkpoints.begin(), run.checkpoints.end(), at);
    if (at > run.held_tokens() && at <= job.end && (place == run.checkpoints.end() || *place != at)) {
      run.checkpoints.insert(place, at);
    }
  }
  run.prompt = std::move(job.tokens);
  run.prompt_end = job.end;
  run.decoded.clear();
  run.logits.clear();
  run.first.reset();
  const std::size_t vocab = table.facts().vocab;
  run.draws_first =
      table.facts().draws && !job.want_digest && job.sampling && job.sampling->validate(vocab).empty();
  if (run.draws_first) run.begin_reply(std::move(*job.sampling), vocab, 0);
  run.want_digest = job.want_digest;
  run.hidden_wish = job.hidden;
  run.hidden.assign(job.hidden == protocol::Prefill::Hidden::kNone ? 0 : table.facts().hidden, 0.0f);
  run.hidden_until = 0;
  run.plan = std::move(job.plan);
  run.reported = 0;
  run.prefilled = std::move(reply);
  run.progress = std::move(job.progress);
  run.computed = 0;
  run.shared_pages = 0;
  run.kept.reset();
  run.phase = Phase::kPrefill;
  return std::nullopt;
}

bool add_checkpoint(const StateTable& table, SequenceRun& run, std::uint32_t at) {
  if (at % table.rules().grid != 0) return false;
  if (run.phase == Phase::kIdle && !run.prompt && run.state) {  // it may overtake the prefill
    if (at > run.held_tokens()) run.early_checkpoints.push_back(at);
    return at > run.held_tokens();
  }
  if (run.phase != Phase::kPrefill || !run.plan) return false;
  const auto& due = run.checkpoints;
  const bool planned = std::find(due.begin(), due.end(), at) != due.end();
  if (!planned) {
    if (at <= run.reached() || at > run.prompt_end) return false;
    run.checkpoints.insert(std::upper_bound(due.begin(), due.end(), at), at);
  }
  if (std::find(run.awaited.begin(), run.awaited.end(), at) == run.awaited.end()) run.awaited.push_back(at);
  run.priority = std::max(run.priority, protocol::Priority::kNormal);
  return true;
}

bool leave_off(const StateTable& table, SequenceRun& run) {
  if (run.phase != Phase::kPrefill || !run.plan || !run.state) return false;
  run.kv = {};  // nobody will decode
  const std::uint32_t grid = table.rules().grid;
  const std::uint32_t end = (run.reached() / grid + 1) * grid;
  if (end >= run.prompt_end) return true;  // it is about to
  std::erase_if(run.checkpoints, [&](std::uint32_t at) { return at >= end; });
  run.checkpoints.push_back(end);
  run.prompt_end = end;
  return true;
}

}  // namespace reprise::actors
