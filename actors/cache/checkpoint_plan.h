#pragma once
// Which places of a prompt a prefill keeps snapshots of. Pure. docs/cache.md lists all origins; those inside and
// behind a reply are beyond the prompt and not planned here.
//
// A tool loop goes on from its user message for many requests, until the next one strips its thinking: the
// place where the user message ends outlives the loop (NewEntry::keep).
//
// A loop of tool calls is forked and repeated at any of its steps: the end of a tool's result is kept for itself.
//
// Where states can be cut at any token one place says it all: the end of the prompt.

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "protocol/chat/prompt_shape.h"
#include "protocol/job.h"

namespace reprise::actors {

struct PlanRules {
  std::uint32_t grid = 1;
  bool any_token = false;
  std::uint32_t spaced_from = 256;
  std::uint32_t least_tokens =
      1;  // fewer are not worth a state, but where the client or another request waits for one
  std::uint32_t most_restored =
      UINT32_MAX;                  // a prompt like this is restored no further, where states cannot be cut
  std::uint32_t most_spaced = 16;  // of one prompt, from its byte share; more would be spread wider
};

using protocol::PlannedCheckpoint;

/// Where the client wishes for a checkpoint, and for how long at most; or where two blocks of its last message meet.
struct PlacedBreakpoint {
  std::uint32_t at = 0;
  std::chrono::seconds ttl{0};
  bool is_block = false;  // no wish; ttl says nothing
};

/// Ascending, each place once, all after `restored` and at most prompt - 1. `branch`: where an earlier prompt
/// took another way; `wanted`: where others wait for one. A place that is kept for
/// another reason than a breakpoint is kept without a time of its own.
std::vector<PlannedCheckpoint> plan_checkpoints(std::span<const TokenId> prompt,
                                                const protocol::MessageBorders& borders,
                                                std::uint32_t restored, std::optional<std::uint32_t> branch,
                                                std::span<const std::uint32_t> wanted, const PlanRules& rules,
                                                std::span<const PlacedBreakpoint> breakpoints = {});

struct ReplySpacing {
  std::uint32_t every = 256;  // tokens; 0: none
  std::uint32_t most = 8;
};

/// Places inside a reply that is prefilled behind `restored`, all before `end`: as far apart as `spacing` says, and further
/// where there would be too many. None where states can be cut.
std::vector<PlannedCheckpoint> reply_places(std::uint32_t restored, std::uint32_t end, const PlanRules& rules,
                                            const ReplySpacing& spacing);

/// The spaced places below `end`: 256, and then each 4/3 of the one before; every n-th of them, the last ones
/// kept, if there are more than `most`.
std::vector<std::uint32_t> spaced_places(std::uint32_t end, const PlanRules& rules);

}  // namespace reprise::actors
