#pragma once
// What an engine consists of. For its own sources: hosts see actors/engine.h.
//
// Threading: as actors/engine.h; each part says its own.

#include <atomic>
#include <memory>

#include "actors/engine.h"
#include "actors/model_supervisor.h"
#include "actors/request/text_pool.h"
#include "actors/tiers/host_tier.h"
#include "actors/tiers/store_tier.h"
#include "actors/tiers/tier_stack.h"
#include "base/bounded_count.h"
#include "protocol/named_snapshots.h"
#include "runtime/system.h"

namespace reprise::actors {

struct Engine::Parts {
  Parts(runtime::System& host, EngineOptions wishes);
  void spawn_tiers();
  /// Names come from that tier's store, and go to it.
  void keep_names(const TierSettings& settings, const runtime::RefOf<StoreTier>& tier) const;

  runtime::System& system;
  const EngineOptions options;
  const std::shared_ptr<ModelDirectory> directory = std::make_shared<ModelDirectory>();
  const std::shared_ptr<DeviceBoard> board = std::make_shared<DeviceBoard>();
  const std::shared_ptr<RequestRoll> requests = std::make_shared<RequestRoll>();
  std::atomic<std::uint64_t> requests_begun{0};  // hands out numbers
  const std::shared_ptr<BoundedCount> running;
  const std::shared_ptr<BoundedCount> idle;
  const std::shared_ptr<Restarts> restarts;
  const std::shared_ptr<const TextPool> texts;
  const std::shared_ptr<const TextPool> mask_makers;
  /// Below the devices, from the nearest to the farthest.
  struct LowerTier {
    protocol::Tier tier{};
    std::shared_ptr<TierFigures> figures{};
    protocol::OneTierRef actor{};
  };
  std::vector<LowerTier> tiers{};
  const std::shared_ptr<protocol::NamedSnapshots> names = std::make_shared<protocol::NamedSnapshots>();
  runtime::RefOf<TierStack> all_tiers;  // nobody, where there are none
  runtime::RefOf<ModelSupervisor> supervisor;
};

}  // namespace reprise::actors
