// Jobs that give a sequence work: prefill, one more checkpoint, decode.

#include <algorithm>

#include "actors/worker/device_worker.h"

namespace reprise::actors {

using protocol::DecodeEnd;
using protocol::DecodeEvent;
using protocol::JobError;
using protocol::JobFault;
using Phase = SequenceRun::Phase;

void DeviceWorker::on(protocol::Prefill job,
                      runtime::ReplyTo<protocol::JobResult<protocol::Prefilled>> reply) {
  using Result = protocol::JobResult<protocol::Prefilled>;
  LoadedArch* arch = arch_of(job.sequence.generation);
  SequenceRun* run = arch == nullptr ? nullptr : arch->find(job.sequence);
  if (run == nullptr) return reply.answer(Result(JobError{JobFault::kUnknown, "no such sequence"}));
  if (arch->failed) return reply.answer(Result(JobError{JobFault::kDeviceFailed, "the model has failed"}));
  const auto refuse = [&](std::string why) {
    reply.answer(Result(JobError{JobFault::kBadJob, std::move(why)}));
  };
  if (run->phase != Phase::kIdle || run->in_step) return refuse("the sequence is not at rest");
  if (!run->state && run->priority == protocol::Priority::kIdle) {
    return reply.answer(Result(JobError{JobFault::kCancelled, "idle work gave way"}));
  }
  // A request whose slot was lost to a restore that failed begins as one that was preempted does.
  if (!job.tokens || job.end > job.tokens->size() || job.end <= run->stored()) {
    return refuse("a prefill must go beyond what the sequence holds and not beyond its tokens");
  }
  const auto vocab = static_cast<TokenId>(arch->model().config().vocab);
  for (std::uint32_t i = 0; i < job.end; ++i) {
    const TokenId token = (*job.tokens)[i];
    if (token < 0 || token >= vocab) {
      return refuse("token " + std::to_string(token) + " is not in the vocabulary of " +
                    std::to_string(vocab));
    }
  }
  if (run->stored() % arch->rules().grid != 0) return refuse("a prefill goes on from a place on the grid");
  run->checkpoints.clear();
  for (const std::uint32_t at : job.checkpoints) {
    const bool ascending = run->checkpoints.empty() || at > run->checkpoints.back();
    if (!ascending || at % arch->rules().grid != 0 || at > job.end) {
      return refuse("checkpoints must ascend, on the grid, within the prefill");
    }
    if (at > run->stored()) run->checkpoints.push_back(at);
  }
  for (const std::uint32_t at : std::exchange(run->early_checkpoints, {})) {
    const auto place = std::lower_bound(run->checkpoints.begin(), run->checkpoints.end(), at);
    if (at > run->stored() && at <= job.end && (place == run->checkpoints.end() || *place != at)) {
      run->checkpoints.insert(place, at);
    }
  }
  run->prompt = std::move(job.tokens);
  run->prompt_end = job.end;
  run->decoded.clear();
  run->logits.clear();
  run->want_digest = job.want_digest;
  run->report_to = std::move(job.report_to);
  run->prefilled = std::move(reply);
  run->computed = 0;
  run->shared_pages = 0;
  run->phase = Phase::kPrefill;
  kick();
}

bool DeviceWorker::on(protocol::AddCheckpoint job) {
  LoadedArch* arch = arch_of(job.sequence.generation);
  SequenceRun* run = arch == nullptr ? nullptr : arch->find(job.sequence);
  if (run == nullptr || job.at % arch->rules().grid != 0) return false;
  if (run->phase == Phase::kIdle && !run->prompt && run->state) {  // it may overtake the prefill
    if (job.at > run->stored()) run->early_checkpoints.push_back(job.at);
    return job.at > run->stored();
  }
  if (run->phase != Phase::kPrefill) return false;
  const bool planned =
      std::find(run->checkpoints.begin(), run->checkpoints.end(), job.at) != run->checkpoints.end();
  if (!planned) {
    if (job.at <= run->reached() || job.at > run->prompt_end) return false;
    run->checkpoints.insert(std::upper_bound(run->checkpoints.begin(), run->checkpoints.end(), job.at),
                            job.at);
  }
  run->priority = std::max(run->priority, protocol::Priority::kNormal);
  kick();
  return true;
}

void DeviceWorker::on(protocol::Decode job) {
  LoadedArch* arch = arch_of(job.sequence.generation);
  SequenceRun* run = arch == nullptr ? nullptr : arch->find(job.sequence);
  const auto refuse = [&](JobFault fault, std::string why) {
    DecodeEvent event{.token = {}, .end = DecodeEnd::kFault, .error = {fault, std::move(why)}};
    static_cast<void>(job.out.try_write(event));
    job.out.close();
  };
  if (run == nullptr) return refuse(JobFault::kUnknown, "no such sequence");
  if (arch->failed) return refuse(JobFault::kDeviceFailed, "the model has failed");
  if (run->phase != Phase::kIdle || run->logits.empty()) {
    return refuse(JobFault::kBadJob, "decoding goes on from a prefill");
  }
  const std::size_t vocab = arch->model().config().vocab;
  if (const auto errors = job.sampling.validate(vocab); !errors.empty()) {
    return refuse(JobFault::kBadJob, errors.front().describe());
  }
  run->sampler.emplace(std::move(job.sampling), vocab, job.choice);
  for (std::uint32_t i = 0; i < run->prompt_end; ++i) {
    run->sampler->accept((*run->prompt)[i], models::TokenOrigin::kPrompt);
  }
  run->out = std::move(job.out);
  run->max_tokens = std::max(job.max_tokens, 1U);
  run->stop_tokens = std::move(job.stop_tokens);
  run->awaits_credit = false;
  run->phase = Phase::kDecode;
  sample(*run);
  kick();
}

}  // namespace reprise::actors
