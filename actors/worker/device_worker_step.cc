// Steps: who runs, what is computed, and what follows from it.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "actors/worker/device_worker.h"
#include "base/hash.h"
#include "gpu/device_lost.h"
#include "traces/trace.h"

namespace reprise::actors {

using protocol::DecodeEnd;
using protocol::DecodeEvent;
using protocol::JobError;
using protocol::JobFault;
using Phase = SequenceRun::Phase;

namespace {

bool all_finite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
}

std::uint64_t hash_of(std::span<const float> values) {
  static_assert(sizeof(float) == sizeof(TokenId));
  std::vector<TokenId> bits(values.size());
  if (!values.empty()) std::memcpy(bits.data(), values.data(), values.size_bytes());
  return token_hash(bits);
}

std::int64_t now_ns() {
  return runtime::Clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

}  // namespace

void DeviceWorker::on(RunStep) {
  // What arrived during the last step stands behind this message, and in front of the next.
  step_posted_ = false;
  if (!arrivals_taken_) {
    arrivals_taken_ = true;
    return kick();
  }
  arrivals_taken_ = false;
  survives([this] { run_step(); });
}

void DeviceWorker::run_step() {
  if (step_arch_ != nullptr) return;
  someone_is_short_ = false;
  if (try_waiting_jobs()) admit();
  for (std::size_t tries = archs_.size(); tries > 0 && step_arch_ == nullptr; --tries) {
    LoadedArch& arch = *archs_[turn_++ % archs_.size()];
    if (arch.failed) continue;
    BatchLimits limits = limits_;
    limits.grid = arch.rules().grid;
    const std::vector<Runnable> able = runnable(arch);
    const std::vector<BatchSlice> batch = plan_batch(able, limits, arch.steps + 1);
    if (!batch.empty() && fill_step(arch, batch)) step_arch_ = &arch;
  }
  publish();
  if (step_arch_ == nullptr) {
    if (someone_is_short_ && !looking_again_ && !reclaiming_) {
      looking_again_ = true;
      launch(look_again_soon());
      give_up_if_stuck();
    }
    return;
  }
  short_since_ = {};
  look_again_ = kFirstLook;
  options_.figures->step_began_ns.store(now_ns(), std::memory_order_relaxed);
  try {
    inject_faults(*step_arch_);
  } catch (const std::exception& error) {
    work_.failure = std::current_exception();
    finish_step();
    return;
  }
  if (step_arch_->rules().decode_is_prefill) {
    step_arch_->runner().start(work_, [] {});
    finish_step();
  } else {
    step_runs_ = true;
    step_arch_->runner().start(work_, [me = self(*this)] { me.tell(StepDone{}); });
  }
}

void DeviceWorker::on(StepDone) {
  step_runs_ = false;
  if (broken_) return fail_all();
  survives([this] { finish_step(); });
}

std::vector<Runnable> DeviceWorker::runnable(LoadedArch& arch) {
  std::vector<Runnable> able;
  const DeviceRules rules = arch.rules();
  for (auto& [number, run] : arch.sequences()) {
    if (!run.state || run.closing || run.in_step) continue;
    if (run.phase != Phase::kPrefill && run.phase != Phase::kDecode) continue;
    if (checkpoint_is_due(run)) {
      take_checkpoint(arch, run);
      if (checkpoint_is_due(run)) continue;  // its memory is on the way
    }
    Runnable one{.key = number,
                 .decodes = false,
                 .at = run.stored(),
                 .stop_at = run.prompt_end,
                 .end = run.prompt_end,
                 .priority = run.priority,
                 .order = run.order,
                 .last_step = run.last_step};
    if (run.phase == Phase::kPrefill) {
      if (!run.checkpoints.empty()) one.stop_at = run.checkpoints.front();
    } else if (one.at < run.settled()) {  // catches up
      if (rules.decode_is_prefill) one.stop_at = one.end = run.settled();
      one.decodes = one.at >= one.stop_at;
    } else {
      if (run.awaits_credit) continue;
      one.decodes = true;
    }
    able.push_back(one);
  }
  return able;
}

bool DeviceWorker::fill_step(LoadedArch& arch, const std::vector<BatchSlice>& batch) {
  work_ = {};
  step_prefills_.clear();
  step_decodes_.clear();
  step_tokens_.clear();
  step_tokens_.reserve(batch.size());  // slices point into it
  for (const BatchSlice& slice : batch) add_slice(arch, slice);
  return !step_tokens_.empty();
}

bool DeviceWorker::add_slice(LoadedArch& arch, const BatchSlice& slice) {
  const auto found = arch.sequences().find(slice.key);
  if (found == arch.sequences().end()) return false;
  SequenceRun& run = found->second;
  if (!run.state || run.phase == Phase::kIdle) return false;  // preempted for one before it
  const std::uint32_t at = run.stored();
  const std::uint64_t pages = (at + slice.tokens + gpu::kPageTokens - 1) / gpu::kPageTokens;
  const std::uint64_t new_pages = pages - std::min<std::uint64_t>(pages, run.state->pages().size());
  const std::uint64_t block = new_pages > 0 ? arch.page_bytes() : 0;
  for (;;) {
    if (find_room(new_pages * arch.page_bytes(), block, &run) != Room::kHere) return false;
    if (run.state->reserve(slice.tokens)) break;
    if (budget_.has_room(0, block)) return false;  // else the memory had no block: more must go
  }
  std::vector<TokenId>& tokens = step_tokens_.emplace_back();
  for (std::uint32_t i = 0; i < slice.tokens; ++i) tokens.push_back(run.token_at(at + i));
  run.in_step = true;
  run.step_end = at + slice.tokens;
  run.last_step = arch.steps + 1;
  models::Slice part{.sequence = &*run.state, .tokens = tokens, .logits = models::Slice::Logits::kLast};
  if (slice.decodes) {
    work_.decodes.slices.push_back(part);
    // What catches up chooses nothing.
    const bool chooses = arch.model().draws() && at + slice.tokens > run.settled();
    work_.decodes.plans.push_back(chooses ? run.sampler->plan(kMostAdjustments) : std::nullopt);
    step_decodes_.push_back(slice.key);
  } else {
    const std::uint32_t end = at + slice.tokens;
    const bool at_end = run.phase == Phase::kPrefill && end == run.prompt_end;
    // Without recurrent state, the logits are what tells whether a checkpoint is healthy.
    const bool judged = arch.slot_bytes() == 0 && !run.checkpoints.empty() && run.checkpoints.front() == end;
    if (!at_end && !judged) part.logits = models::Slice::Logits::kNone;
    work_.prefills.push_back(part);
    step_prefills_.push_back(slice.key);
  }
  return true;
}

void DeviceWorker::finish_step() {
  LoadedArch& arch = *step_arch_;
  step_arch_ = nullptr;
  ++arch.steps;
  options_.figures->step_began_ns.store(0, std::memory_order_relaxed);
  WorkerFigures::add(options_.figures->steps);
  for (const auto* keys : {&step_prefills_, &step_decodes_}) {
    for (const std::uint64_t key : *keys) arch.sequences().at(key).in_step = false;
  }
  if (work_.failure) {
    try {
      std::rethrow_exception(work_.failure);
    } catch (const gpu::DeviceLost& error) {
      fail_arch(arch, error.what(), true);
    } catch (const std::exception& error) {
      fail_arch(arch, error.what());
    } catch (...) {
      fail_arch(arch, "an unknown exception");
    }
  } else {
    const std::size_t vocab = arch.model().config().vocab;
    const float* row = work_.prefill_logits.data();
    for (std::size_t i = 0; i < step_prefills_.size(); ++i) {
      SequenceRun& run = arch.sequences().at(step_prefills_[i]);
      const bool has_row = work_.prefills[i].logits != models::Slice::Logits::kNone;
      const auto tokens = static_cast<std::uint32_t>(work_.prefills[i].tokens.size());
      WorkerFigures::add(options_.figures->prefill_tokens, tokens);
      run.computed += tokens;
      if (run.phase == Phase::kPrefill && !run.closing) finish_prefill(arch, run, has_row ? row : nullptr);
      if (has_row) row += vocab;
    }
    row = work_.decodes.logits.data();
    for (std::size_t i = 0; i < step_decodes_.size(); ++i) {
      SequenceRun& run = arch.sequences().at(step_decodes_[i]);
      WorkerFigures::add(options_.figures->decode_tokens);
      const auto& drawn = work_.decodes.drawn[i];
      if (run.phase == Phase::kDecode && !run.closing) {
        if (drawn) {
          finish_drawn(run, *drawn);
        } else {
          finish_decode(arch, run, row);
        }
      }
      if (!drawn) row += vocab;
    }
  }
  clear_step(arch);
}

// What was put off until the step had ended.
void DeviceWorker::clear_step(LoadedArch& arch) {
  for (const auto* keys : {&step_prefills_, &step_decodes_}) {
    for (const std::uint64_t key : *keys) {
      const auto found = arch.sequences().find(key);
      if (found != arch.sequences().end() && found->second.closing) {
        arch.remove(found->second.id);
        memory_changed();
      }
    }
  }
  work_ = {};
  auto drops = std::move(drops_after_step_);
  drops_after_step_.clear();
  for (auto& [generation, reply] : drops) drop_arch(generation, std::move(reply));
  kick();
}

bool DeviceWorker::checkpoint_is_due(const SequenceRun& run) const {
  return run.phase == Phase::kPrefill && !run.checkpoints.empty() && run.checkpoints.front() == run.stored();
}

void DeviceWorker::finish_prefill(LoadedArch& arch, SequenceRun& run, const float* logits) {
  const std::size_t vocab = arch.model().config().vocab;
  const bool healthy = logits == nullptr || all_finite({logits, vocab});
  if (checkpoint_is_due(run)) {
    if (healthy) {
      take_checkpoint(arch, run);
    } else {
      WorkerFigures::add(options_.figures->unhealthy);
      run.report_to.tell(protocol::CheckpointTaken{.sequence = run.id, .at = run.stored(), .healthy = false});
      run.checkpoints.pop_front();
    }
  }
  if (run.stored() < run.prompt_end) return;
  run.phase = Phase::kIdle;
  auto reply = std::move(run.prefilled);
  if (!healthy) {
    WorkerFigures::add(options_.figures->unhealthy);
    return reply.answer(protocol::JobResult<protocol::Prefilled>(
        JobError{JobFault::kUnhealthy, "the model's logits are not finite"}));
  }
  run.logits.assign(logits, logits + vocab);
  protocol::Prefilled done{.computed = run.computed, .digest = 0};
  if (run.want_digest) {
    done.digest = hash_of(run.logits) ^ arch.store().look_at_slot(*run.state).checksum;
  }
  reply.answer(protocol::JobResult<protocol::Prefilled>(done));
}

void DeviceWorker::finish_decode(LoadedArch& arch, SequenceRun& run, const float* logits) {
  if (run.stored() <= run.settled()) return;  // it was catching up
  run.logits.assign(logits, logits + arch.model().config().vocab);
  sample(run);
}

// The device has chosen, in the sampler's place.
void DeviceWorker::finish_drawn(SequenceRun& run, const models::DecodePass::Drawn& drawn) {
  if (run.out.reader_gone()) return end_work(run, {JobFault::kCancelled, "nobody reads"});
  if (drawn.error) return end_unsampled(run, *drawn.error);
  accept(run, {.token = drawn.token});
}

// The next token from run.logits.
void DeviceWorker::sample(SequenceRun& run) {
  if (run.out.reader_gone()) return end_work(run, {JobFault::kCancelled, "nobody reads"});
  const models::SampleResult result = run.sampler->sample(run.logits, sampler_scratch_);
  if (const auto* error = std::get_if<models::SampleError>(&result)) return end_unsampled(run, *error);
  accept(run, std::get<models::Sampled>(result));
}

void DeviceWorker::end_unsampled(SequenceRun& run, models::SampleError error) {
  const bool unhealthy = error == models::SampleError::kNoLogits;
  if (unhealthy) WorkerFigures::add(options_.figures->unhealthy);
  end_work(run, {unhealthy ? JobFault::kUnhealthy : JobFault::kCannotSample, models::to_string(error)});
}

void DeviceWorker::accept(SequenceRun& run, const models::Sampled& sampled) {
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

void DeviceWorker::send(SequenceRun& run, DecodeEvent event) {
  const bool last = event.end.has_value();
  const std::optional<runtime::Result<void>> written = run.out.try_write(event);
  if (last) run.phase = Phase::kIdle;
  if (!written) {
    run.awaits_credit = true;
    launch(send_when_credited(run.id, std::move(event)));
  } else if (!written->ok()) {
    end_work(run, {JobFault::kCancelled, "nobody reads"});
  } else if (last) {
    run.out.close();
  }
}

runtime::Task<void> DeviceWorker::send_when_credited(protocol::SequenceId id, DecodeEvent event) {
  SequenceRun* run = find(id);
  if (run == nullptr) co_return;
  const bool last = event.end.has_value();
  auto writing = run->out.write(std::move(event));
  const runtime::Result<void> written = co_await writing;
  run = find(id);
  if (run == nullptr) co_return;
  run->awaits_credit = false;
  if (!written.ok()) {
    end_work(*run, {JobFault::kCancelled, "nobody reads"});
  } else if (last) {
    run->out.close();
  }
  kick();
}

}  // namespace reprise::actors
