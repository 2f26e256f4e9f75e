#pragma once
// The prefix cache's report on one prompt, in terms that clients see: the origins of checkpoints, and the
// reason why no more of the prompt was restored. Both enums are complete; metrics and documentation list
// every value.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace reprise::protocol {

/// Why a checkpoint was taken at its position.
enum class Origin : std::uint8_t {
  kSystem,    // after the system and tools block
  kLastUser,  // start of the last user message
  // after the last token of the history that opens a message, or at a block boundary of the last message
  kHistory,
  kPromptEnd,   // one token before the end of the prompt
  kBranch,      // where the prompt diverges from an earlier one
  kTurnEnd,     // after the last token of the reply
  kSpaced,      // one of the geometrically spaced positions of a long prompt
  kTool,        // after a tool result
  kBreakpoint,  // requested by the client (cache_control)
  kReply,       // inside a long reply
  kCall,        // before the first tool call of a reply
};
inline constexpr std::size_t kOrigins = 11;

enum class Tier : std::uint8_t {
  kDevice,  // the memory of the computing device
  kHost,    // host memory, for a device with its own memory
  kDisk,    // a local folder
  kRemote,  // a store shared by several servers
};
inline constexpr std::size_t kTiers = 4;

/// Why no more of a prompt was restored.
enum class MissReason : std::uint8_t {
  kNone,                 // everything known of this prompt was restored
  kNeverSeen,            // no prompt in the cache begins like this one
  kNoCheckpoint,         // the prompt continues earlier ones, but no checkpoint was ever taken there
  kEvicted,              // the checkpoint was evicted
  kExpired,              // the checkpoint exceeded its time to live
  kUnhealthy,            // the state there was not finite, so it was not stored
  kCorrupt,              // the snapshot failed its checksum on restore and was dropped
  kLost,                 // the snapshot was lost with its model or device before the restore
  kNoMemory,             // not enough memory to restore the snapshot
  kBelowMinimum,         // fewer tokens could be restored than the request's min_cache_tokens
  kRefused,              // the request said cache_prompt: false
  kDisabled,             // the server runs without a cache
  kUncacheable,          // this model or request cannot be cached
  kSlowerThanComputing,  // a lower tier has it, but loading would take longer than computing
  kOtherArithmetic,      // a lower tier has it from another build or device, with different bits
  kDiverged,             // the prompt diverges from earlier ones, and no checkpoint was taken there
};
inline constexpr std::size_t kMissReasons = 16;

std::string_view name_of(Origin origin);
std::optional<Origin> origin_named(std::string_view name);
std::string_view name_of(Tier tier);
std::string_view name_of(MissReason reason);

/// The report of one request.
struct CacheReport {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t restored_tokens = 0;
  std::uint32_t prefilled_tokens = 0;  // prompt tokens computed by this request
  MissReason reason = MissReason::kNone;
  std::uint32_t known_tokens = 0;  // leading tokens that an earlier prompt had
  std::uint32_t lost_tokens = 0;   // known tokens on the grid that were not restored
  // tokens of a kept earlier prompt after the position where this prompt diverges
  std::uint32_t behind_tokens = 0;
  /// Position of the prompt's deepest checkpoint that was kept; known at the end of the request.
  std::uint32_t kept_tokens = 0;
  std::uint32_t pinned_tokens = 0;  // prompt tokens that a pin holds; known at the end of the request
  std::optional<Origin> origin{};   // none: nothing was restored
  std::optional<Tier> tier{};       // where the restored checkpoint was stored
  bool waited_for_other = false;    // waited for another request that was computing the same prefix
};

}  // namespace reprise::protocol
