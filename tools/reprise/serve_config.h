#pragma once
// The configuration of `reprise serve`, from four places: defaults, then a TOML file, then the environment,
// then flags; what comes later counts.
//
// Every setting is one row of a table (serve_settings.cc), so that all of them can be set everywhere and
// --print-config shows what holds. It has one name: http.port in the file is REPRISE_HTTP_PORT, and its flag has the
// last part of that name, with the section before it where that alone would not say enough: --port, --cache-dir.
//
// Threading: plain values.

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "actors/engine_options.h"
#include "base/kv_budget.h"
#include "protocol/http/http_options.h"
#include "tools/reprise/engine_flags.h"

namespace reprise::tools {

/// A [[models.adapters]] table.
struct AdapterTable {
  std::string name;  // as clients call it, behind the model's name and a colon
  std::string path;  // a PEFT folder or a GGUF file
};

/// A [[models]] table.
struct ModelTable {
  std::string name;                    // as clients call it
  std::string path;                    // a Hugging Face folder or a GGUF file; empty: the built-in model
  std::string device{};                // where it is computed; empty: engine.device
  std::string chat_template{};         // as chat.template; empty: that
  std::vector<std::string> aliases{};  // further names of it
  std::vector<std::string> tags{};
  std::optional<std::uint32_t> kv_budget{};  // as engine.kv_budget; none: that
  std::vector<AdapterTable> adapters{};
};

/// A [[keys]] table: a key, or what holds for the tenant of keys that come from elsewhere, or both.
struct KeyTable {
  std::string key{};          // the secret; never shown
  protocol::Tenant tenant{};  // its name may be empty where there is a key
  bool describes = false;     // says more than whose key it is
  std::string place{};        // file and line, for messages
};

/// What the engine is not told in these words.
struct CacheConfig {
  std::uint64_t max_entries = 0;
  std::uint32_t verify_percent = 0;
  std::string folder{};                   // of snapshots that outlast the process; empty: none
  std::uint64_t disk_mb = 16384;          // of that folder
  std::chrono::milliseconds disk_ttl{0};  // 0: for ever
  bool even_if_slower = false;
  std::string remote{};                                            // store that servers share; empty: none
  std::chrono::milliseconds remote_ttl = std::chrono::hours(168);  // 0: for ever
  std::string remote_password_file{};
  std::string secret_file{};  // where it is kept; empty: the usual place
};

struct TraceConfig {
  std::string file{};  // empty: no traces
  bool later = false;  // begins when somebody says so, not with the server
};

/// Most settings are fields of what the server and the engine take; the others are made into such when it starts.
struct ServeConfig {
  ServeConfig();

  protocol::HttpOptions http{};
  actors::EngineOptions options{};
  std::string key_file{};
  bool share_tenant = false;
  std::vector<KeyTable> keys{};
  std::vector<ModelTable> models{};  // empty: the built-in model alone
  EngineFlags engine{};              // its `model` is not used here
  KvBudget kv{};                     // of requests that do not say
  std::uint64_t context = 0;         // tokens for all of `parallel` together; 0: what a model has, for each
  std::uint32_t parallel = 0;        // sequences computed at once; 0: as many as there is memory for
  std::vector<std::string> aliases{"gpt-*", "claude*", "codex*"};  // further names of the first model
  std::string chat_template{};           // a name, a file, or itself; empty: what comes with a model
  std::string reasoning = "template";    // of chats that do not say: on, off, or as the template has it
  std::string system_in_place = "auto";  // of system messages that are not first: auto, user or template
  bool slots = true;                     // GET /slots tells
  bool verbose = false;                  // llama-server's replies show the prompt
  std::string api_keys{};                // between commas; never shown
  CacheConfig cache{};
  std::string log_level = "info";
  std::string log_format = "text";  // or json
  TraceConfig trace{};
  std::chrono::milliseconds shutdown{8'000};  // how long answers may go on after a signal
  std::vector<std::string> warnings{};        // what the log says of the settings when it is open
};

/// "http.port" is REPRISE_HTTP_PORT.
std::string variable_of(std::string_view key);

/// One setting. `set` takes the text of a flag or variable and throws std::invalid_argument with what is
/// wrong.
struct Setting {
  enum class Kind : std::uint8_t { kText, kNumber, kSwitch, kList };
  std::string key;              // "http.port"
  std::string flag;             // "--port"; a switch's flag takes no value
  std::string further_flags{};  // ",--ctx-size,-c": the names that llama-server's users know it by
  std::string flag_value{};     // of a switch: what its flag means
  std::string value{};          // what the help calls the value: "PORT"
  std::string help;             // what it means; understood alone
  std::string range{};          // "integer, 0 to 65535"; empty: the help says it
  std::string group{};          // of the help
  bool common = false;          // the short help explains it
  Kind kind;
  std::function<void(const std::string& text)> set;
  std::function<std::string()> show;  // as TOML

  /// Help and range.
  std::string description() const;
  std::string variable() const { return variable_of(key); }
};

/// All settings of `config`, which must outlive them.
std::vector<Setting> serve_settings(ServeConfig& config);

/// A setting of an earlier version. Its key, flags and variable have no effect but a warning.
struct RemovedSetting {
  std::string_view key;
  std::string_view flags;      // names between commas; empty: it had none
  bool has_value = true;       // false: its flags take none
  std::string_view successor;  // what holds in its place, or what to use

  /// `name`: its key, flag or variable, as it was given.
  std::string warning(const std::string& name) const;
};
std::span<const RemovedSetting> removed_settings();

/// Text as TOML has it.
std::string toml_string(std::string_view text);
std::string toml_strings(const std::vector<std::string>& items);

/// Adds a warning for each key that was removed. Throws UsageError, which names file and line.
void load_config_file(ServeConfig& config, const std::string& path);
/// Sets what variables of `environment` ("NAME=value") say, and adds a warning for each other REPRISE_* variable that
/// was removed or is not known. Those that Kubernetes makes of services (REPRISE_PORT=tcp://..., REPRISE_SERVICE_HOST)
/// are left alone, also where a setting has such a name. Throws UsageError, which names the variable.
void load_config_environment(ServeConfig& config, const std::vector<std::string>& environment);
/// ": did you mean 'x'?" where a setting's key is near to the given one; else empty.
std::string nearest_key(const std::vector<Setting>& settings, const std::string& key);
/// A setting from a flag. Throws UsageError.
void set_from_flag(const Setting& setting, const std::string& text);

/// A model for --model PATH, called after its file or folder.
ModelTable model_at(const std::string& path);

/// Names between commas: the first by the alphabet is the model's, all others are aliases of it.
void take_names(ModelTable& model, const std::string& names);

/// What holds, as a file that load_config_file() takes. Keys are not shown.
std::string print_config(ServeConfig& config);
/// The part of it that speaks of tenants.
std::string print_key_tables(const std::vector<KeyTable>& tables);

/// Reads the key file, `environment` (REPRISE_API_KEYS, may be null) and the tables into config.http.keys.
/// Throws UsageError.
void load_keys(ServeConfig& config, const char* environment);

}  // namespace reprise::tools
