#include "actors/worker/sequence_run.h"

#include <utility>

namespace reprise::actors {

using protocol::DecodeEnd;
using protocol::DecodeEvent;

void SequenceRun::begin_reply(SamplingParams sampling, std::size_t vocab, std::uint32_t choice) {
  sampler.emplace(std::move(sampling), vocab, choice);
  for (std::uint32_t i = 0; i < prompt_end; ++i) sampler->accept((*prompt)[i], models::TokenOrigin::kPrompt);
}

void SequenceRun::tell_progress() {
  if (!progress) return;
  std::uint32_t held = held_tokens();
  static_cast<void>(progress.try_write(held));
}

void SequenceRun::answer_prefill(protocol::JobResult<protocol::Prefilled> answer) {
  progress = {};
  auto reply = std::move(prefilled);
  reply.answer(std::move(answer));
}

void SequenceRun::end_work(const protocol::JobError& error) {
  const Phase was = std::exchange(phase, Phase::kIdle);
  checkpoints.clear();
  if (was == Phase::kRestore) {
    restore.reset();
    load.reset();
    auto reply = std::move(restored);
    reply.answer(protocol::JobResult<protocol::Restored>(error));
  } else if (was == Phase::kSnapshot) {
    auto reply = std::move(snapshot_taken);
    reply.answer(protocol::JobResult<protocol::SnapshotTaken>(error));
  } else if (was == Phase::kPrefill) {
    answer_prefill(error);
  } else if (was == Phase::kDecode) {
    DecodeEvent event{.token = {}, .end = DecodeEnd::kFault, .error = error, .reported = reported};
    // Without credit the reader learns of it by the end of the stream.
    if (!awaits_credit) static_cast<void>(out.try_write(event));
    out.fail({runtime::ErrorCode::kFailed, error.message});
  }
}

}  // namespace reprise::actors
