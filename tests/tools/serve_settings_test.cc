// The table of settings of `reprise serve`, and what reads it.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "tests/source_folder.h"
#include "tests/temp_dir.h"
#include "tools/reprise/llama_flags.h"
#include "tools/reprise/serve_config.h"

namespace reprise::tools {
namespace {

std::string with_dashes(std::string text) {
  for (char& c : text) {
    if (c == '_' || c == '.') c = '-';
  }
  return text;
}

std::string usage_error(const auto& action) {
  try {
    action();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

TEST(ServeSettings, EachHasOneName) {
  ServeConfig config;
  std::set<std::string> keys, flags;
  for (const Setting& setting : serve_settings(config)) {
    EXPECT_TRUE(keys.insert(setting.key).second) << setting.key;
    std::istringstream names(setting.flag + setting.further_flags);
    for (std::string name; std::getline(names, name, ',');) EXPECT_TRUE(flags.insert(name).second) << name;
    const std::string section = setting.key.substr(0, setting.key.find('.'));
    const std::string last = setting.key.substr(section.size() + 1);
    const std::string begin = setting.flag_value == "false" ? "--no-" : "--";
    const std::set<std::string> allowed{begin + with_dashes(last), begin + with_dashes(setting.key),
                                        begin + (last == "enabled" ? section : with_dashes(last))};
    EXPECT_TRUE(allowed.contains(setting.flag)) << setting.key << " has the flag " << setting.flag;
  }
}

TEST(ServeSettings, HelpSaysWhatAValueIs) {
  ServeConfig config;
  std::size_t common = 0;
  for (const Setting& setting : serve_settings(config)) {
    EXPECT_GE(setting.help.size(), 10U) << setting.key;
    EXPECT_FALSE(setting.help.ends_with('.')) << setting.key;
    EXPECT_EQ(setting.help.find('\n'), std::string::npos) << setting.key;
    EXPECT_EQ(setting.value.empty(), setting.kind == Setting::Kind::kSwitch) << setting.key;
    EXPECT_FALSE(setting.group.empty()) << setting.key;
    for (const char* depends : {"Of these", "The same", "Likewise", "there "}) {
      EXPECT_FALSE(setting.help.starts_with(depends)) << setting.key << ": " << setting.help;
    }
    if (setting.kind == Setting::Kind::kNumber) {
      EXPECT_FALSE(setting.range.empty()) << setting.key;
    }
    common += setting.common ? 1 : 0;
  }
  EXPECT_GE(common, 10U);
  EXPECT_LE(common, 24U);
}

TEST(ServeSettings, PrintedOnesAreExplainedAndReadAgain) {
  ServeConfig config;
  config.http.port = 81;
  const std::string printed = print_config(config);
  EXPECT_NE(printed.find(
                "# Port to listen on; 0: any that is free (integer, 0 to 65535); default 8080\nport = 81\n"),
            std::string::npos)
      << printed;
  const test::TempDir folder;
  const std::string path = (folder.path() / "all.toml").string();
  std::ofstream(path) << printed;
  ServeConfig again;
  load_config_file(again, path);
  EXPECT_EQ(print_config(again), printed);
}

TEST(ServeSettings, AFileThatIsNotThereHasNoLine) {
  ServeConfig config;
  const std::string error = usage_error([&] { load_config_file(config, "/nowhere/at/all.toml"); });
  EXPECT_EQ(error.find("line"), std::string::npos) << error;
  EXPECT_NE(error.find("/nowhere/at/all.toml: cannot be read: No such file"), std::string::npos) << error;
  EXPECT_NE(usage_error([&] { load_config_file(config, "/"); }).find("is a folder"), std::string::npos);
}

TEST(ServeSettings, UnknownKeysNameTheNearest) {
  const test::TempDir folder;
  const std::string path = (folder.path() / "one.toml").string();
  std::ofstream(path) << "[http]\nmax_conections = 3\n";
  ServeConfig config;
  EXPECT_NE(usage_error([&] { load_config_file(config, path); }).find("did you mean 'http.max_connections'?"),
            std::string::npos);
}

TEST(ServeSettings, UnknownVariablesAreWarnings) {
  ServeConfig config;
  load_config_environment(config, {"REPRISE_HTTP_PROT=1", "REPRISE_HTTP_HOST=0.0.0.0", "REPRISE_API_KEYS=x",
                                   "REPRISE_MODEL=y", "PATH=/bin", "REPRISE_XYZ=1"});
  EXPECT_EQ(config.http.host, "0.0.0.0");
  ASSERT_EQ(config.warnings.size(), 2U);
  EXPECT_EQ(config.warnings[0],
            "REPRISE_HTTP_PROT: there is no setting for this variable; did you mean REPRISE_HTTP_PORT?");
  EXPECT_EQ(config.warnings[1], "REPRISE_XYZ: there is no setting for this variable");
  EXPECT_NE(usage_error([&] {
              load_config_environment(config, {"REPRISE_HTTP_PORT=x"});
            }).find("REPRISE_HTTP_PORT: "),
            std::string::npos);
}

TEST(ServeSettings, RemovedOnesAreWarnings) {
  std::set<std::string> names;
  ServeConfig config;
  for (const Setting& setting : serve_settings(config)) {
    names.insert(setting.key);
    std::istringstream flags(setting.flag + setting.further_flags);
    for (std::string flag; std::getline(flags, flag, ',');) names.insert(flag);
  }
  for (const RemovedSetting& removed : removed_settings()) {
    EXPECT_TRUE(names.insert(std::string(removed.key)).second) << removed.key;
    EXPECT_FALSE(removed.successor.empty()) << removed.key;
    std::istringstream flags{std::string(removed.flags)};
    for (std::string flag; std::getline(flags, flag, ',');) EXPECT_TRUE(names.insert(flag).second) << flag;
  }
  const test::TempDir folder;
  const std::string path = (folder.path() / "old.toml").string();
  std::ofstream(path) << "[engine]\nkv_reuse = true\n[[models]]\npath = 'm'\nkv_reuse = 'x'\n";
  load_config_file(config, path);
  load_config_environment(config, {"REPRISE_ENGINE_KV_REUSE=1"});
  const std::string why = " was removed: only exact prefixes are reused";
  EXPECT_EQ(config.warnings, (std::vector<std::string>{path + " line 2: engine.kv_reuse" + why,
                                                       path + " line 5: models.kv_reuse" + why,
                                                       "REPRISE_ENGINE_KV_REUSE" + why}));
}

// All settings with their defaults, as --print-config wrote them before some were removed.
TEST(ServeSettings, AFileOfAnOlderVersionIsRead) {
  ServeConfig config, defaults;
  load_config_file(config, (source_folder() / "tests/data/config/2026-11-19.toml").string());
  EXPECT_EQ(print_config(config), print_config(defaults));
  EXPECT_GE(config.warnings.size(), 30U);
  for (const std::string& warning : config.warnings) {
    EXPECT_NE(warning.find(" was removed: "), std::string::npos) << warning;
  }
}

TEST(ServeSettings, VariablesOfKubernetesAreLeftAlone) {
  ServeConfig config;
  load_config_environment(
      config, {"REPRISE_PORT=tcp://10.0.0.1:80", "REPRISE_SERVICE_HOST=10.0.0.1", "REPRISE_SERVICE_PORT=80",
               "REPRISE_SERVICE_PORT_HTTP=80", "REPRISE_PORT_80_TCP=tcp://10.0.0.1:80",
               "REPRISE_PORT_80_TCP_ADDR=10.0.0.1", "REPRISE_PORT_80_TCP_PROTO=tcp",
               "REPRISE_HTTP_PORT=tcp://10.0.0.2:8080", "REPRISE_HTTP_SERVICE_HOST=10.0.0.2"});
  EXPECT_TRUE(config.warnings.empty()) << config.warnings.front();
  EXPECT_EQ(config.http.port, ServeConfig{}.http.port);
}

TEST(LlamaFlags, AreTakenOrAnswered) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(with_own_flags({"serve", "-np", "4", "-c", "100", "-ncmoe=3"}),
            (Words{"serve", "--parallel", "4", "-c", "100", "--cpu-experts=3"}));
  EXPECT_NE(usage_error([] { with_own_flags({"serve", "-ngl", "99"}); }).find("-ngl: "), std::string::npos);
  for (const char* flag : {"-ngl", "--n-gpu-layers", "--n-gpu-layers=9"}) {
    EXPECT_NE(usage_error([&] {
                with_own_flags({"serve", flag});
              }).find("write --device cuda:0"),
              std::string::npos)
        << flag;
  }
}

}  // namespace
}  // namespace reprise::tools
