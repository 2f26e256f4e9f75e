#include "actors/device/sequence_work.h"

#include <algorithm>
#include <string>
#include <utility>

namespace reprise::actors {

using protocol::DecodeEnd;
using protocol::DecodeEvent;
using protocol::Error;
using protocol::ErrorKind;
using Phase = SequenceRun::Phase;

namespace {

std::vector<std::uint32_t> positions_of(const protocol::Prefill& job) {
  std::vector<std::uint32_t> positions;
  if (!job.plan) return positions;
  for (const protocol::PlannedCheckpoint& planned : job.plan->checkpoints) positions.push_back(planned.at);
  return positions;
}

std::optional<Error> refusal_of(const StateTable& table, const SequenceRun& run,
                                const protocol::Prefill& job) {
  const auto bad = [](std::string why) { return Error{ErrorKind::kBadJob, std::move(why)}; };
  if (table.failed()) return Error{ErrorKind::kDeviceFailed, "the model has failed"};
  if (run.phase != Phase::kIdle || run.in_step) return bad("the sequence is busy");
  // A request that lost its slot to a failed restore starts like a preempted one.
  if (!run.state && run.priority == protocol::Priority::kIdle) {
    return Error{ErrorKind::kCanceled, "idle work was canceled to free memory"};
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
  if (job.decode) {
    if (const auto errors = job.decode->sampling.validate(table.facts().vocab); !errors.empty()) {
      return bad(errors.front().describe());
    }
  }
  std::uint32_t last = 0;
  for (const std::uint32_t at : positions_of(job)) {
    if (at <= last || at % grid != 0 || at > job.end) {
      return bad("checkpoints must ascend, be multiples of the grid and be within the prefill");
    }
    last = at;
  }
  return std::nullopt;
}

const Error& reader_is_gone() {
  static const Error error{ErrorKind::kCanceled, "the reader of the reply is gone"};
  return error;
}

}  // namespace

// -- prefills

std::optional<Error> begin_prefill(StateTable& table, SequenceRun& run, protocol::Prefill& job,
                                   runtime::ReplyTo<protocol::JobResult<protocol::Prefilled>>& reply) {
  if (std::optional<Error> refusal = refusal_of(table, run, job)) return refusal;
  run.prefill.checkpoints.clear();
  for (const std::uint32_t at : positions_of(job)) {
    if (at > run.held_tokens()) run.prefill.checkpoints.push_back(at);
  }
  run.prefill.awaited = std::exchange(run.prefill.early_checkpoints, {});
  for (const std::uint32_t at : run.prefill.awaited) {
    if (!job.plan) break;
    const auto next = std::lower_bound(run.prefill.checkpoints.begin(), run.prefill.checkpoints.end(), at);
    if (at > run.held_tokens() && at <= job.end && (next == run.prefill.checkpoints.end() || *next != at)) {
      run.prefill.checkpoints.insert(next, at);
    }
  }
  run.prompt = std::move(job.tokens);
  run.prompt_end = job.end;
  run.decoded.clear();
  run.logits.clear();
  run.decode.follows = job.decode.has_value();
  if (run.decode.follows) run.set_up_decode(std::move(*job.decode), table.facts().vocab);
  run.prefill.want_digest = job.want_digest;
  run.prefill.hidden_kind = job.hidden;
  run.prefill.hidden.assign(job.hidden == protocol::Prefill::Hidden::kNone ? 0 : table.facts().hidden, 0.0f);
  run.prefill.hidden_until = 0;
  run.prefill.plan = std::move(job.plan);
  run.reported = 0;
  run.prefill.reply = std::move(reply);
  run.prefill.progress = std::move(job.progress);
  run.prefill.computed = 0;
  run.shared_pages = 0;
  run.compaction.kept.reset();
  run.phase = Phase::kPrefill;
  return std::nullopt;
}

bool add_checkpoint(const StateTable& table, SequenceRun& run, std::uint32_t at) {
  if (at % table.rules().grid != 0) return false;
  if (run.phase == Phase::kIdle && !run.prompt && run.state) {  // the message may arrive before the prefill
    if (at > run.held_tokens()) run.prefill.early_checkpoints.push_back(at);
    return at > run.held_tokens();
  }
  if (run.phase != Phase::kPrefill || !run.prefill.plan) return false;
  const auto& due = run.prefill.checkpoints;
  const bool planned = std::find(due.begin(), due.end(), at) != due.end();
  if (!planned) {
    if (at <= run.reached() || at > run.prompt_end) return false;
    run.prefill.checkpoints.insert(std::upper_bound(due.begin(), due.end(), at), at);
  }
  if (std::find(run.prefill.awaited.begin(), run.prefill.awaited.end(), at) == run.prefill.awaited.end())
    run.prefill.awaited.push_back(at);
  run.priority = std::max(run.priority, protocol::Priority::kNormal);
  return true;
}

bool leave_off(const StateTable& table, SequenceRun& run) {
  if (run.phase != Phase::kPrefill || !run.prefill.plan || !run.state) return false;
  run.drop_carried_decode();
  run.compaction.budget = {};  // no reply follows, so no compaction
  const std::uint32_t grid = table.rules().grid;
  const std::uint32_t end = (run.reached() / grid + 1) * grid;
  if (end >= run.prompt_end) return true;  // it ends there anyway
  std::erase_if(run.prefill.checkpoints, [&](std::uint32_t at) { return at >= end; });
  run.prefill.checkpoints.push_back(end);
  run.prompt_end = end;
  return true;
}

// -- decoding

void Decoding::begin(HeldSequence held, protocol::Decode job) {
  const auto& [table, run] = held;
  const auto refuse = [&job](ErrorKind fault, std::string why) {
    DecodeEvent event{.token = {}, .end = DecodeEnd::kFault, .error = {fault, std::move(why)}};
    static_cast<void>(job.out.try_write(event));
    job.out.close();
  };
  if (run == nullptr) return refuse(ErrorKind::kUnknown, "no such sequence");
  if (table->failed()) return refuse(ErrorKind::kDeviceFailed, "the model has failed");
  if (run->phase != Phase::kIdle || run->logits.empty()) {
    return refuse(ErrorKind::kBadJob, "decoding must follow a prefill");
  }
  const std::size_t vocab = table->facts().vocab;
  if (const auto errors = job.sampling.validate(vocab); !errors.empty()) {
    return refuse(ErrorKind::kBadJob, errors.front().describe());
  }
  run->set_up_decode(std::move(job), vocab);
  start(*table, *run);
  sample(*run);
}

void Decoding::begin_carried(const StateTable& table, SequenceRun& run) {
  run.decode.follows = false;
  start(table, run);
  if (const std::optional<models::DrawnToken> first = std::exchange(run.decode.first, std::nullopt)) {
    take_drawn(run, *first);
  } else {
    sample(run);
  }
}

void Decoding::start(const StateTable& table, SequenceRun& run) {
  if (!table.rules().decode_is_canonical || run.compacted())
    run.decode.reply_plan = run.decode.call_plan = nullptr;
  run.set_next_reply_checkpoint(table.rules().grid);
  run.reported = 0;
  run.decode.awaits_credit = run.decode.awaits_mask = false;
  run.phase = Phase::kDecode;
}

void Decoding::take_logits(SequenceRun& run, std::span<const float> logits) {
  if (run.held_tokens() <= run.settled()) return;
  run.logits.assign(logits.begin(), logits.end());
  sample(run);
}

void Decoding::take_drawn(SequenceRun& run, const models::DecodePass::Drawn& drawn) {
  if (run.decode.out.reader_gone()) return run.end_work(reader_is_gone());
  if (drawn.error) return end_unsampled(run, *drawn.error);
  accept(run, {.token = drawn.token});
}

// Samples the next token from run.logits.
void Decoding::sample(SequenceRun& run) {
  if (run.decode.out.reader_gone()) return run.end_work(reader_is_gone());
  const std::uint64_t step = run.decode.sampler->state().step;
  const bool masked = run.decode.masks && run.decode.masks->is_masked(step);
  const SharedMask mask = masked ? run.decode.masks->at(step) : nullptr;
  run.decode.awaits_mask = masked && mask == nullptr;
  if (run.decode.awaits_mask) return;
  if (mask != nullptr && mask->ends) {
    DecodeEvent event{.end = DecodeEnd::kStopToken};
    return send(run, std::move(event));
  }
  const models::SampleResult result = run.decode.sampler->sample(run.logits, scratch_, mask.get());
  if (const auto* error = std::get_if<models::SampleError>(&result)) return end_unsampled(run, *error);
  accept(run, std::get<models::Sampled>(result));
}

void Decoding::take_mask(SequenceRun& run) {
  if (run.phase != Phase::kDecode || !run.decode.awaits_mask || run.in_step) return;
  run.decode.awaits_mask = false;
  if (!run.logits.empty()) sample(run);
}

void Decoding::end_unsampled(SequenceRun& run, models::SampleError error) {
  const bool unhealthy = error == models::SampleError::kNoLogits;
  if (unhealthy) WorkerFigures::add(figures_.unhealthy);
  run.end_work({unhealthy ? ErrorKind::kUnhealthy : ErrorKind::kCannotSample, models::to_string(error)});
}

void Decoding::accept(SequenceRun& run, const models::Sampled& sampled) {
  run.decode.sampler->accept(sampled.token, models::TokenOrigin::kOutput);
  run.decoded.push_back(sampled.token);
  run.logits.clear();
  DecodeEvent event{.token = protocol::DecodedToken{.token = sampled.token, .logprob = sampled.logprob}};
  for (const models::TokenLogprob& top : sampled.top) event.token->top.emplace_back(top.token, top.logprob);
  const auto& stops = run.decode.stop_tokens;
  if (std::find(stops.begin(), stops.end(), sampled.token) != stops.end()) {
    event.end = DecodeEnd::kStopToken;
  } else if (run.decoded.size() >= run.decode.max_tokens) {
    event.end = DecodeEnd::kLength;
  }
  send(run, std::move(event));
}

void Decoding::send(SequenceRun& run, DecodeEvent event) {
  const bool last = event.end.has_value();
  event.reported = run.reported;
  const std::optional<runtime::Result<void>> sent = run.decode.out.try_write(event);
  if (last) run.phase = Phase::kIdle;
  if (!sent) {
    run.decode.awaits_credit = true;
    wait_for_credit_(run.id, std::move(event));
  } else {
    written(run, last, sent->ok());
  }
}

void Decoding::written(SequenceRun& run, bool last, bool ok) {
  run.decode.awaits_credit = false;
  if (!ok) {
    run.end_work(reader_is_gone());
  } else if (last) {
    run.decode.out.close();
  }
}

}  // namespace reprise::actors
