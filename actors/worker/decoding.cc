#include "actors/worker/decoding.h"

#include <algorithm>
#include <utility>

namespace reprise::actors {

using protocol::DecodeEnd;
using protocol::DecodeEvent;
using protocol::JobError;
using protocol::JobFault;
using Phase = SequenceRun::Phase;

namespace {

const JobError& nobody_reads() {
  static const JobError error{JobFault::kCancelled, "the reader of the reply is gone"};
  return error;
}

}  // namespace

void Decoding::begin(HeldSequence held, protocol::Decode job) {
  const auto& [table, run] = held;
  const auto refuse = [&job](JobFault fault, std::string why) {
    DecodeEvent event{.token = {}, .end = DecodeEnd::kFault, .error = {fault, std::move(why)}};
    static_cast<void>(job.out.try_write(event));
    job.out.close();
  };
  if (run == nullptr) return refuse(JobFault::kUnknown, "no such sequence");
  if (table->failed()) return refuse(JobFault::kDeviceFailed, "the model has failed");
  if (run->phase != Phase::kIdle || (run->logits.empty() && !run->first)) {
    return refuse(JobFault::kBadJob, "decoding must follow a prefill");
  }
  const bool first_is_masked = job.masks && job.masks->is_masked(0);
  if (run->first && (first_is_masked || job.choice != 0 || job.sampling != run->sampler->params())) {
    return refuse(JobFault::kBadJob, "the prefill was given another reply's settings");
  }
  const std::size_t vocab = table->facts().vocab;
  if (const auto errors = job.sampling.validate(vocab); !errors.empty()) {
    return refuse(JobFault::kBadJob, errors.front().describe());
  }
  if (!run->first) run->begin_reply(std::move(job.sampling), vocab, job.choice);
  run->out = std::move(job.out);
  run->max_tokens = std::max(job.max_tokens, 1U);
  run->stop_tokens = std::move(job.stop_tokens);
  run->reported = 0;
  run->awaits_credit = false;
  const models::ModelRules& rules = table->rules();
  const bool checkpoints = rules.decode_is_canonical && !run->compacted();
  run->reply_plan = checkpoints && job.checkpoint_every > 0 ? std::move(job.plan) : nullptr;
  run->call_plan = checkpoints ? std::move(job.call_plan) : nullptr;
  run->call_opener = job.call_opener;
  run->reply_checkpoint_every = job.checkpoint_every;
  run->place_next_reply_checkpoint(rules.grid);
  run->masks = std::move(job.masks);
  run->awaits_mask = false;
  run->phase = Phase::kDecode;
  if (const std::optional<models::DrawnToken> first = std::exchange(run->first, std::nullopt)) {
    take_drawn(*run, *first);
  } else {
    sample(*run);
  }
}

void Decoding::take_logits(SequenceRun& run, std::span<const float> logits) {
  if (run.held_tokens() <= run.settled()) return;
  run.logits.assign(logits.begin(), logits.end());
  sample(run);
}

void Decoding::take_drawn(SequenceRun& run, const models::DecodePass::Drawn& drawn) {
  if (run.out.reader_gone()) return run.end_work(nobody_reads());
  if (drawn.error) return end_unsampled(run, *drawn.error);
  accept(run, {.token = drawn.token});
}

// The next token from run.logits.
void Decoding::sample(SequenceRun& run) {
  if (run.out.reader_gone()) return run.end_work(nobody_reads());
  const std::uint64_t step = run.sampler->state().step;
  const bool masked = run.masks && run.masks->is_masked(step);
  const SharedMask mask = masked ? run.masks->at(step) : nullptr;
  run.awaits_mask = masked && mask == nullptr;
  if (run.awaits_mask) return;
  if (mask != nullptr && mask->ends) {
    DecodeEvent event{.end = DecodeEnd::kStopToken};
    return send(run, std::move(event));
  }
  const models::SampleResult result = run.sampler->sample(run.logits, scratch_, mask.get());
  if (const auto* error = std::get_if<models::SampleError>(&result)) return end_unsampled(run, *error);
  accept(run, std::get<models::Sampled>(result));
}

void Decoding::take_mask(SequenceRun& run) {
  if (run.phase != Phase::kDecode || !run.awaits_mask || run.in_step) return;
  run.awaits_mask = false;
  if (!run.logits.empty()) sample(run);
}

void Decoding::end_unsampled(SequenceRun& run, models::SampleError error) {
  const bool unhealthy = error == models::SampleError::kNoLogits;
  if (unhealthy) WorkerFigures::add(figures_.unhealthy);
  run.end_work({unhealthy ? JobFault::kUnhealthy : JobFault::kCannotSample, models::to_string(error)});
}

void Decoding::accept(SequenceRun& run, const models::Sampled& sampled) {
  run.sampler->accept(sampled.token, models::TokenOrigin::kOutput);
  run.decoded.push_back(sampled.token);
  run.logits.clear();
  DecodeEvent event{.token = protocol::DecodedToken{.token = sampled.token, .logprob = sampled.logprob}};
  for (const models::TokenLogprob& top : sampled.top) event.token->top.emplace_back(top.token, top.logprob);
  const auto& stops = run.stop_tokens;
  if (std::find(stops.begin(), stops.end(), sampled.token) != stops.end()) {
    event.end = DecodeEnd::kStopToken;
  } else if (run.decoded.size() >= run.max_tokens) {
    event.end = DecodeEnd::kLength;
  }
  send(run, std::move(event));
}

void Decoding::send(SequenceRun& run, DecodeEvent event) {
  const bool last = event.end.has_value();
  event.reported = run.reported;
  const std::optional<runtime::Result<void>> sent = run.out.try_write(event);
  if (last) run.phase = Phase::kIdle;
  if (!sent) {
    run.awaits_credit = true;
    wait_for_credit_(run.id, std::move(event));
  } else {
    written(run, last, sent->ok());
  }
}

void Decoding::written(SequenceRun& run, bool last, bool ok) {
  run.awaits_credit = false;
  if (!ok) {
    run.end_work(nobody_reads());
  } else if (last) {
    run.out.close();
  }
}

}  // namespace reprise::actors
