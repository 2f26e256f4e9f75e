// Reads the TOML file of tools/reprise/serve_config.h; the only file that uses toml++.
#include <toml++/toml.h>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "tools/reprise/serve_config.h"

namespace reprise::tools {
namespace {

class FileReader {
 public:
  FileReader(ServeConfig& config, const std::string& path)
      : config_(config), path_(path), settings_(serve_settings(config)) {}

  void read() {
    std::ifstream stream(path_);
    if (!stream) throw UsageError(path_ + ": cannot be read: " + std::strerror(errno));
    if (std::filesystem::is_directory(path_))
      throw UsageError(path_ + ": is a folder, not a file with settings");
    toml::table file;
    try {
      file = toml::parse(stream, path_);
    } catch (const toml::parse_error& error) {
      throw UsageError(place(error.source()) + ": " + std::string(error.description()));
    }
    for (const auto& [name, node] : file) {
      const std::string section(name.str());
      if (section == "models") {
        read_models(node);
      } else if (section == "keys") {
        read_keys(node);
      } else if (const toml::table* table = node.as_table()) {
        for (const auto& [key, value] : *table) read_setting(section, std::string(key.str()), key, value);
      } else {
        refuse(name.source(), "unknown key '" + section + "'");
      }
      if (section != "models" && section != "keys" && !is_section(section)) {
        refuse(name.source(), "unknown section '" + section + "'");
      }
    }
  }

 private:
  std::string place(const toml::source_region& source) const {
    return path_ + " line " + std::to_string(source.begin.line);
  }
  [[noreturn]] void refuse(const toml::source_region& source, const std::string& what) const {
    throw UsageError(place(source) + ": " + what);
  }

  bool is_section(const std::string& section) const {
    for (const Setting& setting : settings_) {
      if (setting.key.starts_with(section + ".")) return true;
    }
    for (const RemovedSetting& removed : removed_settings()) {
      if (removed.key.starts_with(section + ".")) return true;
    }
    return false;
  }

  void read_setting(const std::string& section, const std::string& name, const toml::key& key,
                    const toml::node& value) {
    const std::string full = section + "." + name;
    for (const Setting& setting : settings_) {
      if (setting.key != full) continue;
      try {
        return setting.set(text_of(value, setting.kind));
      } catch (const std::invalid_argument& error) {
        refuse(value.source(), full + ": " + error.what());
      }
    }
    if (warns_of_removed(full, key)) return;
    refuse(key.source(), "unknown key '" + full + "'" + nearest_key(settings_, full));
  }

  /// If a removed setting has this name, adds its warning and returns true.
  bool warns_of_removed(const std::string& full, const toml::key& key) const {
    for (const RemovedSetting& removed : removed_settings()) {
      if (removed.key != full) continue;
      config_.warnings.push_back(removed.warning(place(key.source()) + ": " + full));
      return true;
    }
    return false;
  }

  static std::string text_of(const toml::node& value, Setting::Kind kind) {
    std::ostringstream out;
    switch (kind) {
      case Setting::Kind::kText:
        if (const auto* text = value.as_string()) return text->get();
        throw std::invalid_argument("must be a string");
      case Setting::Kind::kSwitch:
        if (const auto* flag = value.as_boolean()) return flag->get() ? "true" : "false";
        throw std::invalid_argument("must be true or false");
      case Setting::Kind::kNumber:
        if (const auto* number = value.as_integer()) return std::to_string(number->get());
        if (const auto* number = value.as_floating_point()) {
          out << number->get();
          return out.str();
        }
        throw std::invalid_argument("must be a number");
      case Setting::Kind::kList:
        break;
    }
    const toml::array* items = value.as_array();
    if (items == nullptr) throw std::invalid_argument("must be an array of strings");
    for (const toml::node& item : *items) {
      if (!item.is_string() || item.as_string()->get().find(',') != std::string::npos) {
        throw std::invalid_argument("must be an array of strings without commas");
      }
      out << item.as_string()->get() << ',';
    }
    return out.str();
  }

  void read_models(const toml::node& node) {
    const toml::array* models = node.as_array();
    if (models == nullptr) refuse(node.source(), "models: must be tables, [[models]]");
    config_.models.clear();
    for (const toml::node& item : *models) {
      const toml::table* table = item.as_table();
      if (table == nullptr) refuse(item.source(), "models: must be tables, [[models]]");
      ModelTable model;
      for (const auto& [key, value] : *table) {
        if (key.str() == "adapters") {
          read_adapters(model, value);
          continue;
        }
        if (key.str() == "aliases" || key.str() == "tags") {
          (key.str() == "tags" ? model.tags : model.aliases) = read_words(std::string(key.str()), value);
          continue;
        }
        if (key.str() == "kv_budget") {
          const auto* number = value.as_integer();
          if (number == nullptr || number->get() < 0 || number->get() > 100'000'000)
            refuse(value.source(), "models.kv_budget: must be a whole number from 0 to 100000000");
          model.kv_budget = static_cast<std::uint32_t>(number->get());
          continue;
        }
        if (warns_of_removed("models." + std::string(key.str()), key)) continue;
        std::string* field = key.str() == "name"            ? &model.name
                             : key.str() == "path"          ? &model.path
                             : key.str() == "device"        ? &model.device
                             : key.str() == "chat_template" ? &model.chat_template
                                                            : nullptr;
        if (field == nullptr) refuse(key.source(), "unknown key 'models." + std::string(key.str()) + "'");
        if (!value.is_string())
          refuse(value.source(), "models." + std::string(key.str()) + ": must be a string");
        *field = value.as_string()->get();
      }
      if (model.path.empty()) refuse(item.source(), "models.path: is required");
      if (model.name.empty()) model.name = model_at(model.path).name;
      take_names(model, model.name);
      for (const ModelTable& other : config_.models) {
        if (other.name == model.name)
          refuse(item.source(), "models.name: '" + model.name + "' is used twice");
      }
      config_.models.push_back(std::move(model));
    }
  }

  std::vector<std::string> read_words(const std::string& key, const toml::node& node) const {
    const toml::array* items = node.as_array();
    if (items == nullptr) refuse(node.source(), "models." + key + ": must be an array of strings");
    std::vector<std::string> words;
    for (const toml::node& item : *items) {
      if (!item.is_string()) refuse(node.source(), "models." + key + ": must be an array of strings");
      words.push_back(item.as_string()->get());
    }
    return words;
  }

  void read_adapters(ModelTable& model, const toml::node& node) const {
    const char* const kWanted = "models.adapters: must be tables, [[models.adapters]]";
    const toml::array* adapters = node.as_array();
    if (adapters == nullptr) refuse(node.source(), kWanted);
    for (const toml::node& item : *adapters) {
      const toml::table* table = item.as_table();
      if (table == nullptr) refuse(item.source(), kWanted);
      AdapterTable adapter;
      for (const auto& [key, value] : *table) {
        const std::string name = "models.adapters." + std::string(key.str());
        std::string* field = key.str() == "name"   ? &adapter.name
                             : key.str() == "path" ? &adapter.path
                                                   : nullptr;
        if (field == nullptr) refuse(key.source(), "unknown key '" + name + "'");
        if (!value.is_string()) refuse(value.source(), name + ": must be a string");
        *field = value.as_string()->get();
      }
      if (adapter.path.empty()) refuse(item.source(), "models.adapters.path: is required");
      if (adapter.name.empty()) adapter.name = model_at(adapter.path).name;
      if (adapter.name.find(':') != std::string::npos) {
        refuse(item.source(), "models.adapters.name: '" + adapter.name + "' has a colon");
      }
      for (const AdapterTable& other : model.adapters) {
        if (other.name == adapter.name) {
          refuse(item.source(), "models.adapters.name: '" + adapter.name + "' is used twice");
        }
      }
      model.adapters.push_back(std::move(adapter));
    }
  }

  void read_keys(const toml::node& node) {
    const toml::array* tables = node.as_array();
    if (tables == nullptr) refuse(node.source(), "keys: must be tables, [[keys]]");
    config_.keys.clear();
    for (const toml::node& item : *tables) {
      const toml::table* table = item.as_table();
      if (table == nullptr) refuse(item.source(), "keys: must be tables, [[keys]]");
      KeyTable key{.place = place(item.source())};
      for (const auto& [name, value] : *table) read_key_field(key, std::string(name.str()), value);
      if (key.key.empty() && key.tenant.name.empty()) {
        refuse(item.source(), "keys: 'key' or 'tenant' is required");
      }
      for (const KeyTable& other : config_.keys) {
        const bool same = !key.tenant.name.empty() && other.tenant.name == key.tenant.name;
        if (same && other.describes && key.describes) {
          refuse(item.source(), "keys.tenant: the settings of '" + key.tenant.name + "' are given twice");
        }
      }
      config_.keys.push_back(std::move(key));
    }
  }

  void read_key_field(KeyTable& key, const std::string& name, const toml::node& value) const {
    const auto bad = [&](const std::string& what) { refuse(value.source(), "keys." + name + ": " + what); };
    const auto text = [&] {
      if (!value.is_string()) bad("must be a string");
      return value.as_string()->get();
    };
    const auto number = [&](double min, double max, const std::string& what) {
      const std::optional<double> found = value.value<double>();  // also converts an integer
      if (!value.is_number() || !found || !(*found >= min && *found <= max)) bad(what);
      return *found;
    };
    key.describes = key.describes || (name != "key" && name != "tenant");
    if (name == "key") {
      key.key = text();
    } else if (name == "tenant") {
      key.tenant.name = text();
    } else if (name == "operator") {
      if (!value.is_boolean()) bad("must be true or false");
      key.tenant.is_operator = value.as_boolean()->get();
    } else if (name == "requests") {
      if (!value.is_integer()) bad("must be a whole number");
      key.tenant.requests =
          static_cast<std::uint32_t>(number(0, 1e6, "must be from 0 (no limit) to 1000000"));
    } else if (name == "tokens_per_minute") {
      if (!value.is_integer()) bad("must be a whole number");
      key.tenant.tokens_per_minute =
          static_cast<std::uint64_t>(number(0, 1e12, "must be from 0 (no limit) to 1000000000000"));
    } else if (name == "state_share") {
      key.tenant.state_share = number(0, 1, "must be a number from 0 (no limit) to 1");
    } else if (name == "priority") {
      key.tenant.priority = protocol::priority_of(text());
      if (!key.tenant.priority) bad("must be low, normal or high");
    } else {
      refuse(value.source(), "unknown key 'keys." + name + "'");
    }
  }

  ServeConfig& config_;
  const std::string path_;
  const std::vector<Setting> settings_;
};

}  // namespace

void load_config_file(ServeConfig& config, const std::string& path) {
  FileReader(config, path).read();
}

}  // namespace reprise::tools
