#pragma once
// What the jobs of a sequence do to it: a prefill begins, gets one more checkpoint on its way, or ends early; decoding
// chooses the next token and sends it to its reader. Nothing is computed here.
//
// Decoding. A token is chosen by the sequence's sampler from the logits, or was drawn by the device in the sampler's
// place. Where masks say what may be chosen, logits whose mask has not come are kept until it does, and the sequence
// sits out the steps until then. It goes out at once where the reader has given credit; else the sequence pauses until the
// event has been written, which is the device worker's to wait for. A reader that has gone ends the work.
//
// Threading: the device worker's thread.

#include <functional>
#include <optional>
#include <span>

#include "actors/worker/device_state.h"
#include "actors/worker/worker_figures.h"
#include "models/model.h"
#include "models/sampling/sampler.h"

namespace reprise::actors {

// -- prefills

/// The sequence takes the job, or the job is refused and nothing has changed. The answer is given when the
/// prefill ends; `reply` is moved from only if the job is taken.
std::optional<protocol::JobError> begin_prefill(
    StateTable& table, SequenceRun& run, protocol::Prefill& job,
    runtime::ReplyTo<protocol::JobResult<protocol::Prefilled>>& reply);

/// False: that place has been passed, or there is no such prefill. A prefill that was idle work is hurried.
bool add_checkpoint(const StateTable& table, SequenceRun& run, std::uint32_t at);

/// The prefill ends at the next place of the grid, where a checkpoint is taken. False: it cannot.
bool leave_off(const StateTable& table, SequenceRun& run);

// -- decoding

class Decoding {
 public:
  /// Writes the event when there is credit, and calls written() then.
  using WaitForCredit = std::function<void(protocol::SequenceId, protocol::DecodeEvent)>;

  /// `figures` must outlive it.
  Decoding(WorkerFigures& figures, WaitForCredit wait_for_credit)
      : figures_(figures), wait_for_credit_(std::move(wait_for_credit)) {}

  /// From the logits that a prefill left, or the token that it drew. The job's stream tells what is wrong with it.
  void begin(HeldSequence held, protocol::Decode job);

  /// After a step that fed the newest token: the next one from its logits [vocab]. Nothing where the sequence
  /// was catching up.
  void take_logits(SequenceRun& run, std::span<const float> logits);
  /// The device has chosen.
  void take_drawn(SequenceRun& run, const models::DecodePass::Drawn& drawn);

  /// The mask that a sequence waited for may have come.
  void take_mask(SequenceRun& run);

  /// What waited for credit has been written, or cannot be.
  void written(SequenceRun& run, bool last, bool ok);

 private:
  void sample(SequenceRun& run);
  void accept(SequenceRun& run, const models::Sampled& sampled);
  void end_unsampled(SequenceRun& run, models::SampleError error);
  void send(SequenceRun& run, protocol::DecodeEvent event);

  WorkerFigures& figures_;
  const WaitForCredit wait_for_credit_;
  models::SamplerScratch scratch_;
};

}  // namespace reprise::actors
