#pragma once
// Chooses the positions in a prompt at which a prefill takes checkpoints. docs/cache.md lists all origins;
// those inside and after a reply are outside the prompt and not planned here.
//
// A tool loop continues from its user message for many requests, until the next user message strips its
// reasoning, so the checkpoint at the end of the user message outlives the loop (NewEntry::keep). Any step of
// a tool loop may be forked or repeated, so each tool result's end gets a checkpoint of its own.
//
// Which positions are worth a checkpoint is asked of CheckpointRules (protocol/checkpoint_rules.h).

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "protocol/chat/prompt_shape.h"
#include "protocol/checkpoint_rules.h"
#include "protocol/jobs/checkpoints.h"

namespace reprise::actors {

using protocol::CheckpointRules;
using protocol::PlannedCheckpoint;

/// A position where the client requested a checkpoint, with a maximum TTL, or where two blocks of its last
/// message meet.
struct BreakpointPosition {
  std::uint32_t at = 0;
  std::chrono::seconds ttl{0};
  bool is_block = false;  // a block boundary; ttl is unused
};

/// Returns checkpoints in ascending order, one per position, all after `restored` and at most at prompt - 1.
/// `branch`: where an earlier prompt diverged; `wanted`: positions other requests wait for. A checkpoint that
/// has a reason besides a breakpoint gets no TTL of its own.
std::vector<PlannedCheckpoint> plan_checkpoints(std::span<const TokenId> prompt,
                                                const protocol::MessageBorders& borders,
                                                std::uint32_t restored, std::optional<std::uint32_t> branch,
                                                std::span<const std::uint32_t> wanted,
                                                const CheckpointRules& rules,
                                                std::span<const BreakpointPosition> breakpoints = {});

/// Returns positions inside a reply that is prefilled after `restored`, all before `end`: `rules.reply_every`
/// tokens apart, or farther where that exceeds `rules.max_in_reply`.
std::vector<PlannedCheckpoint> reply_positions(std::uint32_t restored, std::uint32_t end,
                                               const CheckpointRules& rules);

/// Returns the spaced positions below `end`: spaced_from, then each 4/3 of the previous one. If there are
/// more than `max_spaced`, only every n-th is kept, counted from the last.
std::vector<std::uint32_t> spaced_positions(std::uint32_t end, const CheckpointRules& rules);

}  // namespace reprise::actors
