#pragma once
// The messages between a device worker, which owns a device's memory, and the actors that decide what it
// computes. They carry ids, tokens, counts and bytes, never references to device memory. A state that moves
// to or from a tier is an immutable copy in host memory.
//
// Ids contain the generation of the loaded model. DropArch ends a generation, so unloading and recovery
// invalidate all ids that other actors still hold.
//
// Lifetimes (they do not depend on the order of messages from different senders)
// - A sequence lives from Opened to CloseSequence.
// - A snapshot belongs to its sequence and is freed with it, until AdoptKvSnapshot has been answered. It then
//   belongs to the registry until DropKvSnapshot or DropAdopted.
// - Drops are idempotent and are answered even after a fault.
//
// Adapters belong to a loaded model. A sequence has the same adapter, or none, for all its life; its
// snapshots are restored only into sequences with that adapter. DropAdapter ends the adapter's sequences and
// drops its snapshots.
//
// Checkpoints: a prefill carries a plan of checkpoints. The worker reports each to the registry as it is
// taken, with the plan, and the registry adopts it. The request is told how many were reported, and waits
// with Settle (protocol/registry.h) until the registry has handled that many before it closes the sequence.
//
// Compaction: a sequence opened with a KV budget is compacted at the end of its prefill, after all
// checkpoints, so the registry has exact states only. After that the worker takes no canonical snapshot of
// it, and saves it on preemption instead of computing it again. Its last `window` tokens must be computed,
// not restored.
//
// Kinds of snapshots
// - Canonical: taken at a position on the device's grid, by prefill (or by decoding, if decoding gives the
//   same bits). Depends on the tokens only, so other requests may restore it.
// - Raw: at the end of a prompt, which need not be on the grid, with its logits; only for the request that
//   took it, to decode several choices.

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
#include "protocol/error.h"
#include "protocol/priority.h"
#include "runtime/ref.h"
#include "runtime/stream.h"
#include "traces/request_trace.h"

namespace reprise::protocol {

template <class Tag>
struct JobId {
  std::uint32_t generation = 0;  // generation of the loaded model; 0: no id
  std::uint64_t number = 0;      // never reused within a generation

  auto operator<=>(const JobId&) const = default;
  explicit operator bool() const { return generation != 0; }
};
using ArchId = JobId<struct ArchTag>;
using SequenceId = JobId<struct SequenceTag>;
using SnapshotId = JobId<struct SnapshotTag>;
using AdapterId = JobId<struct AdapterTag>;

using JobFault = ErrorKind;
using JobError = Error;

template <class T>
using JobResult = Outcome<T, JobError>;

/// Returns the worker's answer to a job, or kNoAnswer: const JobResult<Opened> opened = answer_of(co_await
/// asked);
template <class T>
JobResult<T> answer_of(runtime::Result<JobResult<T>> asked) {
  if (asked.ok()) return std::move(*asked);
  return JobError{
      .kind = JobFault::kNoAnswer, .message = asked.error().describe(), .no_answer = asked.error().code};
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
  std::uint64_t token_bytes = 0;  // state bytes per token
  std::uint64_t slot_bytes = 0;   // state bytes per sequence and per snapshot
  std::uint64_t state_bytes = 0;  // limit for all sequences and snapshots of the device
  std::uint32_t page_tokens = 0;
  std::uint32_t grid = 1;            // canonical snapshots are taken at multiples of this
  bool any_token = false;            // snapshots can be truncated to any multiple of the grid
  bool decode_is_canonical = false;  // states made by decoding may enter the registry
  std::string no_compaction{};       // why prompts cannot be compacted (base/kv_budget.h); empty: they can
  std::uint32_t hidden = 0;          // size of the hidden state that a prefill can return; 0: not supported
  std::uint64_t fingerprint = 0;  // digest of weights, settings and arithmetic; snapshots need the same one
  std::uint64_t arithmetic = 0;   // the part of the fingerprint for build and device
  std::uint64_t identity = 0;     // the part of the fingerprint for weights and settings
};

struct Reclaim;
struct CheckpointTaken;

/// Progress of loading a model. The loading thread writes it, any thread reads it.
struct LoadMeter {
  std::atomic<std::uint32_t> permille{0};  // relaxed: only shown to users, publishes no other data
};

struct LoadArch {
  using Reply = JobResult<ArchLoaded>;
  std::string path{};
  std::string compute = "auto";
  std::string kv_dtype = "auto";
  std::string isa{};
  std::shared_ptr<LoadMeter> meter{};  // null: no progress wanted
};

/// Sets the registry that receives the model's checkpoints and is asked for memory. `oldest_use` may be
/// called at any time without a message: it returns the last use of the entry that would be evicted first, in
/// nanoseconds of the steady clock.
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

/// Sent to the worker's supervisor, once per fault. The model's sequences have failed and its snapshots are
/// lost. The model stays unusable until DropArch.
struct ArchFailed {
  ArchId arch{};
  std::string device{};
  std::string why{};
  bool device_lost = false;  // this process cannot use the device again
};

// -- adapters

struct AdapterLoaded {
  AdapterId adapter{};
  std::uint32_t matrices = 0;     // number of matrices it changes
  std::uint32_t rank = 0;         // the largest rank
  std::uint64_t bytes = 0;        // taken from the device's state memory
  std::uint64_t fingerprint = 0;  // fingerprint of the model with this adapter
};
/// The file is read while steps run; the adapter is added between two steps when there is memory for it.
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
  ArchId arch{};
  std::uint64_t ticket = 0;
};
/// Ends the prefill or decoding in progress with kCancelled; the sequence stays open.
struct Cancel {
  SequenceId sequence{};
};

/// Ends a prefill that has a plan at the next grid position, as if that were its end, with a checkpoint
/// there. A prefill without a plan is ended like Cancel.
struct LeaveOff {
  SequenceId sequence{};
};

// -- checkpoints: canonical snapshots for the registry

// identifies a prompt in flight (protocol/registry.h), never reused; 0: none
using FlightNumber = std::uint64_t;

struct PlannedCheckpoint {
  std::uint32_t at = 0;  // position in tokens, on the grid
  Origin origin = Origin::kSpaced;
  std::chrono::seconds ttl{
      0};  // maximum time since the last use, if shorter than the cache's; 0: the cache's

  bool operator==(const PlannedCheckpoint&) const = default;
};

/// The registry's data on the checkpoints of one computation. The worker reads only the positions, and sends
/// the plan along with each checkpoint.
struct CheckpointPlan {
  FlightNumber flight = 0;  // the flight that takes the checkpoints
  // the flight of the request's own prompt: groups the entries that one request made
  FlightNumber request = 0;
  std::string name_space{};
  std::uint64_t conversation = 0;
  std::uint32_t keep = 0;                     // do not supersede an entry of this length
  std::chrono::seconds disk_retention{0};     // see CacheOptions::disk_retention
  std::vector<PlannedCheckpoint> places{};    // ascending positions
  Origin origin_elsewhere = Origin::kBranch;  // origin of a checkpoint that is not in `places`
};
using SharedPlan = std::shared_ptr<const CheckpointPlan>;

// -- snapshots

struct Restored {
  std::uint32_t tokens = 0;
  std::uint64_t shared_bytes = 0;
};
/// Restores a snapshot into a sequence without work in progress and replaces its state. `at` may be less than
/// the snapshot's tokens if it can be truncated. If memory is short, a raw snapshot waits without limit; a
/// canonical one waits for a bounded time, because its state can be computed instead.
struct RestoreKv {
  using Reply = JobResult<Restored>;
  SequenceId sequence{};
  SnapshotId snapshot{};
  std::uint32_t at = 0;
  // hash of the prompt's first `at` tokens; if the snapshot's differs, it is damaged
  std::uint64_t token_hash = 0;
};

/// A state in host memory: its pages (the last may be partly filled), then its slot.
struct HostState {
  std::span<const std::byte> bytes{};
  std::shared_ptr<const void> memory{};  // owns `bytes`
  std::uint32_t stored = 0;              // KV entries in the pages
  std::uint32_t logical = 0;             // RoPE positions; equals `stored` unless compacted
  std::shared_ptr<void> counted{};       // reservation against the limit on states in flight
};
using SharedHostState = std::shared_ptr<const HostState>;

/// Restores a state from host memory, with RestoreKv's rules. The sequence then holds the first
/// `state->stored` of the tokens, as if it had computed them.
struct LoadKv {
  using Reply = JobResult<Restored>;
  SequenceId sequence{};
  SharedHostState state{};
  SharedTokens tokens{};
};

/// Copies pages [first_page, first_page + pages) of an adopted snapshot, then its slot if `slot`, to `to`,
/// whose size must match exactly. The worker owns `to` until it answers. It computes nothing during the copy,
/// so callers read large snapshots in parts, into pinned memory.
struct ReadKv {
  using Reply = JobResult<Nothing>;
  SnapshotId snapshot{};
  std::uint32_t first_page = 0;
  std::uint32_t pages = 0;
  bool slot = false;
  std::span<std::byte> to{};
  std::shared_ptr<void> memory{};  // owns `to`
};

struct SnapshotTaken {
  SnapshotId snapshot{};
  std::uint32_t tokens = 0;
  std::uint64_t exclusive_bytes = 0;
  bool reported = false;  // sent to the registry
};
/// Takes a snapshot of a sequence without work in progress. If memory is short, a raw snapshot waits; a
/// canonical one waits for memory that the registries free, and fails if they free none. A canonical snapshot
/// with a plan is a checkpoint: the registry is told before the answer.
struct SnapshotKv {
  using Reply = JobResult<SnapshotTaken>;
  enum class Kind : std::uint8_t { kCanonical, kRaw };
  SequenceId sequence{};
  Kind kind = Kind::kCanonical;
  SharedPlan plan{};
};

struct Adopted {
  bool done = false;
  std::uint64_t short_bytes = 0;    // if not done: bytes to free first, to stay within the budget
  std::uint64_t adopted_bytes = 0;  // total of the model's adopted snapshots, shared pages counted once
};
/// Transfers a snapshot to the registry, unless its total would then exceed `budget_bytes`.
struct AdoptKvSnapshot {
  using Reply = JobResult<Adopted>;
  SnapshotId snapshot{};
  std::uint64_t budget_bytes = 0;
};

struct Dropped {
  std::uint64_t freed_bytes = 0;    // excludes pages that other snapshots or sequences share
  std::uint64_t adopted_bytes = 0;  // total after the drop
};
struct DropKvSnapshot {
  using Reply = Dropped;
  SnapshotId snapshot{};
};

/// Drops all adopted snapshots of the model; sent by a registry that starts empty.
struct DropAdopted {
  using Reply = Dropped;
  ArchId arch{};
};

struct Reclaimed {
  std::uint64_t freed_bytes = 0;
  std::uint32_t entries = 0;
};
/// Sent by a worker to a registry: drop the least valuable entries, none last used after `not_after`, until
/// this many bytes are freed.
struct Reclaim {
  using Reply = Reclaimed;
  std::uint64_t bytes = 0;
  std::int64_t not_after = INT64_MAX;  // nanoseconds of the steady clock
  bool ahead = false;                  // freed in advance of need: keep recently used and pinned entries
};

/// Sent by a registry that freed less than it was asked for, when more can be freed.
struct MoreToReclaim {
  ArchId arch{};
};

/// Sent by a worker to the registry of the sequence's model, once for each planned checkpoint.
struct CheckpointTaken {
  SequenceId sequence{};
  SharedPlan plan{};
  SharedTokens tokens{};  // tokens of the sequence, at least `at`
  std::uint32_t at = 0;
  std::optional<SnapshotTaken> snapshot{};  // none: no memory for it, or `healthy` is false
  bool healthy = true;                      // false: the state was not finite
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
/// Computes tokens[stored, end) and takes the planned checkpoints on the way, reporting each to the registry
/// in order. The logits of the last token stay with the sequence for Decode.
struct Prefill {
  using Reply = JobResult<Prefilled>;
  SequenceId sequence{};
  SharedTokens tokens{};  // from position 0
  std::uint32_t end = 0;
  SharedPlan plan{};  // none: no checkpoints
  bool want_digest = false;
  enum class Hidden : std::uint8_t { kNone, kLast, kSum } hidden = Hidden::kNone;
  /// The parameters of the Decode that will follow. Set only if that is the next job, with choice 0 and no
  /// mask for its first token: the last step of the prefill may then sample it.
  std::optional<SamplingParams> sampling{};
  /// Receives the number of tokens that the sequence holds after each slice, as credit permits; closed when
  /// the prefill ends. May be null.
  runtime::StreamWriter<std::uint32_t> progress{};
};

/// Adds a checkpoint to a running prefill that has a plan; an idle prefill is given normal urgency. Returns
/// false if the position has been passed or no such prefill runs.
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
  std::optional<DecodeEnd> end{};  // set in the last event
  JobError error{};                // set for kFault
  std::uint32_t reported = 0;      // checkpoints of this decoding reported to the registry so far
};
/// Decodes from the logits that the prefill left, as fast as the stream's credit permits. With a plan, and if
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

/// The mask slot of a decoding has changed: the next step's mask is available, or that step is not masked.
struct MaskReady {
  SequenceId sequence{};
};

// -- status

struct Memory {
  std::uint64_t limit_bytes = 0;
  std::uint64_t used_bytes = 0;
  std::uint64_t adopted_bytes = 0;
  std::uint32_t sequences = 0;
  std::uint32_t snapshots = 0;
  std::uint32_t waiting = 0;  // waiting OpenSequence jobs
};
struct QueryMemory {
  using Reply = Memory;
};

}  // namespace reprise::protocol
