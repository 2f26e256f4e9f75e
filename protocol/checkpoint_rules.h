#pragma once
// CheckpointRules decides which checkpoints are worth their time and memory. It is asked at three stages:
// when the checkpoints of a computation are planned, when the device reaches one, and when the registry has
// adopted its snapshot.
//
//   origin                    planned if                  taken at high memory load   stored in a tier below
//   breakpoint                inside                      yes                         at once
//   system, last_user,        inside, min_tokens          yes                         at once
//   branch, history, tool
//   spaced                    inside, min_tokens          every second one            when the device is idle
//   reply                     inside, min_tokens          no                          when the device is idle
//   call                      inside, min_tokens          no                          at once
//   prompt_end, turn_end      min_tokens                  yes                         at once
//
// "inside": if states can be cut at any token, only the checkpoint at the end of a computation is planned, as
// it serves all shorter prefixes. "min_tokens": at least so many tokens are saved. A position that another
// request waits for is planned whatever its length, and taken whatever the load. No tier gets states of less
// than kMinStored tokens. While a reply is decoded, the device takes checkpoints inside it without a plan.

#include <algorithm>
#include <cstdint>

#include "protocol/cache_report.h"

namespace reprise::protocol {

struct CheckpointRules {
  /// A model's sizes, from which its rules follow.
  struct Model {
    std::uint32_t grid = 1;
    bool any_token = false;
    std::uint64_t slot_bytes = 0;   // copied by each snapshot
    std::uint64_t state_bytes = 0;  // memory for states
  };
  struct Candidate {
    Origin origin{};
    std::uint32_t at = 0;     // tokens
    bool is_end = false;      // the end of the computation
    bool is_awaited = false;  // another request waits for it
  };
  enum class Store { kNever, kWhenIdle, kAtOnce };

  static constexpr std::uint64_t kBytesPerToken = 2 << 20;  // snapshot bytes that saving a token justifies
  static constexpr std::uint32_t kMaxMinTokens = 64;        // the length of short system prompts
  static constexpr std::uint32_t kMinStored = 64;           // tokens of a state in a tier below
  static constexpr std::uint64_t kMaxSpaced = 24;           // per prompt, whatever the memory

  std::uint32_t grid = 1;
  bool any_token = false;  // states can be cut at every multiple of the grid
  std::uint32_t spaced_from = 256;
  std::uint32_t min_tokens = 1;
  std::uint32_t max_restored = UINT32_MAX;  // at most this much is restored, unless states can be cut
  std::uint32_t max_spaced = 16;            // per prompt; more are thinned out
  std::uint32_t reply_every = 256;          // tokens between checkpoints inside a prefilled reply; 0: none
  std::uint32_t max_in_reply = 8;

  static CheckpointRules of(const Model& model) {
    CheckpointRules rules{.grid = model.grid, .any_token = model.any_token};
    if (!model.any_token) {
      const std::uint64_t tokens =
          model.slot_bytes / kBytesPerToken + (model.slot_bytes % kBytesPerToken != 0);
      rules.min_tokens = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(tokens, 1, kMaxMinTokens));
    }
    // The spaced checkpoints of one prompt take at most an eighth of the memory.
    if (model.slot_bytes != 0) {
      const std::uint64_t share = model.state_bytes / 8 / model.slot_bytes;
      rules.max_spaced = static_cast<std::uint32_t>(std::min(share, kMaxSpaced));
    }
    return rules;
  }

  bool plans(const Candidate& one) const {
    if (any_token && !one.is_end) return false;
    return one.is_awaited || one.origin == Origin::kBreakpoint || one.at >= min_tokens;
  }
  /// `spaced_after` is the number of spaced checkpoints that follow in the plan.
  static bool takes(const Candidate& one, bool load_is_high, std::uint32_t spaced_after = 0) {
    if (!load_is_high || one.is_awaited) return true;
    if (one.origin == Origin::kSpaced) return spaced_after % 2 == 0;
    return one.origin != Origin::kReply && one.origin != Origin::kCall;
  }
  static Store stores(Origin origin, std::uint32_t at) {
    if (at < kMinStored) return Store::kNever;
    return origin == Origin::kSpaced || origin == Origin::kReply ? Store::kWhenIdle : Store::kAtOnce;
  }
};

}  // namespace reprise::protocol
