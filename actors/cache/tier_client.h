#pragma once
// TierClient is a registry's access to the tiers below the device (protocol/tier.h): it fetches states,
// bounds the wait for them, and offers adopted snapshots.
//
// A state is fetched if it may save as many tokens as a tier stores at least (CheckpointRules::kMinStored). The
// wait is bounded by what computing the tokens would cost, since a read that takes longer is of no use; a tier
// that does not answer is left alone by TierStack.
//
// Threading: the registry's. Its tasks must not outlive it.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "actors/cache/checkpoint_plan.h"
#include "protocol/registry.h"
#include "protocol/tier.h"
#include "runtime/task.h"

namespace reprise::actors {

class TierClient {
 public:
  /// The shortest wait for a state, whatever computing costs.
  static constexpr std::chrono::seconds kMinPatience{20};

  /// The properties of the loaded model that the tiers need.
  struct Model {
    protocol::StateKind kind{};
    std::function<double()> seconds_per_token{};  // prefill time; 0: unknown. May be empty
    std::function<bool()> device_is_idle{};       // may be empty
    runtime::Ref<protocol::ReadKv> worker{};
  };

  /// `tier` may be null, `warn` empty.
  TierClient(protocol::TierRef tier, std::uint32_t grid, std::function<void(const std::string&)> warn)
      : tier_(std::move(tier)), grid_(grid), warn_(std::move(warn)) {}

  void bind(Model model) { model_ = std::move(model); }

  /// Returns what to fetch for a prompt of which the device can restore `restorable` tokens, and may restore
  /// `max_tokens`; nullopt: nothing.
  std::optional<protocol::FetchState> request_for(const std::string& name_space, const SharedTokens& prompt,
                                                  std::uint32_t max_tokens, std::uint32_t restorable) const;
  static runtime::Duration patience(const protocol::FetchState& request);
  /// Returns nullopt if there was no answer in time.
  runtime::Task<std::optional<protocol::Fetched>> fetch(protocol::FetchState request);

  /// Offers an adopted snapshot, if it is worth storing.
  void offer(const protocol::CheckpointTaken& taken, protocol::Origin origin);
  /// Makes all tiers forget a wrong state.
  void forget(const protocol::DropEntry& wrong);

 private:
  bool is_there() const { return static_cast<bool>(tier_) && model_.kind.page_tokens != 0; }

  const protocol::TierRef tier_;
  const std::uint32_t grid_;
  const std::function<void(const std::string&)> warn_;
  Model model_{};
};

}  // namespace reprise::actors
