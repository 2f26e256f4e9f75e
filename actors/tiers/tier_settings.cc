#include "actors/tiers/tier_settings.h"

#include "protocol/snapshots/folder_store.h"

namespace reprise::actors {

using namespace protocol::snapshots;

TierSettings tier_settings(const DiskTierSettings& disk) {
  return {.tier = protocol::Tier::kDisk,
          .open_store = [folder = disk.folder] { return std::make_unique<FolderStore>(folder); },
          .breaker = std::make_shared<StoreBreaker>(),
          .master_key = disk.master_key,
          .most_bytes = disk.most_bytes,
          .ttl = disk.ttl,
          .even_if_slower = disk.even_if_slower,
          .pack = disk.pack,
          .loading_bytes = disk.loading_bytes,
          .log = disk.log,
          .buffers = disk.buffers};
}

TierSettings tier_settings(const RemoteTierSettings& remote) {
  const auto breaker = std::make_shared<StoreBreaker>();
  return {
      .tier = protocol::Tier::kRemote,
      .open_store = [redis = *remote.redis, breaker] { return std::make_unique<RedisStore>(redis, breaker); },
      .breaker = breaker,
      .master_key = remote.master_key,
      .most_bytes = 0,
      .ttl = remote.redis->ttl,
      .even_if_slower = remote.even_if_slower,
      .pack = remote.pack,
      .loading_bytes = remote.loading_bytes,
      .retry = remote.retry,
      .log = remote.log,
      .buffers = remote.buffers};
}

}  // namespace reprise::actors
