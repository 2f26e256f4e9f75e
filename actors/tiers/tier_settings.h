#pragma once
// Settings of the tiers below the device's memory. `log` may be called from any thread.
//
// LoadingBytes bounds the bytes that a tier restores at once.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/bounded_count.h"
#include "protocol/snapshots/record_store.h"
#include "protocol/snapshots/redis_store.h"

namespace reprise::gpu {
class TransferBuffers;
}

namespace reprise::actors {

struct DiskTierSettings {
  std::string folder{};                           // empty: no disk tier
  protocol::snapshots::Key master_key{};          // of all records in the folder (protocol/snapshots/seal.h)
  std::uint64_t max_bytes = 16ULL << 30;          // bound of the folder, whoever wrote it
  std::chrono::seconds ttl{0};                    // since the last use; 0: forever
  bool even_if_slower = false;                    // restore even if computing would be faster
  bool pack = false;                              // compress, at a cost in CPU time
  std::uint64_t loading_bytes = 2ULL << 30;       // bytes being restored at once
  std::function<void(const std::string&)> log{};  // may be empty
  std::shared_ptr<gpu::TransferBuffers> buffers{};  // null: the heap
};

struct HostTierSettings {
  std::uint64_t max_bytes = 0;                      // 0: no host tier
  bool even_if_slower = false;                      // restore even if computing would be faster
  std::uint64_t loading_bytes = 2ULL << 30;         // bytes being restored at once
  std::function<void(const std::string&)> log{};    // may be empty
  std::shared_ptr<gpu::TransferBuffers> buffers{};  // null: the heap
};

/// A store that servers share.
struct RemoteTierSettings {
  std::optional<protocol::snapshots::RedisSettings> redis{};  // nullopt: no remote tier
  protocol::snapshots::Key master_key{};                      // the same on all servers that share it
  bool even_if_slower = false;
  bool pack = false;                                // compress, at a cost in CPU time
  std::uint64_t loading_bytes = 512ULL << 20;       // bytes being restored at once
  std::chrono::milliseconds retry{2'000};           // pause before an unreachable store is tried again
  std::function<void(const std::string&)> log{};    // may be empty
  std::shared_ptr<gpu::TransferBuffers> buffers{};  // null: the heap
};

class LoadingBytes {
 public:
  explicit LoadingBytes(std::uint64_t bytes)
      : most_(static_cast<std::uint32_t>(std::clamp<std::uint64_t>(bytes >> 20, 1, UINT32_MAX / 2))),
        count_(std::make_shared<BoundedCount>(most_)) {}

  /// Reserves memory for a state until the result is destroyed; null: too much is being restored. A state
  /// above the bound is restored if no other is.
  std::shared_ptr<void> take(std::uint64_t bytes) const {
    return count_->take(static_cast<std::uint32_t>(std::min<std::uint64_t>((bytes >> 20) + 1, most_)));
  }
  /// Returns how deep a shorter state to try may be after take() refused one of `at` tokens; 0: none. A few
  /// dozen steps lead to 0.
  static std::uint32_t shorter(std::uint32_t at) { return at - std::min(at, 1 + at / 16); }

 private:
  const std::uint32_t most_;  // MiB
  const std::shared_ptr<BoundedCount> count_;
};

}  // namespace reprise::actors
