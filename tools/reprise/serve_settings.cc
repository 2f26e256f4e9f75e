// The table of settings of tools/reprise/serve_config.h: names, meanings and ranges.
#include <charconv>
#include <cmath>
#include <limits>
#include <sstream>
#include <stdexcept>

#include "base/json_text.h"
#include "protocol/chat/named_templates.h"
#include "tools/reprise/serve_config.h"

namespace reprise::tools {
namespace {

using std::chrono::milliseconds;

[[noreturn]] void bad_value(const std::string& text, const std::string& wanted) {
  throw std::invalid_argument("'" + text + "' is not " + wanted);
}

std::string range_of(std::uint64_t min, std::uint64_t max, const std::string& unit) {
  if (max >= std::uint64_t{1} << 40) return unit + ", from " + std::to_string(min);
  return unit + ", " + std::to_string(min) + " to " + std::to_string(max);
}

/// Builds the rows. `flags`: comma-separated names, the main one first; `value`: placeholder in the help.
class Table {
 public:
  void group(std::string name) { group_ = std::move(name); }

  void text(std::string key, std::string flags, std::string value, std::string& target, std::string help) {
    add({.key = std::move(key),
         .flag = std::move(flags),
         .value = std::move(value),
         .help = std::move(help),
         .kind = Setting::Kind::kText,
         .set = [&target](const std::string& given) { target = given; },
         .show = [&target] { return toml_string(target); }});
  }

  void hidden(std::string key, std::string flags, std::string& target, std::string help) {
    text(std::move(key), std::move(flags), "SECRET", target, std::move(help));
    rows_.back().show = [] { return toml_string({}); };
  }

  /// `unit`: factor from the given value to the target's unit.
  template <class T>
  void number(std::string key, std::string flags, std::string value, T& target, std::uint64_t min,
              std::uint64_t max, std::string help, std::uint64_t unit = 1) {
    const std::string range =
        range_of(min, max, value == "N" || value == "PORT" ? "integer" : unit_of(value));
    add({.key = std::move(key),
         .flag = std::move(flags),
         .value = std::move(value),
         .help = std::move(help),
         .range = range,
         .kind = Setting::Kind::kNumber,
         .set =
             [&target, min, max, unit](const std::string& given) {
               std::uint64_t number = 0;
               const char* end = given.data() + given.size();
               const auto [stopped, error] = std::from_chars(given.data(), end, number);
               if (error != std::errc() || stopped != end || number < min || number > max) {
                 bad_value(given,
                           "a whole number from " + std::to_string(min) + " to " + std::to_string(max));
               }
               target = static_cast<T>(number * unit);
             },
         .show = [&target, unit] { return std::to_string(target / unit); }});
  }

  /// A number that may be unset, given as -1: the model or request decides.
  template <class T>
  void optional(std::string key, std::string flags, std::string value, std::optional<T>& target, double max,
                std::string help) {
    std::ostringstream bound;
    bound << std::fixed;
    bound.precision(0);
    bound << max;
    const std::string limits = "-1, or 0 to " + bound.str();
    add({.key = std::move(key),
         .flag = std::move(flags),
         .value = std::move(value),
         .help = std::move(help),
         .range = limits,
         .kind = Setting::Kind::kNumber,
         .set =
             [&target, max, limits](const std::string& given) {
               const char* end = given.data() + given.size();
               T number{};
               const auto [stopped, error] = std::from_chars(given.data(), end, number);
               const bool good = error == std::errc() && stopped == end && static_cast<double>(number) <= max;
               if (given == "-1") {
                 target.reset();
               } else if (good && number >= T{}) {
                 target = number;
               } else {
                 bad_value(given, limits);
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

  template <class Duration>
  void seconds(std::string key, std::string flags, Duration& target, double min, double max,
               std::string help) {
    std::ostringstream limits;
    limits << std::fixed;
    limits.precision(min < 1 && min > 0 ? 1 : 0);
    limits << min << " to ";
    limits.precision(0);
    limits << max;
    add({.key = std::move(key),
         .flag = std::move(flags),
         .value = "SECONDS",
         .help = std::move(help),
         .range = "seconds, " + limits.str(),
         .kind = Setting::Kind::kNumber,
         .set =
             [&target, min, max, wanted = limits.str()](const std::string& given) {
               double number = 0;
               const char* end = given.data() + given.size();
               const auto [stopped, error] = std::from_chars(given.data(), end, number);
               if (error != std::errc() || stopped != end || !(number >= min && number <= max)) {
                 bad_value(given, "a number of seconds from " + wanted);
               }
               target = milliseconds(std::llround(number * 1000));
             },
         .show =
             [&target] {
               std::string out;
               append_json_double(out, std::chrono::duration<double>(target).count(), false);
               return out;
             }});
  }

  void toggle(std::string key, std::string flags, std::string flag_value, bool& target, std::string help) {
    add({.key = std::move(key),
         .flag = std::move(flags),
         .flag_value = std::move(flag_value),
         .help = std::move(help),
         .range = "true or false",
         .kind = Setting::Kind::kSwitch,
         .set =
             [&target](const std::string& given) {
               if (given != "true" && given != "false") bad_value(given, "true or false");
               target = given == "true";
             },
         .show = [&target] { return std::string(target ? "true" : "false"); }});
  }

  /// A list of texts, comma-separated in a flag or variable.
  void list(std::string key, std::string flags, std::string value, std::vector<std::string>& target,
            std::string help) {
    add({.key = std::move(key),
         .flag = std::move(flags),
         .value = std::move(value),
         .help = std::move(help) + "; separate several by commas",
         .kind = Setting::Kind::kList,
         .set =
             [&target](const std::string& given) {
               target.clear();
               std::istringstream items(given);
               for (std::string item; std::getline(items, item, ',');) {
                 if (!item.empty()) target.push_back(item);
               }
             },
         .show = [&target] { return toml_strings(target); }});
  }

  void common() { rows_.back().common = true; }

  std::vector<Setting> take() { return std::move(rows_); }

 private:
  static std::string unit_of(const std::string& value) {
    if (value == "MIB") return "MiB";
    return value == "PERCENT" ? "%" : value == "TOKENS" ? "tokens" : "bytes";
  }
  void add(Setting setting) {
    const std::size_t comma = setting.flag.find(',');
    if (comma != std::string::npos) setting.further_flags = setting.flag.substr(comma);
    setting.flag.resize(std::min(comma, setting.flag.size()));
    setting.group = group_;
    rows_.push_back(std::move(setting));
  }

  std::string group_;
  std::vector<Setting> rows_;
};

constexpr std::uint64_t kMiB = 1u << 20;
constexpr double kDay = 86'400;
constexpr std::uint64_t kAny = std::numeric_limits<std::int64_t>::max();

void add_http(Table& table, ServeConfig& config) {
  protocol::HttpOptions& http = config.http;
  table.group("HTTP server");
  table.text("http.host", "--host", "ADDRESS", http.host,
             "Address to listen on; 0.0.0.0: all of this machine's");
  table.common();
  table.number("http.port", "--port", "PORT", http.port, 0, 65535, "Port to listen on; 0: any that is free");
  table.common();
  table.list("http.cors_origins", "--cors-origins", "ORIGINS", http.cors_origins,
             "Origins whose web pages may call the server; localhost: those of this machine, *: all");
  table.list(
      "http.allowed_hosts", "--allowed-hosts", "NAMES", http.allowed_hosts,
      "Names that a request's Host header may have besides addresses, localhost and --host; *: all. Checked "
      "only without API keys");
  table.toggle("http.ui", "--no-ui,--no-webui", "false", http.front_page, "Serve the chat page at /");
  table.number("http.max_connections", "--max-connections", "N", http.connections, 1, 1'000'000,
               "Maximum number of open connections; at the limit an idle one is closed for a new one");
  table.number("http.max_requests", "--max-requests", "N", http.requests, 1, 1'000'000,
               "Maximum number of requests answered at once, counting each choice of each prompt; more get "
               "status 429");
  table.number("http.max_body_bytes", "--max-body-bytes", "BYTES", http.body_bytes, 1024, 1024 * kMiB,
               "Maximum size of a request's body");
  table.seconds("http.idle_timeout", "--idle-timeout", http.idle_timeout, 0.1, kDay,
                "Time after which a connection without a request is closed");
  table.seconds("http.shutdown_timeout", "--shutdown-timeout", config.shutdown, 0, kDay,
                "Time that running answers get to end after a stop signal");

  table.group("API keys");
  table.text("auth.api_key_file", "--api-key-file", "FILE", config.key_file,
             "File with one API key per line; without keys everyone may use the server");
  table.common();
  table.hidden("auth.api_key", "--api-key", config.api_keys,
               "API keys, separated by commas; process lists show them, but not those of --api-key-file or "
               "REPRISE_API_KEYS");
  table.toggle("auth.share_tenant", "--share-tenant", "true", config.share_tenant,
               "Share cached prompts among all API keys; otherwise each key restores only its own");
}

void add_engine(Table& table, ServeConfig& config) {
  table.group("Computing");
  table.text("engine.device", "--device", "DEVICE", config.engine.device,
             "Where to compute: cpu, cuda:N, auto (a GPU if there is one), or cpu-grid for tests");
  table.common();
  table.text("engine.compute", "--compute", "NAME", config.engine.compute,
             "Arithmetic: auto (the fastest), precise, bf16, or f32 (the reference, on a CPU)");
  table.text("engine.kv_dtype", "--kv-dtype", "NAME", config.engine.kv_dtype,
             "Type of keys and values in memory: auto, f32, bf16, int8 or int4");
  table.common();
  table.number("engine.kv_budget", "--kv-budget", "TOKENS", config.kv.tokens, 0, 100'000'000,
               "Prompt tokens whose keys and values are kept once a prompt is computed, chosen by attention; "
               "0: all. kv_budget of a request, or else of [[models]], overrides it");
  table.text("engine.isa", "--isa", "NAME", config.engine.isa,
             "CPU kernels to use, for tests: plain, neon, neon-dotprod, neon-i8mm, avx2, avx2-vnni, avx512, "
             "avx512-vnni, avx512-amx; empty: the best");
  table.number("engine.gpu_mb", "--gpu-mb", "MIB", config.engine.gpu_mb, 0, kAny,
               "Memory of a GPU to use; 0: all that is free");
  table.common();
  table.text(
      "engine.cpu_experts", "--cpu-experts", "N", config.engine.cpu_experts,
      "With a GPU: experts of the first N layers, or of all, stay in the host's memory and are computed by "
      "the CPU");
  table.number("engine.threads", "--threads,-t", "N", config.engine.threads, 0, 1024,
               "CPU threads to compute with; 0: one per core");
  table.common();
  table.number(
      "engine.state_mb", "--state-mb", "MIB", config.options.worker.state_bytes, 0, kAny >> 20,
      "Memory for sequences and snapshots; 0: half of what is free, or on a GPU all that the weights leave",
      kMiB);
  table.common();
  table.number("engine.context", "--context,--ctx-size,-c", "TOKENS", config.context, 0, 100'000'000,
               "Maximum length of prompt and reply together, divided by --parallel; 0: the model's");
  table.common();
  table.number("engine.parallel", "--parallel", "N", config.parallel, 0, 4096,
               "Maximum number of sequences computed at once; 0: as many as memory holds");
  table.common();
  table.list("engine.aliases", "--aliases", "NAMES", config.aliases,
             "Further names of the first model in every API, such as those of other providers' models; * "
             "matches any characters but a colon");
  table.text("engine.adapter_folder", "--adapter-folder", "FOLDER", config.options.adapter_folder,
             "Folder of adapters that POST /admin/adapters/load may load; empty: none");
}

void add_defaults(Table& table, ServeConfig& config) {
  table.group("Chats and defaults of requests");
  table.text("chat.template", "--chat-template", "TEMPLATE", config.chat_template,
             "Chat template instead of the model's: " + protocol::template_names() +
                 ", a file, or the template's text");
  table.text("chat.reasoning", "--reasoning", "WHEN", config.reasoning,
             "Reasoning in chats whose request does not set it: on (or auto), off, or template (the "
             "template's default)");
  table.common();
  table.optional("chat.reasoning_budget", "--reasoning-budget", "TOKENS",
                 config.options.requests.reasoning_budget, 1e9,
                 "Maximum length of the reasoning if the request sets none; 0: no reasoning, -1: no limit");
  table.text("chat.system_in_place", "--system-in-place", "HOW", config.system_in_place,
             "How to render system messages after the first: auto (in place if the template shows them, else "
             "as user messages), user (as user messages), or template (left to the template)");
  table.optional("requests.max_tokens", "--max-tokens,--n-predict,--predict,-n", "TOKENS",
                 config.options.requests.max_tokens, 1e8,
                 "Maximum length of a reply if the request sets none; -1: what the context leaves");
  table.common();
  table.optional("requests.temperature", "--temperature,--temp", "T",
                 config.options.requests.sampling.temperature, 100,
                 "Sampling temperature if the request sets none; 0: greedy, -1: the model's");
  table.optional("requests.seed", "--seed,-s", "N", config.options.requests.sampling.seed, 1e19,
                 "Sampling seed if the request sets none; -1: a new one for each request");
  table.common();

  table.group("llama-server's API");
  table.toggle("llama.slots", "--no-slots", "false", config.slots, "Answer GET /slots");
  table.toggle("llama.verbose", "--verbose", "true", config.verbose,
               "Show the prompt in answers of /chat/completions");
}

void add_cache(Table& table, ServeConfig& config) {
  CacheConfig& cache = config.cache;
  actors::EngineOptions& options = config.options;
  table.group("Prefix cache in memory");
  table.toggle("cache.enabled", "--no-cache", "false", options.cache,
               "Restore the part of a prompt that was computed before instead of computing it");
  table.number("cache.budget_mb", "--cache-budget-mb", "MIB", options.registry.budget_bytes, 0, kAny >> 20,
               "Maximum memory for the snapshots of a model; 0: all that sequences do not need", kMiB);
  table.number("cache.max_entries", "--cache-max-entries", "N", cache.max_entries, 0, kAny,
               "Maximum number of snapshots of a model; 0: 10000");
  table.seconds("cache.ttl", "--cache-ttl", options.registry.cache.ttl, 0, 365 * kDay,
                "Time after which an unused snapshot in memory is evicted; 0: never");
  table.number("cache.recurrent_max_entries", "--cache-recurrent-max-entries", "N",
               options.registry.recurrent_max_entries, 0, kAny,
               "Maximum number of snapshots of a model with recurrent state; 0: as --cache-max-entries");
  table.seconds(
      "cache.recurrent_ttl", "--cache-recurrent-ttl", options.registry.recurrent_ttl, 0, 365 * kDay,
      "Time after which an unused snapshot of a model with recurrent state is evicted; 0: as --cache-ttl");
  table.number("cache.verify_percent", "--cache-verify-percent", "PERCENT", cache.verify_percent, 0, 100,
               "Share of restored prompts that are recomputed in idle time and compared");
  table.toggle("cache.verify_inline", "--cache-verify-inline", "true", options.requests.verify_inline,
               "Compare restored prompts before the answer ends; all of them without --cache-verify-percent");
  table.toggle("cache.idle_prefill", "--no-idle-prefill", "false", options.requests.prefill_history,
               "Compute the next turn's history in idle time");

  table.group("Prefix cache outside of the device");
  table.number("cache.host_mb", "--cache-host-mb", "MIB", options.host.max_bytes, 0, kAny >> 20,
               "Host memory for snapshots that do not fit on the device; 0: none", kMiB);
  table.text("cache.dir", "--cache-dir", "FOLDER", cache.folder,
             "Folder for snapshots that are kept across restarts; servers may share it; empty: none");
  table.common();
  table.number("cache.disk_mb", "--cache-disk-mb", "MIB", cache.disk_mb, 1, kAny >> 20,
               "Maximum size of the --cache-dir folder");
  table.common();
  table.seconds("cache.disk_ttl", "--cache-disk-ttl", cache.disk_ttl, 0, 3650 * kDay,
                "Time after which an unused snapshot in --cache-dir is removed; 0: never");
  table.toggle("cache.even_if_slower", "--cache-even-if-slower", "true", cache.even_if_slower,
               "Restore from host memory, folder or store even if computing would be faster");
  table.text("cache.remote", "--cache-remote", "URL", cache.remote,
             "Store that servers share snapshots in: redis://[user@]host[:port][/database]; empty: none");
  table.seconds("cache.remote_ttl", "--cache-remote-ttl", cache.remote_ttl, 0, 3650 * kDay,
                "Time after which an unused snapshot in --cache-remote is removed; 0: never");
  table.text("cache.remote_password_file", "--cache-remote-password-file", "FILE", cache.remote_password_file,
             "File with the password of --cache-remote");
  table.text("cache.secret_file", "--cache-secret-file", "FILE", cache.secret_file,
             "File with the secret that encrypts snapshots, made if missing; empty: reprise/cache.secret in "
             "$XDG_STATE_HOME or ~/.local/state");
}

void add_operation(Table& table, ServeConfig& config) {
  table.group("Queue, log and traces");
  table.number("queue.length", "--queue-length", "N", config.options.worker.max_waiting, 1, 1'000'000,
               "Maximum number of requests that wait for memory; more get status 429");
  table.seconds("queue.wait", "--queue-wait", config.options.requests.max_wait, 0.1, kDay,
                "Maximum time that a request waits for memory");
  table.text("log.level", "--log-level", "LEVEL", config.log_level,
             "Least severe lines to log: debug, info, warning, error or off");
  table.common();
  table.text("log.format", "--log-format", "FORMAT", config.log_format,
             "Form of log lines on stderr: text, or json (one object a line)");
  table.text("trace.file", "--trace-file,--trace", "FILE", config.trace.file,
             "Record a trace for Perfetto or chrome://tracing; SIGUSR2 stops and starts it; empty: none");
  table.toggle("trace.later", "--trace-later", "true", config.trace.later,
               "Start the trace at SIGUSR2 or POST /admin/trace/start, not at startup");
}

// Sorted by key.
constexpr RemovedSetting kRemoved[] = {
    {"cache.choosy_percent", "--cache-choosy-percent", true,
     "fewer snapshots are taken from 70 % of the memory on"},
    {"cache.evict_percent", "--cache-evict-percent", true,
     "snapshots are evicted ahead of need by what recent requests needed"},
    {"cache.max_in_replies", "--cache-max-in-replies", true, "one conversation keeps at most 8"},
    {"cache.max_per_conversation", "--cache-max-per-conversation", true, "one conversation keeps at most 64"},
    {"cache.min_insert_tokens", "--cache-min-insert-tokens", true, "it follows from the model's sizes"},
    {"cache.other_builds", "--cache-other-builds", false,
     "only snapshots of the same build and device are restored"},
    {"cache.pack", "--cache-pack", false,
     "snapshots are compressed in a store that servers share, and not in a folder"},
    {"cache.policy", "--cache-policy", true, "the policy is returns; reprise replay compares it with others"},
    {"cache.remote_password", "--cache-remote-password", true,
     "cache.remote_password_file names a file that holds it"},
    {"cache.reply_checkpoint_tokens", "--cache-reply-checkpoint-tokens", true,
     "a long reply has a checkpoint every 256 tokens"},
    {"cache.secret", "--cache-secret", true, "cache.secret_file names a file that holds it"},
    {"chat.reattach_reasoning", "--reattach-reasoning", false,
     "a turn with tool calls gets its reasoning back; other replies are rendered as the client sends them"},
    {"engine.kv_pool_width", "--kv-pool-width", true, "scores of 7 neighbors are combined"},
    {"engine.kv_pooling", "--kv-pooling", true, "the largest score of 7 neighbors counts"},
    {"engine.kv_reuse", "--kv-reuse", false, "only exact prefixes are reused"},
    {"engine.kv_sinks", "--kv-sinks", true, "the first 4 tokens are kept"},
    {"engine.kv_window", "--kv-window", true, "the last 32 tokens are kept and choose the others"},
    {"engine.longest_step", "--longest-step", true,
     "a step hangs after 120 s; large weights and slow devices get more"},
    {"http.body_timeout", "--body-timeout", true, "a body has 30 s, and one second more for each 64 KiB"},
    {"http.body_total_timeout", "--body-total-timeout", true, "a body has at most 120 s"},
    {"http.header_timeout", "--header-timeout", true, "headers have 15 s"},
    {"http.max_bodies_bytes", "--max-bodies-bytes", true,
     "all bodies together may have eight times http.max_body_bytes"},
    {"http.max_header_bytes", "--max-header-bytes", true, "headers may have 16 KiB"},
    {"http.reserved_connections", "--reserved-connections", true,
     "16 connections are kept for health and metrics"},
    {"http.sse_keep_alive", "--sse-keep-alive", true, "a silent stream has a comment every 10 s"},
    {"http.write_timeout", "--write-timeout", true, "a client that takes nothing for 60 s is disconnected"},
    {"limits.max_choices", "--max-choices", true, "a request may have 32 choices"},
    {"limits.max_messages", "--max-messages", true, "http.max_body_bytes bounds a request"},
    {"limits.max_nesting", "--max-nesting", true, "a body may be nested 64 deep"},
    {"limits.max_prompt_bytes", "--max-prompt-bytes", true, "http.max_body_bytes bounds a request"},
    {"limits.max_prompt_tokens", "--max-prompt-tokens", true, "engine.context bounds a prompt"},
    {"limits.max_stop_bytes", "--max-stop-bytes", true, "a stop string may have 1024 bytes"},
    {"limits.max_stop_strings", "--max-stop-strings", true, "a request may have 16 stop strings"},
    {"limits.max_tools", "--max-tools", true, "http.max_body_bytes bounds a request"},
    {"models.kv_reuse", "", false, "only exact prefixes are reused"},
    {"trace.size_mb", "--trace-size-mb,--trace-mb", true, "a trace ends at 256 MiB"},
};

}  // namespace

std::string RemovedSetting::warning(const std::string& name) const {
  return name + " was removed: " + std::string(successor);
}

std::span<const RemovedSetting> removed_settings() {
  return kRemoved;
}

std::vector<Setting> serve_settings(ServeConfig& config) {
  Table table;
  add_http(table, config);
  add_engine(table, config);
  add_defaults(table, config);
  add_cache(table, config);
  add_operation(table, config);
  return table.take();
}

}  // namespace reprise::tools
