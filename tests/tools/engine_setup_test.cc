// From settings, as flags give them, to the engine's options. tests/cache_options_test.py shows that the options work.
#include "tools/reprise/engine_setup.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/temp_dir.h"

namespace reprise::tools {
namespace {

using namespace std::chrono_literals;

actors::EngineOptions options_of(const std::map<std::string, std::string>& settings) {
  ServeConfig config;
  config.models = {model_at("/models/one")};
  std::size_t known = 0;
  for (const Setting& setting : serve_settings(config)) {
    const auto given = settings.find(setting.key);
    if (given == settings.end()) continue;
    set_from_flag(setting, given->second);
    ++known;
  }
  EXPECT_EQ(known, settings.size());
  return engine_options(config);
}

std::string refusal(const std::map<std::string, std::string>& settings) {
  try {
    options_of(settings);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "none";
}

TEST(EngineSetup, CacheInMemory) {
  const actors::EngineOptions plain = options_of({});
  EXPECT_TRUE(plain.cache);
  EXPECT_EQ(plain.registry.budget_bytes, 0U);
  EXPECT_EQ(plain.registry.cache.ttl, 0ms);
  EXPECT_EQ(plain.registry.cache.max_entries, 10'000U);
  EXPECT_EQ(plain.host.max_bytes, 0U);

  const actors::EngineOptions options = options_of({{"cache.enabled", "false"},
                                                    {"cache.budget_mb", "3"},
                                                    {"cache.max_entries", "7"},
                                                    {"cache.recurrent_max_entries", "5"},
                                                    {"cache.ttl", "1.5"},
                                                    {"cache.recurrent_ttl", "2"},
                                                    {"cache.host_mb", "4"},
                                                    {"cache.even_if_slower", "true"},
                                                    {"cache.idle_prefill", "false"}});
  EXPECT_FALSE(options.cache);
  EXPECT_EQ(options.registry.budget_bytes, 3U << 20);
  EXPECT_EQ(options.registry.cache.max_entries, 7U);
  EXPECT_EQ(options.registry.recurrent_max_entries, 5U);
  EXPECT_EQ(options.registry.cache.ttl, 1500ms);
  EXPECT_EQ(options.registry.recurrent_ttl, 2000ms);
  EXPECT_EQ(options.host.max_bytes, 4U << 20);
  EXPECT_TRUE(options.host.even_if_slower);
  EXPECT_FALSE(options.requests.prefill_history);
}

TEST(EngineSetup, ShareOfVerifiedHits) {
  const auto share = [](const char* percent, const char* is_inline) {
    return options_of({{"cache.verify_percent", percent}, {"cache.verify_inline", is_inline}})
        .requests.verify_share;
  };
  EXPECT_EQ(share("0", "false"), 0.0);
  EXPECT_EQ(share("25", "false"), 0.25);
  EXPECT_EQ(share("25", "true"), 0.25);
  EXPECT_EQ(share("0", "true"), 1.0);
}

TEST(EngineSetup, WithoutFolderOrStoreThereIsNoSecret) {
  const actors::EngineOptions options = options_of({{"cache.secret_file", "/dev/null/none"}});
  EXPECT_EQ(options.disk.folder, "");
  EXPECT_FALSE(options.remote.redis.has_value());
}

TEST(EngineSetup, FolderAndStoreShareTheSecret) {
  const test::TempDir folder;
  const std::string cache = folder.path() / "cache";
  const std::string password = folder.write("password", "open sesame\n");
  const actors::EngineOptions options = options_of({{"cache.dir", cache},
                                                    {"cache.disk_mb", "5"},
                                                    {"cache.disk_ttl", "60"},
                                                    {"cache.remote", "redis://me@store:7000/2"},
                                                    {"cache.remote_ttl", "30"},
                                                    {"cache.remote_password_file", password},
                                                    {"cache.secret_file", folder.path() / "secret"},
                                                    {"cache.even_if_slower", "true"}});
  EXPECT_EQ(options.disk.folder, cache);
  EXPECT_TRUE(std::filesystem::is_directory(cache));
  EXPECT_EQ(options.disk.max_bytes, 5U << 20);
  EXPECT_EQ(options.disk.ttl, 60s);
  EXPECT_TRUE(options.disk.even_if_slower);
  EXPECT_FALSE(options.disk.pack);
  ASSERT_TRUE(options.remote.redis.has_value());
  EXPECT_EQ(options.remote.redis->address.host, "store");
  EXPECT_EQ(options.remote.redis->address.port, 7000);
  EXPECT_EQ(options.remote.redis->address.database, 2U);
  EXPECT_EQ(options.remote.redis->address.user, "me");
  EXPECT_EQ(options.remote.redis->password, "open sesame");
  EXPECT_EQ(options.remote.redis->ttl, 30s);
  EXPECT_TRUE(options.remote.even_if_slower);
  EXPECT_TRUE(options.remote.pack);
  EXPECT_EQ(options.disk.master_key, options.remote.master_key);
  EXPECT_NE(options.disk.master_key, protocol::snapshots::Key{});
}

TEST(EngineSetup, WrongCacheSettingsAreNamed) {
  const test::TempDir folder;
  const std::string secret = folder.path() / "secret";
  EXPECT_TRUE(refusal({{"cache.remote", "redis://store"}}).starts_with("--cache-remote: ")) << "no secret";
  EXPECT_TRUE(refusal({{"cache.remote", "http://store"}, {"cache.secret_file", secret}})
                  .starts_with("--cache-remote: "));
  EXPECT_TRUE(refusal({{"cache.remote", "redis://store"},
                       {"cache.secret_file", secret},
                       {"cache.remote_password_file", folder.path() / "none"}})
                  .starts_with("cache.remote_password_file: "));
}

TEST(EngineSetup, ModelsAndRequests) {
  const actors::EngineOptions options = options_of({{"engine.kv_budget", "64"},
                                                    {"engine.context", "1000"},
                                                    {"engine.parallel", "4"},
                                                    {"engine.state_mb", "9"},
                                                    {"engine.aliases", "a,b-*"},
                                                    {"chat.reasoning", "off"},
                                                    {"chat.system_in_place", "user"},
                                                    {"http.max_requests", "11"},
                                                    {"queue.length", "12"},
                                                    {"queue.wait", "13"}});
  ASSERT_EQ(options.models.size(), 1U);
  EXPECT_EQ(options.models[0].path, "/models/one");
  EXPECT_EQ(options.models[0].kv.tokens, 64U);
  EXPECT_EQ(options.models[0].context, 250U) << "shared by sequences";
  EXPECT_EQ(options.models[0].aliases, (std::vector<std::string>{"a", "b-*"}));
  EXPECT_EQ(options.worker.max_sequences, 4U);
  EXPECT_EQ(options.worker.state_bytes, 9U << 20);
  EXPECT_EQ(options.worker.max_waiting, 12U);
  EXPECT_EQ(options.requests.thinking, false);
  EXPECT_EQ(options.requests.system_in_place, protocol::SystemMessageMode::kUser);
  EXPECT_EQ(options.requests.max_wait, 13s);
  EXPECT_EQ(options.max_requests, 11U);
  EXPECT_TRUE(refusal({{"engine.kv_budget", "35"}}).starts_with("engine.kv_budget: "));
  EXPECT_TRUE(refusal({{"chat.system_in_place", "front"}}).starts_with("chat.system_in_place: "));
  EXPECT_TRUE(refusal({{"chat.template", "/none"}}).starts_with("chat.template: "));
}

}  // namespace
}  // namespace reprise::tools
