#pragma once
// An engine with one lower tier: host memory, a folder, or a shared store.

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "tests/actors/engine_harness.h"
#include "tests/actors/poisoned_memory.h"
#include "tests/protocol/snapshots/redis_server.h"
#include "tests/temp_dir.h"

namespace reprise::actors {

class TierFixture : public testing::Test {
 protected:
  static constexpr const char* kSecret = "a secret for the tests";

  static EngineOptions host_options(const OnDevice& on, std::uint64_t max_bytes = 64ULL << 20) {
    EngineOptions options = EngineHarness::defaults(on.device, on.model);
    options.registry.cache.max_entries = 1;
    options.host.max_bytes = max_bytes;
    options.host.even_if_slower = true;
    return options;
  }
  EngineOptions disk_options(const OnDevice& on = {"cpu", "qwen3_5_text"},
                             const std::string& secret = kSecret) {
    EngineOptions options = EngineHarness::defaults(on.device, on.model);
    options.disk.folder = dir_.path() / "cache";
    options.disk.master_key = protocol::snapshots::master_key(secret);
    options.disk.even_if_slower = true;
    options.log = [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      log_ += line + "\n";
    };
    return options;
  }
  static EngineOptions remote_options(std::uint16_t port, const OnDevice& on = {"cpu", "qwen3_5_text"},
                                      const std::string& secret = kSecret) {
    EngineOptions options = EngineHarness::defaults(on.device, on.model);
    options.remote.redis = protocol::snapshots::RedisSettings{.address = {.host = "127.0.0.1", .port = port},
                                                              .ttl = 1000s,
                                                              .limits = {.connect = 2s, .answer = 10s}};
    options.remote.master_key = protocol::snapshots::master_key(secret);
    options.remote.even_if_slower = true;
    options.remote.retry = 20ms;
    return options;
  }

  bool logged(const std::string& text) {
    const std::lock_guard lock(mutex_);
    return log_.find(text) != std::string::npos;
  }
  /// Answers a prompt, and waits until its snapshots are stored.
  static Reply compute(EngineHarness& engine, const TokenList& prompt) {
    Reply reply = engine.ask(prompt);
    engine.settle();
    EXPECT_GE(engine.figure("tier_stored_total"), 1);
    return reply;
  }
  /// Returns the snapshot files of that kind: 'm': manifests; 'c': chunks.
  std::vector<std::filesystem::path> files(char kind) const {
    std::vector<std::filesystem::path> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_.path())) {
      const std::string name = entry.path().filename();
      if (entry.is_regular_file() && name.front() == kind && name.size() == 33) found.push_back(entry.path());
    }
    return found;
  }

  const TokenList prompt_ = random_tokens(300, 1);
  const test::TempDir dir_;

 private:
  std::mutex mutex_;
  std::string log_;  // guarded by mutex_
};

}  // namespace reprise::actors
