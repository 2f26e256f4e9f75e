#include "tools/reprise/make_service.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "actors/engine.h"
#include "models/memory_plan.h"
#include "protocol/chat/named_templates.h"
#include "protocol/http/log.h"
#include "protocol/snapshots/cache_secret.h"
#include "protocol/snapshots/snapshot_folder.h"
#include "tools/reprise/builtin_model.h"
#include "tools/reprise/snapshot_files.h"

namespace reprise::tools {

namespace {

/// What snapshots outside of the process are sealed with.
protocol::snapshots::Key sealing_key(const CacheConfig& config) {
  namespace snapshots = protocol::snapshots;
  if (!config.remote.empty() && config.secret.empty() && config.secret_file.empty()) {
    throw UsageError(
        "--cache-remote: servers that share a store need the same secret: cache.secret_file, or "
        "cache.secret");
  }
  const std::string file = config.secret_file.empty() ? snapshots::usual_secret_file() : config.secret_file;
  std::error_code ignored;
  const bool makes = config.secret.empty() && !std::filesystem::exists(file, ignored);
  if (config.secret.empty() && file.empty()) {
    throw UsageError(
        "--cache-dir: HOME is not set, so there is no default file for the secret; set cache.secret_file");
  }
  const auto key =
      config.secret.empty() ? snapshots::key_from_file(file) : snapshots::key_of_secret(config.secret);
  if (!key.ok()) {
    throw UsageError((config.secret.empty() ? "cache.secret_file: " : "cache.secret: ") + key.error());
  }
  if (makes) {
    protocol::log_line(protocol::LogLevel::kInfo,
                       "cache secret: created in " + file + "; snapshots cannot be read without it");
  }
  return *key;
}

std::string remote_password(const CacheConfig& config) {
  if (config.remote_password_file.empty()) return config.remote_password;
  std::ifstream file(config.remote_password_file);
  std::string password;
  if (!file || !std::getline(file, password) || password.empty()) {
    throw UsageError("cache.remote_password_file: no password can be read from " +
                     config.remote_password_file);
  }
  return password;
}

/// Makes the folder of snapshots where it is not there, and logs what it holds. One that cannot be written serves what it
/// holds. Throws std::runtime_error where it can neither be made nor read.
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
  for (const snapshots::FolderFile& file : folder.scan()) {
    count += file.kind == snapshots::FileKind::kManifest ? 1 : 0;
    bytes += file.bytes;
  }
  protocol::log_line(protocol::LogLevel::kInfo,
                     "cache folder '" + config.folder + "': " + std::to_string(count) + " snapshots, " +
                         models::in_units(bytes) + " of " + models::in_units(config.disk_mb << 20));
}

void set_tiers(const CacheConfig& config, actors::EngineOptions& options) {
  options.host.most_bytes = config.host_mb << 20;
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
                    .most_bytes = config.disk_mb << 20,
                    .ttl = seconds(config.disk_ttl),
                    .even_if_slower = config.even_if_slower,
                    .pack = config.pack};
  }
  if (!config.remote.empty()) {
    auto address = protocol::snapshots::parse_redis_address(config.remote);
    if (!address.ok()) throw UsageError("--cache-remote: " + address.error());
    options.remote = {.redis = protocol::snapshots::RedisSettings{.address = *address,
                                                                  .password = remote_password(config),
                                                                  .ttl = seconds(config.remote_ttl)},
                      .master_key = key,
                      .even_if_slower = config.even_if_slower,
                      .pack = config.pack};
  }
}

/// Of chat.template: what a name stands for, what a file holds, or the text as it is.
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
  const auto pooling = kv_pooling_named(config.kv_pooling);
  if (!pooling) throw UsageError("engine.kv_pooling: '" + config.kv_pooling + "' is neither average nor max");
  budget.pooling = *pooling;
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

std::unique_ptr<protocol::Service> make_service(runtime::System& system, const ServeConfig& config) {
  actors::EngineOptions options;
  options.models = model_specs(config);
  options.worker.device = config.engine.device;
  options.worker.device_options = device_options(config.engine);
  options.worker.state_bytes = config.state_mb << 20;
  if (config.parallel > 0) options.worker.max_sequences = config.parallel;
  options.worker.max_waiting = static_cast<std::uint32_t>(config.queue.length);
  options.adapter_folder = config.adapter_folder;
  options.longest_step = config.longest_step;
  options.cache = config.cache.enabled;
  options.registry.budget_bytes = config.cache.budget_mb << 20;
  if (config.cache.max_entries > 0) options.registry.cache.max_entries = config.cache.max_entries;
  options.registry.cache.ttl = config.cache.ttl;
  options.registry.recurrent_max_entries = config.cache.recurrent_max_entries;
  options.registry.recurrent_ttl = config.cache.recurrent_ttl;
  options.registry.cache.max_per_conversation = config.cache.max_per_conversation;
  options.registry.min_insert_tokens = config.cache.min_insert_tokens;
  options.registry.cache.max_in_replies = config.cache.max_in_replies;
  options.requests.reply_checkpoint_tokens = config.cache.reply_checkpoint_tokens;
  options.requests.reply_checkpoints = config.cache.max_in_replies;
  set_tiers(config.cache, options);
  const bool all = config.cache.verify_inline && config.cache.verify_percent == 0;
  options.requests.verify_share = all ? 1.0 : config.cache.verify_percent / 100.0;
  options.requests.verify_inline = config.cache.verify_inline;
  options.requests.prefill_history = config.cache.idle_prefill;
  options.requests.most_choices = config.http.request.choices;
  options.requests.longest_wait = config.queue.wait;
  options.requests.sampling.temperature = config.temperature;
  options.requests.sampling.seed = config.seed;
  options.requests.max_tokens = config.max_tokens;
  options.requests.assume_chat = true;
  if (config.reasoning != "template") options.requests.thinking = config.reasoning != "off";
  options.requests.reasoning_budget = config.reasoning_budget;
  const auto in_place = protocol::system_in_place_named(config.system_in_place);
  if (!in_place) {
    throw UsageError("chat.system_in_place: '" + config.system_in_place +
                     "' is not one of auto, user, template");
  }
  options.requests.system_in_place = *in_place;
  options.most_requests = static_cast<std::uint32_t>(config.http.requests);
  options.log = [](const std::string& line) { protocol::log_line(protocol::LogLevel::kInfo, line); };
  options.log_error = [](const std::string& line) { protocol::log_line(protocol::LogLevel::kError, line); };
  options.device_lost = [](const std::string& why) {
    protocol::log_line(protocol::LogLevel::kError,
                       "device lost, exiting so that the service manager restarts the server: " + why);
    protocol::flush_log();
    std::_Exit(kDeviceLostExit);
  };
  return std::make_unique<actors::Engine>(system, std::move(options));
}

}  // namespace reprise::tools
