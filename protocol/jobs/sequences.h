#pragma once
// Jobs of a sequence: open, prefill, decode, close. Sent by requests.
//
// A sequence lives from Opened to CloseSequence, whatever the order of messages from different senders.
//
// Compaction: a sequence opened with a KV budget is compacted at the end of its prefill, after all
// checkpoints, so the registry has exact states only. After that the worker takes no canonical snapshot of
// it, and saves it on preemption instead of computing it again. Its last `window` tokens must be computed,
// not restored.

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/kv_budget.h"
#include "base/sampling.h"
#include "base/token.h"
#include "base/token_mask.h"
#include "protocol/jobs/snapshots.h"
#include "protocol/priority.h"
#include "runtime/stream.h"
#include "traces/request_trace.h"

namespace reprise::protocol {

struct Opened {
  SequenceId sequence{};
  std::uint64_t price_bytes = 0;
};
/// Answered when memory for the sequence is available, in the order of actors/device/admission.h. Idle
/// sequences are admitted only while no other waits.
struct OpenSequence {
  using Reply = JobResult<Opened>;
  ArchId arch{};
  AdapterId adapter{};  // an adapter of `arch`; none: the base model
  // chosen by the sender, never reused: identifies the sequence before its id is known
  std::uint64_t ticket = 0;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t max_tokens = 0;     // maximum to decode
  std::uint32_t shared_tokens = 0;  // prompt tokens expected to be restored from a snapshot
  KvBudget kv{};  // the prompt is compacted if it has more tokens; requires a model that supports it
  bool keeps_prompt = false;  // reserve memory for a raw snapshot at the end of the prompt
  Priority priority = Priority::kNormal;
  std::uint64_t tenant = 0;      // 0: no tenant
  std::uint64_t group = 0;       // the client request it belongs to; 0: none
  double tenant_share = 0;       // fraction of the memory that the tenant's sequences may hold; 0: all
  traces::RequestTrace trace{};  // the worker adds its marks to it
};

/// Closes a sequence, ends its current work and frees its snapshots that were not adopted. Names the sequence
/// by ticket, because a sender that stopped waiting cannot know whether it was opened.
struct CloseSequence {
  static constexpr bool kReleases = true;
  ArchId arch{};
  std::uint64_t ticket = 0;
};
/// Ends the prefill or decoding in progress with kCanceled; the sequence stays open. A decoding that the
/// prefill carries does not begin.
struct Cancel {
  static constexpr bool kReleases = true;
  SequenceId sequence{};
};

/// Ends a prefill that has a plan at the next grid position, as if that were its end, with a checkpoint
/// there. A prefill without a plan is ended like Cancel.
struct LeaveOff {
  static constexpr bool kReleases = true;
  SequenceId sequence{};
};

// -- computing

struct Prefilled {
  std::uint32_t computed = 0;
  std::uint64_t digest = 0;    // digest of logits and state, if requested
  std::uint32_t reported = 0;  // checkpoints reported to the registry, taken or missed
  // if requested: the last token's hidden state, or the sum over the computed tokens
  std::vector<float> hidden{};
  std::optional<KvKept> kept{};  // set if the prompt was compacted
};
struct DecodedToken {
  TokenId token = 0;
  std::optional<double> logprob{};
  std::vector<std::pair<TokenId, double>> top{};
};
enum class DecodeEnd : std::uint8_t { kStopToken, kLength, kFault };
struct DecodeEvent {
  std::optional<DecodedToken> token{};
  std::optional<DecodeEnd> end{};  // set in the last event
  Error error{};                   // set for kFault
  std::uint32_t reported = 0;      // checkpoints of this decoding reported to the registry so far
};
/// Decodes from the logits of the prefill, as fast as the stream's credit permits. With a plan, and if
/// decoding is canonical, takes a checkpoint every `checkpoint_every` tokens.
struct Decode {
  SequenceId sequence{};
  SamplingParams sampling{};
  std::uint32_t choice = 0;
  std::uint32_t max_tokens = 1;
  std::vector<TokenId> stop_tokens{};  // a stop token ends the decoding and is reported
  /// Slot in which the sender puts the mask of each masked step; null: no step is masked. A sequence whose
  /// mask is missing waits without delaying others; MaskReady says that the slot has changed.
  std::shared_ptr<const MaskSlot> masks{};
  SharedPlan plan{};                   // none: no checkpoints
  std::uint32_t checkpoint_every = 0;  // in tokens; 0: none
  SharedPlan call_plan{};  // plan of one checkpoint before the first `call_opener`; null: not taken
  TokenId call_opener = -1;
  runtime::StreamWriter<DecodeEvent> out{};
};

/// Computes tokens[stored, end) and takes the planned checkpoints on the way, reporting each to the registry
/// in order. The logits of the last token stay with the sequence for Decode, unless the prefill carries it.
struct Prefill {
  using Reply = JobResult<Prefilled>;
  SequenceId sequence{};
  SharedTokens tokens{};  // from position 0
  std::uint32_t end = 0;
  SharedPlan plan{};  // none: no checkpoints
  bool want_digest = false;
  enum class Hidden : std::uint8_t { kNone, kLast, kSum } hidden = Hidden::kNone;
  /// The decoding that begins when the prefill succeeds, without another message; the last step of the
  /// prefill may sample its first token. If the prefill fails or is ended early, its stream ends without an
  /// event.
  std::optional<Decode> decode{};
  /// Receives the number of tokens that the sequence holds after each slice, as credit permits; closed when
  /// the prefill ends. May be null.
  runtime::StreamWriter<std::uint32_t> progress{};
};

/// The mask slot of a decoding has changed: the next step's mask is available, or that step is not masked.
struct MaskReady {
  static constexpr bool kReleases = true;
  SequenceId sequence{};
};

/// A worker, for the actors that compute in it.
using SequenceRef = runtime::Ref<OpenSequence, CloseSequence, Cancel, LeaveOff, RestoreKv, LoadKv, SnapshotKv,
                                 DropKvSnapshot, Prefill, Decode, MaskReady>;

}  // namespace reprise::protocol
