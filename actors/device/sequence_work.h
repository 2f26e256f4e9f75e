#pragma once
// Applies jobs to a sequence: begins a prefill, adds a checkpoint to it, ends it early; samples decoded
// tokens and sends them to the reader. Nothing is computed here.
//
// Decoding. The sequence's sampler chooses a token from the logits, or the device has sampled it. If the
// reply is constrained and the mask of the token has not arrived, the logits are kept and the sequence skips
// steps until it has. The token is sent at once if the reader has given credit; otherwise the sequence pauses
// until the device worker has written the event. If the reader is gone, the work ends.
//
// Threading: the device worker's thread.

#include <functional>
#include <optional>
#include <span>

#include "actors/device/device_state.h"
#include "actors/device/worker_figures.h"
#include "models/model.h"
#include "models/sampling/sampler.h"

namespace reprise::actors {

// -- prefills

/// Begins a prefill, or returns an error and changes nothing. The answer is given when the prefill ends;
/// `reply` is moved from only on success.
std::optional<protocol::Error> begin_prefill(
    StateTable& table, SequenceRun& run, protocol::Prefill& job,
    runtime::ReplyTo<protocol::JobResult<protocol::Prefilled>>& reply);

/// Adds a checkpoint at position `at`. Returns false if the prefill has passed it or there is no prefill.
/// Idle work becomes normal work.
bool add_checkpoint(const StateTable& table, SequenceRun& run, std::uint32_t at);

/// Ends the prefill at the next multiple of the grid, with a checkpoint there. Returns false if there is no
/// prefill to end.
bool leave_off(const StateTable& table, SequenceRun& run);

// -- decoding

class Decoding {
 public:
  /// Must write the event once there is credit, and then call written().
  using WaitForCredit = std::function<void(protocol::SequenceId, protocol::DecodeEvent)>;

  /// `figures` must outlive it.
  Decoding(WorkerFigures& figures, WaitForCredit wait_for_credit)
      : figures_(figures), wait_for_credit_(std::move(wait_for_credit)) {}

  /// Starts decoding with the logits that the prefill left. Errors in the job are sent to its stream.
  void begin(HeldSequence held, protocol::Decode job);
  /// Starts the decoding that a prefill carried, with the logits or the token of its last step.
  void begin_carried(const StateTable& table, SequenceRun& run);

  /// Handles the logits [vocab] of a step that fed the newest token: samples the next one. Does nothing if
  /// the step recomputed a preempted state.
  void take_logits(SequenceRun& run, std::span<const float> logits);
  /// Handles a token that the device sampled.
  void take_drawn(SequenceRun& run, const models::DecodePass::Drawn& drawn);

  /// Continues a sequence that waits for a mask, if the mask has arrived.
  void take_mask(SequenceRun& run);

  /// Continues after the event that waited for credit was written (`ok`) or failed.
  void written(SequenceRun& run, bool last, bool ok);

 private:
  void start(const StateTable& table, SequenceRun& run);
  void sample(SequenceRun& run);
  void accept(SequenceRun& run, const models::Sampled& sampled);
  void end_unsampled(SequenceRun& run, models::SampleError error);
  void send(SequenceRun& run, protocol::DecodeEvent event);

  WorkerFigures& figures_;
  const WaitForCredit wait_for_credit_;
  models::SamplerScratch scratch_;
};

}  // namespace reprise::actors
