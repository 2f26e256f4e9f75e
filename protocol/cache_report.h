#pragma once
// What the prefix cache did for a prompt, in words that users see: where checkpoints come from, and why a
// prompt was not restored further. Both sets are closed; counters and documentation list them all.
//
// Threading: plain values.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace reprise::protocol {

/// Why a checkpoint was taken where it stands.
enum class Origin : std::uint8_t {
  kSystem,    // after the system and tools block
  kLastUser,  // at the start of the last user message
  kHistory,  // just past the last message-opening token of the history, or where blocks of the last message meet
  kPromptEnd,   // one token before the end of the prompt
  kBranch,      // where an earlier prompt took another way
  kTurnEnd,     // behind the last token of the reply
  kSpaced,      // one of the geometrically spaced places of a long prompt
  kTool,        // behind the result of a tool
  kBreakpoint,  // where the client wished for one (cache_control)
  kReply,       // inside a long reply
  kCall,        // before the first tool call of a reply
};
inline constexpr std::size_t kOrigins = 11;

/// Where a state was kept.
enum class Tier : std::uint8_t {
  kDevice,  // in the memory that it is computed in
  kHost,    // in the host's memory, for a device that has its own
  kDisk,    // in a folder
  kRemote,  // in a store that several servers share
};
inline constexpr std::size_t kTiers = 4;

/// Why a prompt was restored no further than it was.
enum class MissReason : std::uint8_t {
  kNone,                 // all that is known of this prompt was restored
  kNeverSeen,            // nothing in the cache begins like this prompt
  kNoCheckpoint,         // the prompt goes on from earlier ones, but no checkpoint was ever taken there
  kEvicted,              // a checkpoint was there and had to give way
  kExpired,              // a checkpoint was there and outlived its time
  kUnhealthy,            // the state there was not finite and was not stored
  kCorrupt,              // the snapshot failed its check on restore and was dropped
  kLost,                 // the snapshot went with its model or device before it could be restored
  kNoMemory,             // there was no memory to restore the snapshot into
  kBelowMinimum,         // fewer tokens than the request's min_cache_tokens would have been restored
  kRefused,              // the request said cache_prompt: false
  kDisabled,             // the server runs without a cache
  kUncacheable,          // this model or request cannot be cached
  kSlowerThanComputing,  // a tier below has it, and would take longer to bring it than the device to compute it
  kOtherArithmetic,      // a tier below has it of another build or device, whose bits are others
  kDiverged,             // the prompt takes another way than earlier ones, and no checkpoint was taken there
};
inline constexpr std::size_t kMissReasons = 16;

/// "system", "last_user", ...
std::string_view name_of(Origin origin);
std::optional<Origin> origin_named(std::string_view name);
/// "device", "host", "disk", "remote".
std::string_view name_of(Tier tier);
/// "none", "never_seen", ...
std::string_view name_of(MissReason reason);

/// One for each answer.
struct CacheReport {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t restored_tokens = 0;
  std::uint32_t prefilled_tokens = 0;  // of the prompt, by this request
  MissReason reason = MissReason::kNone;
  std::uint32_t known_tokens = 0;   // the prompt left the tree at this position
  std::uint32_t lost_tokens = 0;    // of these, on the grid, that were not restored
  std::uint32_t behind_tokens = 0;  // of a kept earlier prompt, behind the place where this one left it
  /// Of the prompt, up to the deepest checkpoint of it that was kept; known at the end.
  std::uint32_t kept_tokens = 0;
  std::uint32_t pinned_tokens = 0;  // of the prompt, that a pin holds; known at the end
  std::optional<Origin> origin{};   // of the checkpoint that was restored
  std::optional<Tier> tier{};       // where it was
  bool waited_for_other = false;  // another request was computing the same prefix, and this one waited for it
};

}  // namespace reprise::protocol
