#pragma once
// The jobs of a device worker, and what it asks of others. All that crosses between the deciding actors and
// the owner of the memory: ids, tokens, counts and bytes, never memory itself.
//
// (A state that comes from, or goes to, a tier below the device is a copy in the host's memory, which nobody changes.)
//
// Ids carry the generation of the loaded model that they belong to. DropArch ends a generation: every id of
// it is unknown afterwards, so unloading and recovery invalidate all that anybody still holds.
//
// Lifetimes, without relying on any order between senders
//   A sequence lives from Opened to CloseSequence.
//   A snapshot belongs to the sequence it was taken of and goes with it, until AdoptKvSnapshot has answered;
//   from then on until DropKvSnapshot, or DropAdopted, it belongs to the registry.
//   Drops are idempotent and answer after a fault too.
//
// Adapters belong to a loaded model. A sequence has one, or none, for all its life; a snapshot has that of the sequence
// it was taken of, and is restored into no other. DropAdapter ends its sequences and drops its snapshots.
//
// Checkpoints go one way. A prefill carries the plan of its checkpoints; the worker tells the registry of each
// as it is taken, plan and all; the registry adopts it. Who computes is told how many were reported, and waits
// with the registry (protocol/registry.h: Settle) until that many have been dealt with before it closes the
// sequence.
//
// Compaction. A sequence that was opened with a budget for its keys and values is compacted when the prefill ends, behind all
// its checkpoints: what the registry has is exact. From then on it is its request's alone: no canonical snapshot is taken of
// it, and where it gives way it is saved. Its last `window` tokens must be computed, not restored.
//
// Kinds of snapshots. Canonical: made by prefill at a place of the device's grid (and, where decoding
// computes the same bits as prefill, by decoding), the same for everybody with these tokens. Raw: at any
// place, with what sampling needs to go on; for one request's own use.

#include <atomic>
#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/kv_budget.h"
#include "base/outcome.h"
#include "base/sampling.h"
#include "base/token.h"
#include "base/token_mask.h"
#include "protocol/cache_report.h"
#include "protocol/priority.h"
#include "runtime/ref.h"
#include "runtime/stream.h"
#include "traces/request_trace.h"

namespace reprise::protocol {

template <class Tag>
struct JobId {
  std::uint32_t generation = 0;  // of the loaded model; 0: no id
  std::uint64_t number = 0;      // never used twice in a generation

  auto operator<=>(const JobId&) const = default;
  explicit operator bool() const { return generation != 0; }
};
using ArchId = JobId<struct ArchTag>;
using SequenceId = JobId<struct SequenceTag>;
using SnapshotId = JobId<struct SnapshotTag>;
using AdapterId = JobId<struct AdapterTag>;

enum class JobFault : std::uint8_t {
  kUnknown,       // no such model, sequence or snapshot (any more)
  kBadJob,        // the job makes no sense: a token outside the vocabulary, a place beyond the tokens
  kNeverFits,     // more bytes than the device has for sequences
  kNoMemory,      // the memory is taken, and nothing more can be freed now
  kBusy,          // too many wait already
  kDamaged,       // a snapshot failed its check; it has been dropped
  kUnhealthy,     // the state or the logits are not finite
  kCannotSample,  // the request's own biases leave no token
  kCancelled,
  kDeviceFailed,  // a step failed; the model has to be loaded anew
  kNoAnswer,      // the worker did not say: it has gone, or the wait for it ended first
};
std::string_view name_of(JobFault fault);

struct JobError {
  JobFault fault = JobFault::kUnknown;
  std::string message{};
  std::uint64_t bytes = 0;                                      // kNeverFits, kNoMemory: the price
  runtime::ErrorCode no_answer = runtime::ErrorCode::kStopped;  // kNoAnswer: why
};

template <class T>
using JobResult = Outcome<T, JobError>;

/// Of a job that was asked for: what the worker said, or kNoAnswer.
///   const JobResult<Opened> opened = answer_of(co_await asked);
template <class T>
JobResult<T> answer_of(runtime::Result<JobResult<T>> asked) {
  if (asked.ok()) return std::move(*asked);
  return JobError{JobFault::kNoAnswer, asked.error().describe(), 0, asked.error().code};
}

struct Nothing {};

// -- models

struct ArchLoaded {
  ArchId arch{};
  std::string device;  // "cpu", "cuda:0"
  std::string architecture;
  std::uint32_t vocab = 0;
  std::uint32_t context = 0;  // tokens
  std::uint32_t layers = 0;
  std::uint64_t weight_bytes = 0;
  std::uint64_t token_bytes = 0;  // of state, for each token
  std::uint64_t slot_bytes = 0;   // of state, for each sequence and snapshot
  std::uint64_t state_bytes = 0;  // for all sequences and snapshots of the device
  std::uint32_t page_tokens = 0;
  std::uint32_t grid = 1;            // canonical snapshots stand at its multiples
  bool any_token = false;            // snapshots can be cut at any place of the grid
  bool decode_is_canonical = false;  // decoded states may enter the registry
  std::string no_compaction{};       // why prompts cannot be compacted (base/kv_budget.h); empty: they can
  std::uint32_t hidden = 0;       // values of a hidden state that a prefill can give; 0: it gives none here
  std::uint64_t fingerprint = 0;  // of weights, settings and arithmetic: snapshots of another never fit
  std::uint64_t arithmetic = 0;   // its part that is this build on this device
  std::uint64_t identity = 0;     // its part that is weights and settings, wherever they are computed with
};

struct Reclaim;
struct CheckpointTaken;

/// How far a load has come: written by who loads, read by anybody.
struct LoadMeter {
  std::atomic<std::uint32_t> permille{0};  // relaxed: a figure, nothing is published with it
};

struct LoadArch {
  using Reply = JobResult<ArchLoaded>;
  std::string path{};
  std::string compute = "auto";
  std::string kv_dtype = "auto";
  std::string isa{};
  std::shared_ptr<LoadMeter> meter{};  // null: nobody looks
};

/// Whom to tell of checkpoints, and to ask for bytes when they are short. `oldest_use` is read without asking:
/// the time of the entry that would go first, in nanoseconds of the steady clock.
struct AttachRegistry {
  ArchId arch{};
  runtime::Ref<Reclaim, CheckpointTaken> registry{};
  std::function<std::int64_t()> oldest_use{};
};

struct ArchDropped {
  std::uint32_t sequences = 0;
  std::uint32_t snapshots = 0;
  std::uint64_t freed_bytes = 0;
};
struct DropArch {
  using Reply = ArchDropped;
  ArchId arch{};
};

/// Told to whom the worker was given as supervisor, once for each fault. The model's sequences have failed
/// and its snapshots are gone; it stays so until DropArch.
struct ArchFailed {
  ArchId arch{};
  std::string device{};  // where it was
  std::string why{};
  bool device_lost = false;  // this process cannot use the device again
};

// -- adapters

struct AdapterLoaded {
  AdapterId adapter{};
  std::uint32_t matrices = 0;     // that it changes
  std::uint32_t rank = 0;         // the largest
  std::uint64_t bytes = 0;        // of the device's budget
  std::uint64_t fingerprint = 0;  // of the model with this adapter: as ArchLoaded's
};
/// Read beside the steps, and taken in between two of them when there is memory for it.
struct LoadAdapter {
  using Reply = JobResult<AdapterLoaded>;
  ArchId arch{};
  std::string path{};
};

struct AdapterDropped {
  std::uint32_t sequences = 0;
  std::uint32_t snapshots = 0;
  std::uint64_t freed_bytes = 0;
};
struct DropAdapter {
  using Reply = AdapterDropped;
  AdapterId adapter{};
};

// -- sequences

struct Opened {
  SequenceId sequence{};
  std::uint64_t price_bytes = 0;
};
/// Answered when there is memory for it, in the order of actors/worker/admission.h; idle ones only while
/// nobody else waits.
struct OpenSequence {
  using Reply = JobResult<Opened>;
  ArchId arch{};
  AdapterId adapter{};       // of the arch; none: the model as it is
  std::uint64_t ticket = 0;  // the sender's, never used twice: to close what it has no id of yet
  std::uint32_t prompt_tokens = 0;
  std::uint32_t max_tokens = 0;     // to be decoded
  std::uint32_t shared_tokens = 0;  // of the prompt, expected to come from a snapshot
  KvBudget kv{};                    // the prompt is compacted where it has more tokens; only where models can
  bool keeps_prompt = false;        // a raw snapshot will be taken behind the prompt: it is priced, too
  Priority priority = Priority::kNormal;
  std::uint64_t tenant = 0;      // whose it is; 0: nobody's in particular
  std::uint64_t group = 0;       // the client's request that it belongs to; 0: none
  double tenant_share = 0;       // of the memory that the tenant's sequences may hold; 0: all
  traces::RequestTrace trace{};  // whose marks the worker adds to
};

/// Also ends what the sequence is doing. What was not adopted of its snapshots goes with it. By its ticket,
/// for a sender that gave up waiting and cannot know whether it was opened.
struct CloseSequence {
  ArchId arch{};
  std::uint64_t ticket = 0;
};
/// Ends the prefill or decoding in progress with kCancelled; the sequence stays.
struct Cancel {
  SequenceId sequence{};
};

/// The prefill in progress, if it has a plan, ends at the next place of the grid as if that were its end, with a
/// checkpoint there; else it ends as with Cancel.
struct LeaveOff {
  SequenceId sequence{};
};

// -- checkpoints: canonical snapshots for the registry

using FlightNumber = std::uint64_t;  // of a prompt in flight (protocol/registry.h), never used twice; 0: none

struct PlannedCheckpoint {
  std::uint32_t at = 0;  // tokens, on the grid
  Origin origin = Origin::kSpaced;
  std::chrono::seconds ttl{
      0};  // since its last use, where that is less than the cache's own; 0: the cache's own

  bool operator==(const PlannedCheckpoint&) const = default;
};

/// What the registry must know of the checkpoints of a computation. The worker looks at the places alone, and
/// sends the plan on with each checkpoint.
struct CheckpointPlan {
  FlightNumber flight = 0;   // whose they are
  FlightNumber request = 0;  // the flight of the request that it serves: what one request made stays together
  std::string name_space{};
  std::uint64_t conversation = 0;
  std::uint32_t keep = 0;                     // do not supersede an entry of this length
  std::chrono::seconds disk_retention{0};     // as GenerateRequest has it
  std::vector<PlannedCheckpoint> places{};    // ascending
  Origin origin_elsewhere = Origin::kBranch;  // of a checkpoint at none of these places
};
using SharedPlan = std::shared_ptr<const CheckpointPlan>;

// -- snapshots

struct Restored {
  std::uint32_t tokens = 0;
  std::uint64_t shared_bytes = 0;
};
/// Into a sequence that is at rest; what it held goes. `at`: fewer tokens than the snapshot has, where it can
/// be cut. Where memory is short it is looked for: a raw snapshot waits until there is some, another for a
/// while only, since what it holds can be computed.
struct RestoreKv {
  using Reply = JobResult<Restored>;
  SequenceId sequence{};
  SnapshotId snapshot{};
  std::uint32_t at = 0;
  std::uint64_t token_hash = 0;  // of the first `at` tokens of the prompt; a snapshot of others is damaged
};

/// A state in the host's memory: its pages, the last of them maybe not full, then its slot.
struct HostState {
  std::span<const std::byte> bytes{};
  std::shared_ptr<const void> memory{};  // that they lie in
  std::uint32_t stored = 0;              // tokens in pages
  std::uint32_t logical = 0;             // positions
  std::shared_ptr<void> counted{};       // a place among those that there may be at once
};
using SharedHostState = std::shared_ptr<const HostState>;

/// As RestoreKv, from the host's memory. The sequence then holds the first `state->stored` of the tokens, as if it had
/// computed them.
struct LoadKv {
  using Reply = JobResult<Restored>;
  SequenceId sequence{};
  SharedHostState state{};
  SharedTokens tokens{};
};

/// Pages [first_page, first_page + pages) of an adopted snapshot, then its slot if that is wanted, are copied into `to`,
/// which has exactly so many bytes and is the worker's until it has answered. The worker computes nothing meanwhile:
/// whoever wants much asks for a part at a time, and gives it memory that its device copies fast to.
struct ReadKv {
  using Reply = JobResult<Nothing>;
  SnapshotId snapshot{};
  std::uint32_t first_page = 0;
  std::uint32_t pages = 0;
  bool slot = false;
  std::span<std::byte> to{};
  std::shared_ptr<void> memory{};  // that `to` lies in
};

struct SnapshotTaken {
  SnapshotId snapshot{};
  std::uint32_t tokens = 0;
  std::uint64_t exclusive_bytes = 0;
  bool reported = false;  // to the registry
};
/// Of a sequence that is at rest. Where memory is short a raw one waits until there is some; a canonical one
/// waits for what the registries give back, and is refused where that is nothing. A canonical one with a plan is
/// a checkpoint: the registry is told of it before the answer.
struct SnapshotKv {
  using Reply = JobResult<SnapshotTaken>;
  enum class Kind : std::uint8_t { kCanonical, kRaw };
  SequenceId sequence{};
  Kind kind = Kind::kCanonical;
  SharedPlan plan{};
};

struct Adopted {
  bool done = false;
  std::uint64_t short_bytes = 0;    // not done: to be freed first to stay within the budget
  std::uint64_t adopted_bytes = 0;  // of all adopted snapshots of the model; shared pages once
};
/// The registry takes a snapshot over, unless all that it holds would then be over `budget_bytes`.
struct AdoptKvSnapshot {
  using Reply = JobResult<Adopted>;
  SnapshotId snapshot{};
  std::uint64_t budget_bytes = 0;
};

struct Dropped {
  std::uint64_t freed_bytes = 0;    // really: pages that others share are not
  std::uint64_t adopted_bytes = 0;  // what is left
};
struct DropKvSnapshot {
  using Reply = Dropped;
  SnapshotId snapshot{};
};

/// From a registry that begins with nothing: all that was adopted of this model goes.
struct DropAdopted {
  using Reply = Dropped;
  ArchId arch{};
};

struct Reclaimed {
  std::uint64_t freed_bytes = 0;
  std::uint32_t entries = 0;
};
/// From a worker to a registry: drop the least valuable entries, none used after `not_after`, until so many
/// bytes have come free.
struct Reclaim {
  using Reply = Reclaimed;
  std::uint64_t bytes = 0;
  std::int64_t not_after = INT64_MAX;  // nanoseconds of the steady clock
  bool ahead = false;                  // nobody needs them yet: what was used last stays, and what is pinned
};

/// From a registry that had less to give than it was asked for: it has more now.
struct MoreToReclaim {
  ArchId arch{};
};

/// From a worker to the registry of the sequence's model, once for each checkpoint of a plan.
struct CheckpointTaken {
  SequenceId sequence{};
  SharedPlan plan{};
  SharedTokens tokens{};  // of the sequence, at least `at`
  std::uint32_t at = 0;
  std::optional<SnapshotTaken> snapshot{};  // none: there was no memory for it, or
  bool healthy = true;                      // the state was not finite
};

// -- computing

struct Prefilled {
  std::uint32_t computed = 0;  // tokens
  std::uint64_t digest = 0;    // of logits and state, where it was wanted
  std::uint32_t reported = 0;  // checkpoints, to the registry: taken or missed
  std::vector<float>
      hidden{};  // where it was wanted: of the last token, or the sum of all that were computed
  std::optional<KvKept> kept{};  // the prompt was compacted
};
/// Computes tokens[stored, end). The checkpoints of the plan are taken on the way, and the registry is told of
/// each in order. The logits after the last token stay with the sequence, for Decode.
struct Prefill {
  using Reply = JobResult<Prefilled>;
  SequenceId sequence{};
  SharedTokens tokens{};  // from the very beginning
  std::uint32_t end = 0;
  SharedPlan plan{};  // none: no checkpoints
  bool want_digest = false;
  enum class Hidden : std::uint8_t { kNone, kLast, kSum } hidden = Hidden::kNone;
  /// Of the Decode that will follow, with choice 0 and no mask for its first token, and nothing else will: the step that
  /// ends the prefill may draw that token.
  std::optional<SamplingParams> sampling{};
  /// Gets the tokens that the sequence holds after each slice, where it has credit; ends with the prefill. May be null.
  runtime::StreamWriter<std::uint32_t> progress{};
};

/// One more checkpoint for a prefill under way that has a plan, which is hurried if it was an idle one. False:
/// that place has been passed, or there is no such prefill.
struct AddCheckpoint {
  using Reply = bool;
  SequenceId sequence{};
  std::uint32_t at = 0;
};

struct DecodedToken {
  TokenId token = 0;
  std::optional<double> logprob{};
  std::vector<std::pair<TokenId, double>> top{};
};
enum class DecodeEnd : std::uint8_t { kStopToken, kLength, kFault };
struct DecodeEvent {
  std::optional<DecodedToken> token{};
  std::optional<DecodeEnd> end{};  // with the last event
  JobError error{};                // kFault
  std::uint32_t reported = 0;      // the decoding's checkpoints so far, to the registry
};
/// Decodes from the logits that the prefill left. The stream's credit is the pace. Where decoding is canonical and there
/// is a plan, a checkpoint is taken every so many tokens. The last event counts all of them.
struct Decode {
  SequenceId sequence{};
  SamplingParams sampling{};
  std::uint32_t choice = 0;
  std::uint32_t max_tokens = 1;
  std::vector<TokenId> stop_tokens{};  // decoding ends with one of these, which is reported
  /// Where the sender leaves the mask of each masked step; null: no step is masked. A masked step whose mask is not
  /// there yet waits for it alone; MaskReady tells that the mask has come, or that the step is not masked any more.
  std::shared_ptr<const MaskSlot> masks{};
  SharedPlan plan{};                   // none: no checkpoints
  std::uint32_t checkpoint_every = 0;  // tokens; 0: none
  SharedPlan call_plan{};  // of one checkpoint before the first `call_opener`; none: it is not taken
  TokenId call_opener = -1;
  runtime::StreamWriter<DecodeEvent> out{};
};

/// The slot of a decoding with masks has changed: the next step's mask is there, or it needs none.
struct MaskReady {
  SequenceId sequence{};
};

// -- looking at it

struct Memory {
  std::uint64_t limit_bytes = 0;
  std::uint64_t used_bytes = 0;
  std::uint64_t adopted_bytes = 0;
  std::uint32_t sequences = 0;
  std::uint32_t snapshots = 0;
  std::uint32_t waiting = 0;  // OpenSequence jobs
};
struct QueryMemory {
  using Reply = Memory;
};

}  // namespace reprise::protocol
