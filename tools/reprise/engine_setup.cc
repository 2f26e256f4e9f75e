#include "tools/reprise/engine_setup.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "models/memory_plan.h"
#include "protocol/chat/named_templates.h"
#include "protocol/chat/system_messages.h"
#include "protocol/http/log.h"
#include "protocol/snapshots/seal.h"
#include "protocol/snapshots/snapshot_folder.h"
#include "tools/reprise/engine_flags.h"
#include "tools/reprise/snapshot_files.h"

namespace reprise::tools {
namespace {

/// Returns the key that seals snapshots stored outside of the process.
protocol::snapshots::Key sealing_key(const CacheConfig& config) {
  namespace snapshots = protocol::snapshots;
  if (!config.remote.empty() && config.secret_file.empty()) {
    throw UsageError("--cache-remote: servers that share a store need the same secret: cache.secret_file");
  }
  const std::string file = config.secret_file.empty() ? snapshots::usual_secret_file() : config.secret_file;
  std::error_code ignored;
  const bool makes = !std::filesystem::exists(file, ignored);
  if (file.empty()) {
    throw UsageError(
        "--cache-dir: HOME is not set, so there is no default file for the secret; set cache.secret_file");
  }
  const auto key = snapshots::key_from_file(file);
  if (!key.ok()) throw UsageError("cache.secret_file: " + key.error());
  if (makes) {
    protocol::log_line(protocol::LogLevel::kInfo,
                       "cache secret: created in " + file + "; snapshots cannot be read without it");
  }
  return *key;
}

std::string remote_password(const CacheConfig& config) {
  if (config.remote_password_file.empty()) return {};
  std::ifstream file(config.remote_password_file);
  std::string password;
  if (!file || !std::getline(file, password) || password.empty()) {
    throw UsageError("cache.remote_password_file: no password can be read from " +
                     config.remote_password_file);
  }
  return password;
}

/// Creates the snapshot folder if needed and logs its contents. A read-only folder is still served. Throws
/// std::runtime_error if it can be neither created nor read.
void look_at_folder(const CacheConfig& config) {
  namespace snapshots = protocol::snapshots;
  const snapshots::SnapshotFolder folder(config.folder);
  const auto unmade = folder.prepare();
  if (const auto why = unreadable(config.folder)) {
    throw std::runtime_error("--cache-dir: " + (unmade ? unmade->message : *why));
  }
  if (const auto trouble = unmade ? unmade : folder.probe()) {
    protocol::log_line(protocol::LogLevel::kWarning,
                       "cache folder '" + config.folder + "': " + trouble->message +
                           "; its snapshots are used, new ones are not written");
  }
  std::size_t count = 0;
  std::uint64_t bytes = 0;
  const auto files = folder.scan();
  if (!files.ok()) throw std::runtime_error("--cache-dir: " + files.error().message);
  for (const snapshots::FolderFile& file : *files) {
    count += file.kind == snapshots::FileKind::kManifest ? 1 : 0;
    bytes += file.bytes;
  }
  protocol::log_line(protocol::LogLevel::kInfo,
                     "cache folder '" + config.folder + "': " + std::to_string(count) + " snapshots, " +
                         models::in_units(bytes) + " of " + models::in_units(config.disk_mb << 20));
}

void set_tiers(const CacheConfig& config, actors::EngineOptions& options) {
  options.host.even_if_slower = config.even_if_slower;
  if (config.folder.empty() && config.remote.empty()) return;
  if (!config.folder.empty()) look_at_folder(config);
  const protocol::snapshots::Key key = sealing_key(config);
  const auto seconds = [](std::chrono::milliseconds time) {
    return std::chrono::duration_cast<std::chrono::seconds>(time);
  };
  if (!config.folder.empty()) {
    options.disk = {.folder = config.folder,
                    .master_key = key,
                    .max_bytes = config.disk_mb << 20,
                    .ttl = seconds(config.disk_ttl),
                    .even_if_slower = config.even_if_slower};
  }
  if (!config.remote.empty()) {
    auto address = protocol::snapshots::parse_redis_address(config.remote);
    if (!address.ok()) throw UsageError("--cache-remote: " + address.error());
    options.remote = {.redis = protocol::snapshots::RedisSettings{.address = *address,
                                                                  .password = remote_password(config),
                                                                  .ttl = seconds(config.remote_ttl)},
                      .master_key = key,
                      .even_if_slower = config.even_if_slower,
                      .pack = true};
  }
}

/// Resolves chat.template: a built-in name, a file, or the template text itself.
std::string template_text(const std::string& given) {
  if (given.empty()) return {};
  if (const auto named = protocol::named_template(given)) return *named;
  if (std::ifstream file(given); file && std::filesystem::is_regular_file(given)) {
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  if (given.find_first_of(" \n{") != std::string::npos) return given;
  throw UsageError("chat.template: '" + given + "' is neither a file nor one of " +
                   protocol::template_names());
}

KvBudget kv_budget_of(const ServeConfig& config, const ModelTable& model) {
  KvBudget budget = config.kv;
  if (model.kv_budget) budget.tokens = *model.kv_budget;
  if (const std::string why = refusal_of(budget); !why.empty()) {
    throw UsageError((model.kv_budget ? "models.kv_budget: " : "engine.kv_budget: ") + why);
  }
  return budget;
}

std::vector<actors::ModelSpec> model_specs(const ServeConfig& config) {
  std::vector<actors::ModelSpec> specs;
  std::vector<ModelTable> models = config.models;
  if (models.empty()) models.push_back(model_at(model_or_builtin("")));
  for (const ModelTable& model : models) {
    specs.push_back({.name = model.name,
                     .path = model_or_builtin(model.path),
                     .device = model.device,
                     .compute = config.engine.compute,
                     .kv_dtype = config.engine.kv_dtype,
                     .isa = config.engine.isa,
                     .kv = kv_budget_of(config, model),
                     .adapters = {}});
    actors::ModelSpec& spec = specs.back();
    spec.aliases = model.aliases;
    spec.tags = model.tags;
    spec.context = static_cast<std::uint32_t>(config.context / std::max(config.parallel, 1U));
    spec.chat_template =
        template_text(model.chat_template.empty() ? config.chat_template : model.chat_template);
    for (const AdapterTable& adapter : model.adapters) {
      spec.adapters.push_back({.name = adapter.name, .path = adapter.path});
    }
  }
  std::vector<std::string>& names = specs.front().aliases;
  names.insert(names.end(), config.aliases.begin(), config.aliases.end());
  return specs;
}

}  // namespace

actors::EngineOptions engine_options(const ServeConfig& config) {
  actors::EngineOptions options = config.options;
  options.models = model_specs(config);
  options.worker.device = config.engine.device;
  options.worker.device_options = device_options(config.engine);
  if (config.parallel > 0) options.worker.max_sequences = config.parallel;
  if (config.cache.max_entries > 0) options.registry.cache.max_entries = config.cache.max_entries;
  set_tiers(config.cache, options);
  const bool all = options.requests.verify_inline && config.cache.verify_percent == 0;
  options.requests.verify_share = all ? 1.0 : config.cache.verify_percent / 100.0;
  options.requests.max_choices = config.http.request.choices;
  if (config.reasoning != "template") options.requests.thinking = config.reasoning != "off";
  const auto in_place = protocol::system_message_mode_named(config.system_in_place);
  if (!in_place) {
    throw UsageError("chat.system_in_place: '" + config.system_in_place +
                     "' is not one of auto, user, template");
  }
  options.requests.system_in_place = *in_place;
  options.max_requests = static_cast<std::uint32_t>(config.http.requests);
  return options;
}

}  // namespace reprise::tools
