#pragma once
// How a prefill begins, and how it gets one more checkpoint on its way: what is checked, and what the sequence
// remembers. Nothing is computed here.
//
// Threading: the device worker's thread.

#include <optional>

#include "actors/worker/state_table.h"

namespace reprise::actors {

/// The sequence takes the job, or the job is refused and nothing has changed. The answer is given when the
/// prefill ends; `reply` is moved from only if the job is taken.
std::optional<protocol::JobError> begin_prefill(
    StateTable& table, SequenceRun& run, protocol::Prefill& job,
    runtime::ReplyTo<protocol::JobResult<protocol::Prefilled>>& reply);

/// False: that place has been passed, or there is no such prefill. A prefill that was idle work is hurried.
bool add_checkpoint(const StateTable& table, SequenceRun& run, std::uint32_t at);

/// The prefill ends at the next place of the grid, where a checkpoint is taken. False: it cannot.
bool leave_off(const StateTable& table, SequenceRun& run);

}  // namespace reprise::actors
