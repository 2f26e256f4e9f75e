#include "tools/reprise/serve_config.h"

#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>
#include <sstream>
#include <stdexcept>

#include "base/json_text.h"
#include "protocol/chat/named_templates.h"
#include "protocol/http/log.h"
#include "tools/reprise/hub_name.h"

namespace reprise::tools {
namespace {

using std::chrono::milliseconds;

[[noreturn]] void bad_value(const std::string& text, const std::string& wanted) {
  throw std::invalid_argument("'" + text + "' is not " + wanted);
}

std::string in_quotes(std::string_view text) {
  std::string out;  // a JSON string is a TOML string
  append_json_string(out, text);
  return out;
}

std::string in_brackets(const std::vector<std::string>& items) {
  std::string out = "[";
  for (const std::string& item : items) out += (out.size() > 1 ? ", " : "") + in_quotes(item);
  return out + "]";
}

/// Makes rows of the table.
class Table {
 public:
  void text(std::string key, std::string flag, std::string& target, std::string help) {
    add({.key = std::move(key),
         .flag = std::move(flag),
         .help = std::move(help),
         .kind = Setting::Kind::kText,
         .set = [&target](const std::string& value) { target = value; },
         .show = [&target] { return in_quotes(target); }});
  }

  /// Text that is never shown.
  void hidden(std::string key, std::string flag, std::string& target, std::string help) {
    text(std::move(key), std::move(flag), target, std::move(help));
    rows_.back().show = [] { return in_quotes(""); };
  }

  template <class T>
  void number(std::string key, std::string flag, T& target, std::uint64_t least, std::uint64_t most,
              std::string help) {
    add({.key = std::move(key),
         .flag = std::move(flag),
         .help = std::move(help),
         .kind = Setting::Kind::kNumber,
         .set =
             [&target, least, most](const std::string& value) {
               std::uint64_t number = 0;
               const char* end = value.data() + value.size();
               const auto [stopped, error] = std::from_chars(value.data(), end, number);
               if (error != std::errc() || stopped != end || number < least || number > most) {
                 bad_value(value,
                           "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
               }
               target = static_cast<T>(number);
             },
         .show = [&target] { return std::to_string(target); }});
  }

  /// What may be left to others: -1, which is none.
  template <class T>
  void wish(std::string key, std::string flag, std::optional<T>& target, double most, std::string help) {
    add({.key = std::move(key),
         .flag = std::move(flag),
         .help = std::move(help),
         .kind = Setting::Kind::kNumber,
         .set =
             [&target, most](const std::string& value) {
               const char* end = value.data() + value.size();
               T number{};
               const auto [stopped, error] = std::from_chars(value.data(), end, number);
               const bool good =
                   error == std::errc() && stopped == end && static_cast<double>(number) <= most;
               if (value == "-1") {
                 target.reset();
               } else if (good && number >= T{}) {
                 target = number;
               } else {
                 bad_value(value, "-1 or a number from 0 on, of a size that makes sense");
               }
             },
         .show =
             [&target] {
               std::ostringstream out;
               if (target) {
                 out << *target;
               } else {
                 out << -1;
               }
               return out.str();
             }});
  }

  void seconds(std::string key, std::string flag, milliseconds& target, double least, double most,
               std::string help) {
    add({.key = std::move(key),
         .flag = std::move(flag),
         .help = std::move(help) + ", in seconds",
         .kind = Setting::Kind::kNumber,
         .set =
             [&target, least, most](const std::string& value) {
               double number = 0;
               const char* end = value.data() + value.size();
               const auto [stopped, error] = std::from_chars(value.data(), end, number);
               if (error != std::errc() || stopped != end || !(number >= least && number <= most)) {
                 std::ostringstream wanted;
                 wanted << "a number of seconds from " << least << " to " << most;
                 bad_value(value, wanted.str());
               }
               target = milliseconds(std::llround(number * 1000));
             },
         .show =
             [&target] {
               std::string out;
               append_json_double(out, static_cast<double>(target.count()) / 1000, false);
               return out;
             }});
  }

  void toggle(std::string key, std::string flag, std::string flag_value, bool& target, std::string help) {
    add({.key = std::move(key),
         .flag = std::move(flag),
         .flag_value = std::move(flag_value),
         .help = std::move(help),
         .kind = Setting::Kind::kSwitch,
         .set =
             [&target](const std::string& value) {
               if (value != "true" && value != "false") bad_value(value, "true or false");
               target = value == "true";
             },
         .show = [&target] { return std::string(target ? "true" : "false"); }});
  }

  /// Text items, between commas in a flag or variable.
  void list(std::string key, std::string flag, std::vector<std::string>& target, std::string help) {
    add({.key = std::move(key),
         .flag = std::move(flag),
         .help = std::move(help) + ", between commas",
         .kind = Setting::Kind::kList,
         .set =
             [&target](const std::string& value) {
               target.clear();
               std::istringstream items(value);
               for (std::string item; std::getline(items, item, ',');) {
                 if (!item.empty()) target.push_back(item);
               }
             },
         .show = [&target] { return in_brackets(target); }});
  }

  std::vector<Setting> take() { return std::move(rows_); }

 private:
  void add(Setting setting) { rows_.push_back(std::move(setting)); }
  std::vector<Setting> rows_;
};

constexpr std::uint64_t kMiB = 1u << 20;
constexpr double kDay = 86'400;
constexpr std::uint64_t kAny = std::numeric_limits<std::int64_t>::max();

}  // namespace

std::vector<Setting> serve_settings(ServeConfig& config) {
  Table table;
  protocol::HttpOptions& http = config.http;
  protocol::BodyLimits& request = http.request;
  table.text("http.host", "--host", http.host, "Address to listen on");
  table.number("http.port", "--port", http.port, 0, 65535, "Port to listen on, 0 for any");
  table.list("http.cors_origins", "--cors-origins", http.cors_origins,
             "Origins whose pages may use the server: localhost for those of this machine, * for all");
  table.list("http.allowed_hosts", "--allowed-hosts", http.allowed_hosts,
             "Names that requests may have in Host, besides addresses, localhost and --host; * for all. "
             "Asked only where there are no keys");
  table.toggle("http.front_page", "--no-ui", "false", http.front_page, "Nothing at /");
  table.number("http.max_connections", "--max-connections", http.connections, 1, 1'000'000,
               "Connections open at once");
  table.number("http.reserved_connections", "--reserved-connections", http.reserved_connections, 0, 1024,
               "Connections beside them, for health and metrics when all are busy");
  table.number("http.max_requests", "--max-requests", http.requests, 1, 1'000'000,
               "Requests being answered at once, each choice of each prompt; over it 429");
  table.number("http.max_header_bytes", "--max-header-bytes", http.header_bytes, 1024, 16 * kMiB,
               "Bytes of a request's head");
  table.number("http.max_body_bytes", "--max-body-bytes", http.body_bytes, 1024, 1024 * kMiB,
               "Bytes of a request's body");
  table.number("http.max_bodies_bytes", "--max-bodies-bytes", http.bodies_bytes, 1024, 1024 * 1024 * kMiB,
               "Bytes of all bodies that are not parsed yet, at least one body; over it 503");
  table.seconds("http.idle_timeout", "--idle-timeout", http.idle_timeout, 0.1, kDay,
                "Before a silent connection is closed");
  table.seconds("http.header_timeout", "--header-timeout", http.header_timeout, 0.1, kDay,
                "For the head of a request to come");
  table.seconds("http.body_timeout", "--body-timeout", http.body_timeout, 0.1, kDay,
                "For a body to begin coming at 64 KiB a second");
  table.seconds("http.body_total_timeout", "--body-total-timeout", http.body_total_timeout, 0.1, kDay,
                "For a whole body to come");
  table.seconds("http.write_timeout", "--write-timeout", http.write_timeout, 0.1, kDay,
                "Before a client that takes nothing is given up");
  table.seconds("http.sse_keep_alive", "--sse-keep-alive", http.sse_keep_alive, 0.1, kDay,
                "Between comments on a silent stream");
  table.seconds("http.shutdown", "--shutdown-timeout", config.shutdown, 0, kDay,
                "For answers to go on after a signal");

  table.text("auth.key_file", "--api-key-file", config.key_file, "File with one API key a line");
  table.hidden("auth.api_keys", "--api-key", config.api_keys,
               "API keys, between commas; a file or REPRISE_API_KEYS is safer");
  table.toggle("auth.share_tenant", "--share-tenant", "true", config.share_tenant,
               "All keys share what is cached");

  table.number("limits.messages", "--max-messages", request.messages, 1, 1'000'000, "Messages of a chat");
  table.number("limits.tools", "--max-tools", request.tools, 1, 1'000'000, "Tools of a chat");
  table.number("limits.stop_strings", "--max-stop-strings", request.stop_strings, 1, 1024,
               "Stop strings of a request");
  table.number("limits.stop_bytes", "--max-stop-bytes", request.stop_bytes, 1, kMiB,
               "Bytes of a stop string");
  table.number("limits.prompt_bytes", "--max-prompt-bytes", request.prompt_bytes, 1, 1024 * kMiB,
               "Bytes of a prompt's text");
  table.number("limits.prompt_tokens", "--max-prompt-tokens", request.prompt_tokens, 1, 100'000'000,
               "Tokens of a prompt");
  table.number("limits.choices", "--max-choices", request.choices, 1, 1024, "The most that n may be");
  table.number("limits.nesting", "--max-nesting", request.nesting, 8, 1024,
               "Nested arrays and objects of a body");

  table.text("engine.device", "--device", config.engine.device,
             "Where to compute: cpu, cuda:N, auto (a GPU if there is one), or cpu-grid for tests");
  table.text("engine.compute", "--compute", config.engine.compute,
             "auto: the fastest; precise; bf16; f32: the reference, on a CPU");
  table.text("engine.kv_dtype", "--kv-dtype", config.engine.kv_dtype,
             "Keys and values as f32, bf16, int8, int4 or auto");
  table.number("engine.kv_budget", "--kv-budget", config.kv.tokens, 0, 100'000'000,
               "Tokens of a prompt's keys and values to go on with, by what its end looks at; 0: all. A "
               "request's kv_budget, or that of [[models]], comes first");
  table.number("engine.kv_window", "--kv-window", config.kv.window, 1, KvBudget::kMostWindow,
               "Of these, the last of the prompt, whose queries choose the others");
  table.number("engine.kv_sinks", "--kv-sinks", config.kv.sinks, 0, KvBudget::kMostSinks,
               "Of these, the first of the prompt");
  table.text("engine.kv_pooling", "--kv-pooling", config.kv_pooling,
             "How scores of neighbours are put together: average or max");
  table.number("engine.kv_pool_width", "--kv-pool-width", config.kv.pool_width, 1, KvBudget::kMostPoolWidth,
               "Of how many neighbours, an odd number");
  table.toggle("engine.kv_reuse", "--kv-reuse", "true", config.kv_reuse,
               "A turn with a budget may go on from what an earlier one has kept, which is not what it would "
               "keep itself. A "
               "request's kv_reuse, or that of [[models]], comes first");
  table.text("engine.isa", "--isa", config.engine.isa,
             "Force a set of kernels: plain, neon, neon-i8mm, avx2, avx512, avx512-vnni, avx512-amx, ...");
  table.number("engine.gpu_mb", "--gpu-mb", config.engine.gpu_mb, 0, kAny,
               "MiB of a GPU to use, as if it had no more; 0: all that is free");
  table.text(
      "engine.cpu_experts", "--cpu-experts", config.engine.cpu_experts,
      "Beside a GPU: of the first so many layers, or of all, experts stay on the host and are computed "
      "there");
  table.number("engine.threads", "--threads", config.engine.threads, 0, 1024,
               "Threads to compute with, 0 for one a core");
  table.number(
      "engine.state_mb", "--state-mb", config.state_mb, 0, kAny,
      "MiB for sequences and snapshots, 0: half of the memory that is free; on a GPU all that weights leave");
  table.number("engine.context", "--ctx-size", config.context, 0, 100'000'000,
               "Tokens of prompt and reply, 0: what the model has; shared evenly by --parallel");
  table.number("engine.parallel", "--parallel", config.parallel, 0, 4096,
               "Sequences computed at once, 0: as many as there is memory for");
  table.text("engine.adapter_folder", "--adapter-folder", config.adapter_folder,
             "Folder whose adapters may be loaded by path while the server runs: POST /admin/adapters/load");
  table.seconds("engine.longest_step", "--longest-step", config.longest_step, 1, kDay,
                "Before a step of the device counts as a hang; large weights and slow devices have longer");

  table.text("chat.template", "--chat-template", config.chat_template,
             "In place of what models come with: " + protocol::template_names() +
                 ", a file, or the template itself");
  table.text("chat.reasoning", "--reasoning", config.reasoning,
             "Of chats that do not say it: on (or auto), off, or template, which leaves it to the template");
  table.wish("chat.reasoning_budget", "--reasoning-budget", config.reasoning_budget, 1e9,
             "Tokens after which a chat's reasoning is closed where the request does not say; 0: at once, "
             "-1: never");
  table.text(
      "chat.system_in_place", "--system-in-place", config.system_in_place,
      "System messages that are not first: auto (as they are where the template shows them so, else as the "
      "user's), user, or template, which leaves them to the template");
  table.toggle("chat.reattach_reasoning", "--reattach-reasoning", "true", http.reattach_reasoning,
               "Replies that come back without their reasoning get it back");
  table.wish("requests.max_tokens", "--n-predict", config.max_tokens, 1e8,
             "Tokens of a reply where the request does not say, -1: what the context leaves");
  table.wish("requests.temperature", "--temp", config.temperature, 100,
             "Where the request does not say, -1: as the model has it");
  table.wish("requests.seed", "--seed", config.seed, 1e19,
             "Where the request does not say, -1: another each time");
  table.toggle("llama.slots", "--no-slots", "false", config.slots, "GET /slots tells nothing");
  table.toggle("llama.verbose", "--verbose", "true", config.verbose,
               "Chats at /chat/completions are answered with their prompt beside them");

  table.toggle("cache.enabled", "--no-cache", "false", config.cache.enabled, "Compute every prompt anew");
  table.number("cache.budget_mb", "--cache-budget-mb", config.cache.budget_mb, 0, kAny,
               "MiB for the snapshots of a model, 0: all that sequences do not need");
  table.number("cache.max_entries", "--cache-max-entries", config.cache.max_entries, 0, kAny,
               "Snapshots kept of a model, 0: at most 10,000");
  table.seconds("cache.ttl", "--cache-ttl", config.cache.ttl, 0, 365 * kDay,
                "For a snapshot to live unused, 0: for ever");
  table.number("cache.recurrent_max_entries", "--cache-recurrent-max-entries",
               config.cache.recurrent_max_entries, 0, kAny,
               "The same for models with recurrent state, 0: no others");
  table.seconds("cache.recurrent_ttl", "--cache-recurrent-ttl", config.cache.recurrent_ttl, 0, 365 * kDay,
                "The same for models with recurrent state, 0: no other");
  table.number("cache.max_per_conversation", "--cache-max-per-conversation",
               config.cache.max_per_conversation, 0, kAny,
               "Snapshots that one conversation may hold, 0: any");
  table.number("cache.min_insert_tokens", "--cache-min-insert-tokens", config.cache.min_insert_tokens, 0,
               1 << 20, "A snapshot of fewer tokens is not kept, 0: from the model's sizes");
  table.number("cache.reply_checkpoint_tokens", "--cache-reply-checkpoint-tokens",
               config.cache.reply_checkpoint_tokens, 0, 1 << 20,
               "Tokens between two snapshots inside a long reply, 0: none");
  table.number("cache.max_in_replies", "--cache-max-in-replies", config.cache.max_in_replies, 1, 1024,
               "Of these, one conversation may hold");
  table.number("cache.choosy_percent", "--cache-choosy-percent", config.cache.choosy_percent, 1, 100,
               "Of the state memory, from where on fewer snapshots are kept, 100: never");
  table.number("cache.evict_percent", "--cache-evict-percent", config.cache.evict_percent, 1, 100,
               "Of the state memory, from where on snapshots go before their room is needed, 100: never");
  table.text("cache.policy", "--cache-policy", config.cache.policy, "What goes first: lru, forks or returns");
  table.number("cache.verify_percent", "--cache-verify-percent", config.cache.verify_percent, 0, 100,
               "Hits that are computed again in idle time and compared");
  table.toggle("cache.verify_inline", "--cache-verify-inline", "true", config.cache.verify_inline,
               "Compare before the answer ends; all hits, where no percentage is set");
  table.toggle("cache.idle_prefill", "--no-idle-prefill", "false", config.cache.idle_prefill,
               "Do not prefill the next turn's history in idle time");
  table.number("cache.host_mb", "--cache-host-mb", config.cache.host_mb, 0, kAny >> 20,
               "MiB of this machine's memory for snapshots beside those in the device's own, 0: none");
  table.text("cache.dir", "--cache-dir", config.cache.folder,
             "Folder for snapshots that outlast the server; several servers may share it");
  table.number("cache.disk_mb", "--cache-disk-mb", config.cache.disk_mb, 1, kAny >> 20,
               "MiB of that folder at most");
  table.seconds("cache.disk_ttl", "--cache-disk-ttl", config.cache.disk_ttl, 0, 3650 * kDay,
                "For a snapshot there to live unused, 0: for ever");
  table.toggle("cache.even_if_slower", "--cache-even-if-slower", "true", config.cache.even_if_slower,
               "Restore from below also what would be computed sooner");
  table.toggle("cache.other_builds", "--cache-other-builds", "true", config.cache.other_builds,
               "Restore from below also what another build or device computed, once it was found to have "
               "this one's bits");
  table.toggle("cache.pack", "--cache-pack", "true", config.cache.pack,
               "Write snapshots to folder and store packed: smaller, without loss, for work at both ends");
  table.text("cache.remote", "--cache-remote", config.cache.remote,
             "Store that servers share their snapshots in: redis://[user@]host[:port][/database]");
  table.seconds("cache.remote_ttl", "--cache-remote-ttl", config.cache.remote_ttl, 0, 3650 * kDay,
                "For a snapshot there to live unused, 0: for ever");
  table.hidden("cache.remote_password", "--cache-remote-password", config.cache.remote_password,
               "For that store; better a file, or REPRISE_CACHE_REMOTE_PASSWORD");
  table.text("cache.remote_password_file", "--cache-remote-password-file", config.cache.remote_password_file,
             "File with the password for that store");
  table.hidden("cache.secret", "--cache-secret", config.cache.secret,
               "What snapshots are sealed with, the same for all servers that share them; better a file");
  table.text("cache.secret_file", "--cache-secret-file", config.cache.secret_file,
             "File with that secret, made where it is not there; empty: ~/.local/state/reprise/cache.secret");
  table.number("queue.length", "--queue-length", config.queue.length, 1, 1'000'000,
               "Requests that may wait, over it 429");
  table.seconds("queue.wait", "--queue-wait", config.queue.wait, 0.1, kDay, "For a request to wait at most");
  table.text("log.level", "--log-level", config.log_level, "debug, info, warning, error or off");
  table.text("trace.file", "--trace", config.trace.file,
             "Record what happens into a file for Perfetto or chrome://tracing; SIGUSR2 stops and starts it");
  table.number("trace.size_mb", "--trace-mb", config.trace.size_mb, 1, 1'000'000, "Of a trace at most");
  table.toggle("trace.starts", "--trace-later", "false", config.trace.starts,
               "Do not record before SIGUSR2 or POST /admin/trace/start");
  return table.take();
}

std::string Setting::variable() const {
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

void load_config_environment(ServeConfig& config, const std::function<const char*(const char*)>& get) {
  for (const Setting& setting : serve_settings(config)) {
    const std::string variable = setting.variable();
    const char* value = get(variable.c_str());
    if (value == nullptr) continue;
    try {
      setting.set(value);
    } catch (const std::invalid_argument& error) {
      throw UsageError(variable + ": " + error.what());
    }
  }
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
  if (each.empty()) throw UsageError("a model's name: '" + names + "' has none");
  model.name = *each.begin();
  model.aliases.insert(model.aliases.end(), each.begin(),
                       each.end());  // all of them: it is a list of its names
}

std::string print_config(ServeConfig& config) {
  std::string out;
  std::string section;
  for (const Setting& setting : serve_settings(config)) {
    const std::size_t dot = setting.key.find('.');
    if (setting.key.substr(0, dot) != section) {
      section = setting.key.substr(0, dot);
      out += (out.empty() ? "[" : "\n[") + section + "]\n";
    }
    out += setting.key.substr(dot + 1) + " = " + setting.show() + "\n";
  }
  for (const ModelTable& model : config.models) {
    out += "\n[[models]]\nname = " + in_quotes(model.name) + "\npath = " + in_quotes(model.path) + "\n";
    if (!model.device.empty()) out += "device = " + in_quotes(model.device) + "\n";
    if (!model.chat_template.empty()) out += "chat_template = " + in_quotes(model.chat_template) + "\n";
    if (!model.aliases.empty()) out += "aliases = " + in_brackets(model.aliases) + "\n";
    if (model.kv_budget) out += "kv_budget = " + std::to_string(*model.kv_budget) + "\n";
    if (model.kv_reuse) out += std::string("kv_reuse = ") + (*model.kv_reuse ? "true" : "false") + "\n";
    if (!model.tags.empty()) out += "tags = " + in_brackets(model.tags) + "\n";
    for (const AdapterTable& adapter : model.adapters) {
      out += "[[models.adapters]]\nname = " + in_quotes(adapter.name) +
             "\npath = " + in_quotes(adapter.path) + "\n";
    }
  }
  out += print_key_tables(config.keys);
  return out;
}

}  // namespace reprise::tools
