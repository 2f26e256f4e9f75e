#pragma once
// Types that all jobs share. Jobs are the messages between a device worker, which owns a device's memory, and the
// actors that decide what it computes. They carry ids, tokens, counts and bytes, never references to device
// memory. A state that moves to or from a tier is an immutable copy in host memory.
//
//   jobs/models.h       loads models and adapters; OperatorRef
//   jobs/sequences.h    computes; SequenceRef
//   jobs/snapshots.h    keeps, restores and drops states; SnapshotRef
//   jobs/checkpoints.h  snapshots that a computation takes for the registry
// The worker accepts all jobs. Each of the three refs accepts the jobs of one kind of sender, checked when it
// is compiled: a request cannot load models, nor adopt snapshots.
//
// Ids contain the generation of the loaded model. DropArch ends a generation, so unloading and recovery
// invalidate all ids that other actors still hold.

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/outcome.h"
#include "protocol/error.h"
#include "runtime/ref.h"

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

template <class T>
using JobResult = Outcome<T, Error>;

/// Returns the worker's answer to a job, or kNoAnswer if there was none:
///
///   const JobResult<Opened> opened = answer_of(co_await asked);
template <class T>
JobResult<T> answer_of(runtime::Result<JobResult<T>> asked) {
  if (asked.ok()) return std::move(*asked);
  return Error{
      .kind = ErrorKind::kNoAnswer, .message = asked.error().describe(), .no_answer = asked.error().code};
}

struct Nothing {};

}  // namespace reprise::protocol
