#include "tools/reprise/serve_config.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <stdexcept>

#include "base/json_text.h"
#include "tools/reprise/hub.h"
#include "tools/reprise/suggestion.h"

namespace reprise::tools {

namespace {

/// REPRISE_* variables that are not settings of the file, or belong to other commands and tests.
constexpr std::string_view kOtherVariables[] = {
    "REPRISE_API_KEY", "REPRISE_API_KEYS", "REPRISE_BUILTIN_MODEL", "REPRISE_CHROMIUM",
    "REPRISE_CONFIG",  "REPRISE_MODEL",    "REPRISE_MODELS"};

/// Returns whether Kubernetes derived the variable from a service whose name begins with "reprise".
bool is_of_kubernetes(const std::string& name, const std::string& value) {
  for (const char* protocol : {"tcp://", "udp://", "sctp://"}) {
    if (value.starts_with(protocol)) return true;
  }
  if (name.ends_with("_SERVICE_HOST") || name.find("_SERVICE_PORT") != std::string::npos) return true;
  const std::size_t port = name.find("_PORT_");  // REPRISE_PORT_8080_TCP_ADDR
  return port != std::string::npos && port + 6 < name.size() && name[port + 6] >= '0' &&
         name[port + 6] <= '9';
}

}  // namespace

ServeConfig::ServeConfig() {
  options.worker.state_bytes = 0;  // 0: chosen for the device
  options.worker.max_waiting = 256;
  options.requests.assume_chat = true;
}

std::string toml_string(std::string_view text) {
  std::string out;  // JSON string syntax is valid TOML
  append_json_string(out, text);
  return out;
}

std::string toml_strings(const std::vector<std::string>& items) {
  std::string out = "[";
  for (const std::string& item : items) out += (out.size() > 1 ? ", " : "") + toml_string(item);
  return out + "]";
}

std::string Setting::description() const {
  return range.empty() || kind == Kind::kSwitch ? help : help + " (" + range + ")";
}

std::string variable_of(std::string_view key) {
  std::string name = "REPRISE_";
  for (const char c : key) {
    name += c == '.' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return name;
}

void set_from_flag(const Setting& setting, const std::string& text) {
  try {
    setting.set(text);
  } catch (const std::invalid_argument& error) {
    throw UsageError(setting.flag + ": " + error.what());
  }
}

void load_config_environment(ServeConfig& config, const std::vector<std::string>& environment) {
  const std::vector<Setting> settings = serve_settings(config);
  std::vector<std::string> names(std::begin(kOtherVariables), std::end(kOtherVariables));
  for (const Setting& setting : settings) names.push_back(setting.variable());
  for (const std::string& entry : environment) {
    const std::size_t sign = std::min(entry.find('='), entry.size());
    const std::string name = entry.substr(0, sign);
    const std::string value = sign == entry.size() ? std::string() : entry.substr(sign + 1);
    if (!name.starts_with("REPRISE_") || is_of_kubernetes(name, value)) continue;
    const auto setting = std::find_if(settings.begin(), settings.end(),
                                      [&](const Setting& one) { return one.variable() == name; });
    if (setting != settings.end()) {
      try {
        setting->set(value);
      } catch (const std::invalid_argument& error) {
        throw UsageError(name + ": " + error.what());
      }
      continue;
    }
    const auto removed =
        std::find_if(removed_settings().begin(), removed_settings().end(),
                     [&](const RemovedSetting& one) { return variable_of(one.key) == name; });
    if (removed != removed_settings().end()) {
      config.warnings.push_back(removed->warning(name));
    } else if (std::find(names.begin(), names.end(), name) == names.end()) {
      const std::string near = nearest_name(name, names);
      config.warnings.push_back(name + ": there is no setting for this variable" +
                                (near.empty() ? "" : "; did you mean " + near + "?"));
    }
  }
}

std::string nearest_key(const std::vector<Setting>& settings, const std::string& key) {
  std::vector<std::string> keys;
  for (const Setting& setting : settings) keys.push_back(setting.key);
  const std::string near = nearest_name(key, keys);
  return near.empty() ? std::string() : "; did you mean '" + near + "'?";
}

ModelTable model_at(const std::string& path) {
  if (path.starts_with(kHubPrefix)) {
    const HubName name = parse_hub_name(path);
    return {.name = name.file.empty() ? name.model : model_at(name.file).name, .path = path};
  }
  std::filesystem::path file(path);
  if (!file.has_filename()) file = file.parent_path();  // "folder/"
  if (file.extension() == ".gguf") return {.name = file.stem().string(), .path = path};
  return {.name = file.filename().string(), .path = path};
}

void take_names(ModelTable& model, const std::string& names) {
  if (names.find(',') == std::string::npos) {
    model.name = names;
    return;
  }
  std::set<std::string> each;
  std::istringstream items(names);
  for (std::string item; std::getline(items, item, ',');) {
    if (!item.empty()) each.insert(item);
  }
  if (each.empty()) throw UsageError("models.name: '" + names + "' has no name");
  model.name = *each.begin();
  model.aliases.insert(model.aliases.end(), each.begin(),
                       each.end());  // replaces the whole list
}

std::string print_config(ServeConfig& config) {
  std::string out;
  std::string section;
  ServeConfig untouched;
  const std::vector<Setting> defaults = serve_settings(untouched);
  std::size_t row = 0;
  for (const Setting& setting : serve_settings(config)) {
    const std::size_t dot = setting.key.find('.');
    if (setting.key.substr(0, dot) != section) {
      section = setting.key.substr(0, dot);
      out += (out.empty() ? "[" : "\n[") + section + "]\n";
    }
    out += "# " + setting.description() + "; default " + defaults[row++].show() + "\n";
    out += setting.key.substr(dot + 1) + " = " + setting.show() + "\n";
  }
  for (const ModelTable& model : config.models) {
    out += "\n[[models]]\nname = " + toml_string(model.name) + "\npath = " + toml_string(model.path) + "\n";
    if (!model.device.empty()) out += "device = " + toml_string(model.device) + "\n";
    if (!model.chat_template.empty()) out += "chat_template = " + toml_string(model.chat_template) + "\n";
    if (!model.aliases.empty()) out += "aliases = " + toml_strings(model.aliases) + "\n";
    if (model.kv_budget) out += "kv_budget = " + std::to_string(*model.kv_budget) + "\n";
    if (!model.tags.empty()) out += "tags = " + toml_strings(model.tags) + "\n";
    for (const AdapterTable& adapter : model.adapters) {
      out += "[[models.adapters]]\nname = " + toml_string(adapter.name) +
             "\npath = " + toml_string(adapter.path) + "\n";
    }
  }
  out += print_key_tables(config.keys);
  return out;
}

std::string print_key_tables(const std::vector<KeyTable>& tables) {
  std::string out;
  for (const KeyTable& table : tables) {
    const protocol::Tenant& tenant = table.tenant;
    if (tenant.name.empty()) {  // a table without key must name a tenant
      out += "\n# [[keys]]: one without a tenant's name, which is not shown\n";
      continue;
    }
    out += "\n[[keys]]\n";
    if (!table.key.empty()) out += "# key: not shown\n";
    out += "tenant = ";
    append_json_string(out, tenant.name);  // JSON string syntax is valid TOML
    out += "\n";
    if (!table.describes) continue;
    out += std::string("operator = ") + (tenant.is_operator ? "true" : "false") + "\n";
    out += "requests = " + std::to_string(tenant.requests) + "\n";
    out += "tokens_per_minute = " + std::to_string(tenant.tokens_per_minute) + "\n";
    out += "state_share = ";
    append_json_double(out, tenant.state_share, false);
    out += "\n";
    if (tenant.priority) out += "priority = \"" + std::string(name_of(*tenant.priority)) + "\"\n";
  }
  return out;
}

void load_keys(ServeConfig& config, const char* environment) {
  protocol::KeyRing& keys = config.http.keys;
  const auto require = [](const std::string& problem, const std::string& source) {
    if (!problem.empty()) throw UsageError(source + ": " + problem);
  };
  if (!config.key_file.empty()) {
    std::ifstream file(config.key_file);
    if (!file) throw UsageError("auth.api_key_file: cannot read " + config.key_file);
    std::ostringstream text;
    text << file.rdbuf();
    require(keys.add(text.str()), config.key_file);
    if (keys.empty()) throw UsageError(config.key_file + ": holds no key");
  }
  require(keys.add(config.api_keys), "auth.api_key");
  if (environment != nullptr) require(keys.add(environment), "REPRISE_API_KEYS");
  for (const KeyTable& table : config.keys) {
    if (!table.key.empty()) require(keys.add_key(table.key, table.tenant.name), table.place);
  }
  for (const KeyTable& table : config.keys) {  // after all keys are known
    if (!table.describes) continue;
    protocol::Tenant tenant = table.tenant;
    if (tenant.name.empty()) tenant.name = keys.tenant_of(table.key)->name;
    require(keys.describe(tenant), table.place);
  }
  if (config.share_tenant) keys.share_cache();
}

}  // namespace reprise::tools
