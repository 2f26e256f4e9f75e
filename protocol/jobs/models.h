#pragma once
// Jobs that load models and adapters, drop them, and report their faults. Sent by the worker's supervisor.
//
// Adapters belong to a loaded model. A sequence has the same adapter, or none, for all its life; its
// snapshots are restored only into sequences with that adapter. DropAdapter ends the adapter's sequences and
// drops its snapshots.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "protocol/jobs/job.h"

namespace reprise::protocol {

// Messages to a registry (protocol/jobs/snapshots.h and checkpoints.h).
struct Reclaim;
struct CheckpointTaken;

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
  static constexpr bool kReleases = true;
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
  static constexpr bool kReleases = true;
  using Reply = AdapterDropped;
  AdapterId adapter{};
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

/// A worker, for the actor that operates its models.
using OperatorRef = runtime::Ref<LoadArch, AttachRegistry, DropArch, LoadAdapter, DropAdapter, QueryMemory>;

}  // namespace reprise::protocol
