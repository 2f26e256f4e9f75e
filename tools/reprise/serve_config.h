#pragma once
// The configuration of `reprise serve`: defaults, overridden by a TOML file, then the environment, then
// flags.
//
// Each setting is one row of a table (serve_settings.cc), so all of them can be set in each source and shown
// by --print-config. The setting http.port is the variable REPRISE_HTTP_PORT and the flag --port; flags
// include the section if the last part alone is ambiguous: --cache-dir.

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
  std::string name;  // clients use MODEL:NAME
  std::string path;  // PEFT folder or GGUF file
};

/// A [[models]] table.
struct ModelTable {
  std::string name;                    // the name that clients use
  std::string path;                    // Hugging Face folder or GGUF file; empty: the built-in model
  std::string device{};                // empty: engine.device
  std::string chat_template{};         // empty: chat.template
  std::vector<std::string> aliases{};  // further names
  std::vector<std::string> tags{};
  std::optional<std::uint32_t> kv_budget{};  // nullopt: engine.kv_budget
  std::vector<AdapterTable> adapters{};
};

/// A [[keys]] table: an API key, limits for a tenant whose keys are defined elsewhere, or both.
struct KeyTable {
  std::string key{};          // the secret; never shown
  protocol::Tenant tenant{};  // the name may be empty if `key` is set
  bool describes = false;     // has settings beyond key and tenant name
  std::string place{};        // file and line, for messages
};

/// Cache settings that are converted into engine options at startup.
struct CacheConfig {
  std::uint64_t max_entries = 0;
  std::uint32_t verify_percent = 0;
  std::string folder{};                   // persistent snapshots; empty: none
  std::uint64_t disk_mb = 16384;          // max size of that folder, MiB
  std::chrono::milliseconds disk_ttl{0};  // 0: unlimited
  bool even_if_slower = false;
  std::string remote{};  // snapshot store shared by servers; empty: none
  std::chrono::milliseconds remote_ttl = std::chrono::hours(168);  // 0: unlimited
  std::string remote_password_file{};
  std::string secret_file{};  // file of the sealing secret; empty: the default path
};

struct TraceConfig {
  std::string file{};  // empty: no tracing
  bool later = false;  // tracing is started by a signal instead of at startup
};

/// All settings of `reprise serve`. Most are stored directly in the server's and engine's option types.
struct ServeConfig {
  ServeConfig();

  protocol::HttpOptions http{};
  actors::EngineOptions options{};
  std::string key_file{};
  bool share_tenant = false;
  std::vector<KeyTable> keys{};
  std::vector<ModelTable> models{};  // empty: only the built-in model
  EngineFlags engine{};              // its `model` is unused
  KvBudget kv{};                     // default for requests that set none
  std::uint64_t context = 0;   // tokens, shared by `parallel` sequences; 0: the model's maximum for each
  std::uint32_t parallel = 0;  // max sequences computed at once; 0: as many as fit in memory
  std::vector<std::string> aliases{"gpt-*", "claude*", "codex*"};  // further names of the first model
  std::string chat_template{};           // name, file or template text; empty: the model's own
  std::string reasoning = "template";    // default for chats: on, off, or template
  std::string system_in_place = "auto";  // handling of non-leading system messages: auto, user or template
  bool slots = true;                     // enable GET /slots
  bool verbose = false;                  // llama-server replies include the prompt
  std::string api_keys{};                // comma-separated; never shown
  CacheConfig cache{};
  std::string log_level = "info";
  std::string log_format = "text";  // text or json
  TraceConfig trace{};
  std::chrono::milliseconds shutdown{8'000};  // time that replies may continue after a signal
  std::vector<std::string> warnings{};        // logged once the log is open
};

/// Returns e.g. REPRISE_HTTP_PORT for "http.port".
std::string variable_of(std::string_view key);

/// One setting. `set` parses the text of a flag or variable; it throws std::invalid_argument with the reason.
struct Setting {
  enum class Kind : std::uint8_t { kText, kNumber, kSwitch, kList };
  std::string key;              // "http.port"
  std::string flag;             // "--port"; a switch's flag takes no value
  std::string further_flags{};  // ",--ctx-size,-c": llama-server's names
  std::string flag_value{};     // for a switch: the value that its flag sets
  std::string value{};          // placeholder in the help: "PORT"
  std::string help;             // must be understood alone
  std::string range{};          // "integer, 0 to 65535"; empty: stated in `help`
  std::string group{};          // group in the help
  bool common = false;          // explained in the short help
  Kind kind;
  std::function<void(const std::string& text)> set;
  std::function<std::string()> show;  // value as TOML

  std::string description() const;
  std::string variable() const { return variable_of(key); }
};

/// Returns all settings; they refer to `config`, which must outlive them.
std::vector<Setting> serve_settings(ServeConfig& config);

/// A setting of an earlier version; its key, flags and variable only cause a warning.
struct RemovedSetting {
  std::string_view key;
  std::string_view flags;      // comma-separated; empty: none
  bool has_value = true;       // false: its flags take no value
  std::string_view successor;  // replacement, or the value that is in effect

  /// `name`: the key, flag or variable that was used.
  std::string warning(const std::string& name) const;
};
std::span<const RemovedSetting> removed_settings();

std::string toml_string(std::string_view text);
std::string toml_strings(const std::vector<std::string>& items);

/// Sets values from a file; adds a warning for each removed key. Throws UsageError naming file and line.
void load_config_file(ServeConfig& config, const std::string& path);
/// Sets values from `environment` ("NAME=value"); adds a warning for each removed or unknown REPRISE_*
/// variable. Ignores variables that Kubernetes derives from services (REPRISE_PORT=tcp://...,
/// REPRISE_SERVICE_HOST), even if they have a setting's name. Throws UsageError naming the variable.
void load_config_environment(ServeConfig& config, const std::vector<std::string>& environment);
/// Returns ": did you mean 'x'?" if a setting's key is similar, else an empty string.
std::string nearest_key(const std::vector<Setting>& settings, const std::string& key);
/// Sets a value from a flag. Throws UsageError.
void set_from_flag(const Setting& setting, const std::string& text);

/// Returns the model for --model PATH, named after its file or folder.
ModelTable model_at(const std::string& path);

/// Sets the names of a model from a comma-separated list: the alphabetically first is its name, the others
/// aliases.
void take_names(ModelTable& model, const std::string& names);

/// Returns the effective settings as a file for load_config_file(), without keys.
std::string print_config(ServeConfig& config);
/// Returns the part of that file that describes tenants.
std::string print_key_tables(const std::vector<KeyTable>& tables);

/// Fills config.http.keys from the key file, `environment` (REPRISE_API_KEYS; may be null) and the tables.
/// Throws UsageError.
void load_keys(ServeConfig& config, const char* environment);

}  // namespace reprise::tools
