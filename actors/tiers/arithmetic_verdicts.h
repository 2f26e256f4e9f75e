#pragma once
// ArithmeticVerdicts: whether states that another build or device computed may be used here, where the host has asked
// for that (`cache.other_builds`). Nothing is taken on trust: a state that this engine computed is compared with the
// other's of the same tokens first, byte by byte.
//
//   not compared yet   its states are misses; the place of one is computed, kept and compared
//   the same           its states of up to kTrustedGrowth times the longest that was compared are used: kernels may take
//                      another way for longer prompts
//   another            its states are misses for as long as this process lives, whatever else is compared
//
// Bound: kMost pairs of arithmetics; what comes later is never used. Threading: one owner.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

#include "protocol/snapshots/state_key.h"

namespace reprise::actors {

class ArithmeticVerdicts {
 public:
  using StateKind = protocol::snapshots::StateKind;
  static constexpr std::uint32_t kTrustedGrowth = 4;
  static constexpr std::size_t kMost = 1024;

  enum class Standing : std::uint8_t { kUntried, kTrusted, kRefused };
  /// Of a state of `length` tokens that `other` computed, for one who computes `here`.
  Standing standing(const StateKind& here, std::uint64_t other, std::uint32_t length) const;
  void note(const StateKind& here, std::uint64_t other, std::uint32_t length, bool same);

  /// Whether two states of `length` tokens have the same bytes where all of these mean something: in full pages and in the
  /// slot. The last page, when it is not full, has room for tokens that are not there.
  static bool same_states(const StateKind& kind, std::uint32_t length, std::span<const std::byte> one,
                          std::span<const std::byte> other);
  /// Whether that would compare anything.
  static bool can_compare(const StateKind& kind, std::uint32_t length) {
    return kind.slot_bytes != 0 || (kind.page_bytes != 0 && length >= kind.page_tokens);
  }

 private:
  struct Pair {
    std::uint64_t model, here, other;
    auto operator<=>(const Pair&) const = default;
  };
  struct Verdict {
    bool same = true;
    std::uint32_t compared = 0;  // tokens of the longest
  };
  std::map<Pair, Verdict> verdicts_;
};

}  // namespace reprise::actors
