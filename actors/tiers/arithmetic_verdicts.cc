#include "actors/tiers/arithmetic_verdicts.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace reprise::actors {

ArithmeticVerdicts::Standing ArithmeticVerdicts::standing(const StateKind& here, std::uint64_t other,
                                                          std::uint32_t length) const {
  const auto found = verdicts_.find({here.model, here.arithmetic, other});
  if (found == verdicts_.end()) return verdicts_.size() < kMost ? Standing::kUntried : Standing::kRefused;
  if (!found->second.same) return Standing::kRefused;
  const bool trusted = length <= std::uint64_t{kTrustedGrowth} * found->second.compared;
  return trusted ? Standing::kTrusted : Standing::kUntried;
}

void ArithmeticVerdicts::note(const StateKind& here, std::uint64_t other, std::uint32_t length, bool same) {
  const Pair pair{here.model, here.arithmetic, other};
  if (!verdicts_.contains(pair) && verdicts_.size() >= kMost) return;
  Verdict& verdict = verdicts_[pair];
  verdict.same = verdict.same && same;
  verdict.compared = std::max(verdict.compared, length);
}

bool ArithmeticVerdicts::same_states(const StateKind& kind, std::uint32_t length,
                                     std::span<const std::byte> one, std::span<const std::byte> other) {
  REPRISE_CHECK(one.size() == other.size() && one.size() >= kind.slot_bytes,
                "two states of different kind or length were compared");
  const std::size_t full = kind.page_bytes == 0 ? 0 : length / kind.page_tokens * kind.page_bytes;
  const std::size_t slot = one.size() - kind.slot_bytes;
  return std::memcmp(one.data(), other.data(), full) == 0 &&
         std::memcmp(one.data() + slot, other.data() + slot, kind.slot_bytes) == 0;
}

}  // namespace reprise::actors
