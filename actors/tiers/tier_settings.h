#pragma once
// What a host may say of the tiers below the device's memory.
//
// Threading: a plain value; its function is called from any thread.

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "protocol/snapshots/seal.h"

namespace reprise::actors {

struct DiskTierSettings {
  std::string folder{};                      // empty: there is no such tier
  protocol::snapshots::Key master_key{};     // of all that lies there (protocol/snapshots/cache_secret.h)
  std::uint64_t most_bytes = 16ULL << 30;    // of the folder, whoever wrote it
  std::chrono::seconds ttl{0};               // since the last use; 0: for ever
  bool even_if_slower = false;               // restore also what would be computed sooner
  std::uint64_t loading_bytes = 2ULL << 30;  // of states on their way to a device, at once
  std::function<void(const std::string&)> log{};  // may be empty
};

}  // namespace reprise::actors
