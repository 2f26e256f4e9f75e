#pragma once
// What a host may say of the tiers below the device's memory.
//
// Threading: a plain value; its function is called from any thread.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "gpu/transfer_buffers.h"
#include "protocol/snapshots/record_store.h"
#include "protocol/snapshots/redis_store.h"

namespace reprise::actors {

struct DiskTierSettings {
  std::string folder{};                             // empty: there is no such tier
  protocol::snapshots::Key master_key{};            // of all that lies there (protocol/snapshots/seal.h)
  std::uint64_t most_bytes = 16ULL << 30;           // of the folder, whoever wrote it
  std::chrono::seconds ttl{0};                      // since the last use; 0: for ever
  bool even_if_slower = false;                      // restore also what would be computed sooner
  bool pack = false;                                // write it smaller, for more work at both ends
  std::uint64_t loading_bytes = 2ULL << 30;         // of states on their way to a device, at once
  std::function<void(const std::string&)> log{};    // may be empty
  std::shared_ptr<gpu::TransferBuffers> buffers{};  // for those; null: the heap
};

struct HostTierSettings {
  std::uint64_t most_bytes = 0;                     // 0: there is no such tier
  bool even_if_slower = false;                      // restore also what would be computed sooner
  std::uint64_t loading_bytes = 2ULL << 30;         // of states on their way to a device, at once
  std::function<void(const std::string&)> log{};    // may be empty
  std::shared_ptr<gpu::TransferBuffers> buffers{};  // for those; null: the heap
};

/// A store that servers share.
struct RemoteTierSettings {
  std::optional<protocol::snapshots::RedisSettings> redis{};  // nothing: there is no such tier
  protocol::snapshots::Key master_key{};                      // the same for all who share it
  bool even_if_slower = false;
  bool pack = false;                                // write it smaller, for more work at both ends
  std::uint64_t loading_bytes = 512ULL << 20;       // of states on their way to a device, at once
  std::chrono::milliseconds retry{2'000};           // before a store that was gone is tried again
  std::function<void(const std::string&)> log{};    // may be empty
  std::shared_ptr<gpu::TransferBuffers> buffers{};  // as the others'
};

}  // namespace reprise::actors
