// `reprise serve`: runs the engine with the configured models and the HTTP server.

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "actors/engine.h"
#include "protocol/admin/admin_api.h"
#include "protocol/apis.h"
#include "protocol/http/http_server.h"
#include "protocol/http/log.h"
#include "protocol/service.h"
#include "runtime/system.h"
#include "tools/reprise/commands.h"
#include "tools/reprise/engine_flags.h"
#include "tools/reprise/engine_setup.h"
#include "tools/reprise/serve_config.h"

namespace reprise::tools {

namespace {

using namespace std::chrono_literals;
using protocol::HttpServer;
using protocol::log_line;
using protocol::LogLevel;

// -- the engine

/// Exit status after the loss of a GPU, which a new process may recover; the systemd unit restarts on it.
constexpr int kDeviceLostExit = 75;

/// Starts the engine with the configured models and may return before they are loaded; see Service::health().
/// Throws std::exception if a model cannot be served.
std::unique_ptr<protocol::Service> make_service(runtime::System& system, const ServeConfig& config) {
  actors::EngineOptions options = engine_options(config);
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

// -- the HTTP server

constexpr auto kDrainTime = 200ms;  // for actors, after all connections are closed
constexpr auto kStopTime = 500ms;

/// Signals that end the server. Excludes SIGHUP if it was ignored at startup (nohup): a blocked signal
/// becomes pending even if it is ignored.
sigset_t stop_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  struct sigaction hang_up {};
  sigaction(SIGHUP, nullptr, &hang_up);
  if (hang_up.sa_handler != SIG_IGN) sigaddset(&signals, SIGHUP);
  return signals;
}

/// stop_signals() and SIGUSR2, which toggles tracing.
sigset_t all_signals() {
  sigset_t signals = stop_signals();
  sigaddset(&signals, SIGUSR2);
  return signals;
}

class ModelWatch {
 public:
  explicit ModelWatch(const protocol::Service& service) : service_(service) {}

  /// Logs the progress of slow loads now and then.
  void look() {
    std::size_t loading = 0;
    std::size_t failed = 0;
    const std::vector<protocol::ModelCard> cards = service_.models();
    for (const protocol::ModelCard& card : cards) {
      if (card.state == protocol::ModelCard::State::kFailed) ++failed;
      if (card.state != protocol::ModelCard::State::kLoading) continue;
      ++loading;
      if (looks_ % kLooksOfAReport != 0) continue;
      log_line(LogLevel::kInfo, "model '" + card.id +
                                    "' is being loaded: " + std::to_string(card.loaded_permille / 10) + " %");
    }
    ++looks_;
    settled_ = settled_ || loading == 0;
    was_useful_ = was_useful_ || failed + loading < cards.size();
    useless_ = !was_useful_ && !cards.empty() && failed == cards.size();
  }
  /// Returns the polling interval: short until the initial loads have finished.
  timespec pause() const {
    return settled_ ? timespec{.tv_sec = 5, .tv_nsec = 0} : timespec{.tv_sec = 0, .tv_nsec = kLookNs};
  }
  bool useless() const { return useless_; }

 private:
  static constexpr long kLookNs = 50'000'000;
  static constexpr std::uint64_t kLooksOfAReport = 100;
  const protocol::Service& service_;
  std::uint64_t looks_ = 1;
  bool settled_ = false;
  bool was_useful_ = false;
  bool useless_ = false;
};

/// Returns the signal that ends the server, or 0 if no model can be served. `sessions` may be null.
int wait_for_signal(const protocol::Service& service, traces::SessionControl* sessions) {
  const sigset_t signals = all_signals();
  ModelWatch watch(service);
  for (;;) {
    const timespec pause = watch.pause();
    const int signal = sigtimedwait(&signals, nullptr, &pause);
    if (signal < 0) {
      watch.look();
      if (watch.useless()) return 0;
      continue;
    }
    if (signal != SIGUSR2) return signal;
    if (sessions != nullptr) {
      sessions->toggle();
    } else {
      log_line(LogLevel::kWarning, "SIGUSR2 ignored: tracing needs --trace FILE");
    }
  }
}

constexpr std::uint64_t kMaxTraceBytes = 256 << 20;

std::unique_ptr<traces::SessionControl> trace_sessions(const TraceConfig& config) {
  if (config.file.empty()) return nullptr;
  auto sessions = std::make_unique<traces::SessionControl>(
      config.file, kMaxTraceBytes, [](const std::string& line) { log_line(LogLevel::kInfo, line); });
  if (config.later) return sessions;
  if (const auto started = sessions->start(); !started.ok()) throw UsageError("--trace: " + started.error());
  return sessions;
}

/// After this call SIGINT or SIGTERM ends the program immediately.
void end_at_next_signal() {
  const auto end = [](int) { _exit(1); };
  std::signal(SIGINT, end);
  std::signal(SIGTERM, end);
  const sigset_t signals = stop_signals();
  std::signal(SIGHUP, SIG_IGN);  // a closing terminal may send several
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

const char* meaning_of(int signal) {
  if (signal == SIGINT) return "interrupted";
  return signal == SIGHUP ? "hung up" : "terminated";
}

/// Logs failures instead of the runtime's default, stderr, which blocks if its reader does.
runtime::FailureHooks logged_failures() {
  const auto logs = [](const char* how) {
    return [how](runtime::ActorId who, const char* name, const std::string& why) {
      log_line(LogLevel::kError, std::string("actor ") + name + " #" + std::to_string(who) + how + why);
    };
  };
  return {.on_failure = logs(" failed: "), .on_escalation = logs(" failed and has no supervisor: ")};
}

bool is_loopback(const std::string& host) {
  return host.starts_with("127.") || host == "localhost" || host == "::1";
}

/// Raises the limit on file descriptors for the connections; many shells set 1024.
void raise_descriptor_limit(const protocol::HttpOptions& http) {
  constexpr rlim_t kOthers = 256;  // files, pipes, devices
  const rlim_t wanted = rlim_t{http.connections} + http.reserved_connections + kOthers;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < wanted) {
    log_line(LogLevel::kWarning, "http.max_connections: the system allows fewer open files (" +
                                     std::to_string(limit.rlim_cur) + ") than it needs; raise `ulimit -Hn`");
  }
}

/// A tenant sees its own prompts in the cache, an operator all; without keys, every client sees all.
protocol::admin::ScopeOf scopes_of(const protocol::KeyRing& keys) {
  return [&keys](std::string_view name) -> protocol::CacheScope {
    if (keys.empty()) return {.all = true};
    const protocol::Tenant* tenant = keys.tenant_named(name);
    if (tenant == nullptr) return {};
    return {.all = tenant->is_operator, .cache_owner = tenant->cache_owner};
  };
}

void warn_about(const ServeConfig& config) {
  for (const std::string& warning : config.warnings) log_line(LogLevel::kWarning, warning);
  if (!is_loopback(config.http.host) && config.http.keys.empty()) {
    log_line(LogLevel::kWarning, "no API keys: everyone who can reach this address may use the server");
  }
}

/// Serves until SIGINT, SIGTERM or SIGHUP. Returns the exit status: 0 after a signal, 1 if the address cannot
/// be listened on. A second SIGINT or SIGTERM ends the program at once. SIGHUP is ignored if it was at
/// startup (nohup), SIGPIPE always. Logs go to stderr, first "listening on http://HOST:PORT/" with the actual
/// port; the server continues if they are not read.
///
/// Call once per process, while the calling thread is the only one: it blocks these signals for all later
/// threads.
int serve(const ServeConfig& config) {
  const sigset_t signals = all_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // inherited by all later threads
  std::signal(SIGPIPE, SIG_IGN);                  // writes to a pipe without reader return an error instead
  if (config.log_format == "json") protocol::set_log_json();
  protocol::set_log_level(protocol::log_level_named(config.log_level).value_or(LogLevel::kInfo));

  raise_descriptor_limit(config.http);

  const std::unique_ptr<traces::SessionControl> sessions = trace_sessions(config.trace);
  protocol::IoLoop loop;
  runtime::System system({.hooks = logged_failures()});
  std::unique_ptr<protocol::Service> service = make_service(system, config);
  protocol::ApiTable apis = protocol::all_apis(
      {.slots = config.slots, .verbose = config.verbose, .names = service->named_snapshots()});
  std::ranges::move(protocol::admin::adapter_routes(), std::back_inserter(apis.routes));
  if (sessions != nullptr) {
    std::ranges::move(protocol::admin::trace_routes(*sessions), std::back_inserter(apis.routes));
  }
  if (auto* server_admin = dynamic_cast<protocol::ServerAdmin*>(service.get())) {
    std::ranges::move(protocol::admin::cache_routes(*server_admin, scopes_of(config.http.keys)),
                      std::back_inserter(apis.routes));
    std::ranges::move(protocol::admin::model_routes(*server_admin), std::back_inserter(apis.routes));
  }
  std::optional<HttpServer> server;
  try {
    server.emplace(system, loop, *service, config.http, std::move(apis));
  } catch (const protocol::ListenError& error) {
    log_line(LogLevel::kError, error.what());
    return 1;
  }
  log_line(LogLevel::kInfo, "listening on " + server->url());
  warn_about(config);

  const int signal = wait_for_signal(*service, sessions.get());
  end_at_next_signal();
  if (signal == 0) {
    log_line(LogLevel::kError, "stopping: no model could be loaded; the lines above say why");
  } else {
    log_line(LogLevel::kInfo, std::string("stopping: ") + meaning_of(signal));
  }
  const bool closed = server->stop(config.shutdown);
  if (closed) service.reset();
  const runtime::StopReport report = system.stop(kDrainTime, kStopTime);
  if (!closed || !report.complete) {  // a turn hangs; objects that it uses must not be destroyed
    for (const runtime::ActorInfo& stuck : report.stuck) {
      log_line(LogLevel::kWarning, "did not stop in time: " + stuck.name);
    }
    log_line(LogLevel::kInfo, "stopped");
    if (sessions != nullptr && sessions->state().records) sessions->finish();
    protocol::flush_log();
    _exit(signal == 0 ? 1 : 0);
  }
  log_line(LogLevel::kInfo, "stopped");
  return signal == 0 ? 1 : 0;
}

// -- the command line

constexpr const char* kCommonGroup = "Common options";

/// --help explains common options and names the others; --help-all explains all.
class ServeFormatter : public CLI::Formatter {
 public:
  ServeFormatter() { column_width(34); }

  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
  /// Returns " PORT [8080]": placeholder and default.
  std::string make_option_opts(const CLI::Option* option) const override;
};

constexpr std::size_t kColumns = 100;

std::string in_lines(const std::vector<const CLI::Option*>& options) {
  std::vector<std::string> names;
  for (const CLI::Option* option : options) {
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  std::string out;
  std::string line;
  for (const std::string& name : names) {
    if (!line.empty() && line.size() + 1 + name.size() > kColumns) {
      out += line + "\n";
      line.clear();
    }
    line += (line.empty() ? "  " : " ") + name;
  }
  return out + line + "\n";
}

std::string ServeFormatter::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const {
  if (mode != CLI::AppFormatMode::Normal) return CLI::Formatter::make_help(app, std::move(name), mode);
  const auto is_common = [](const CLI::Option* option) { return option->get_group() == kCommonGroup; };
  const auto is_further = [&](const CLI::Option* option) {
    return !is_common(option) && option->nonpositional() && !option->get_group().empty();
  };
  return make_description(app) + make_usage(app, std::move(name)) +
         make_group(kCommonGroup, false, app->get_options(is_common)) +
         "\nFurther options, explained by --help-all:\n" + in_lines(app->get_options(is_further)) + "\n" +
         make_footer(app);
}

std::string ServeFormatter::make_option_opts(const CLI::Option* option) const {
  std::string out;
  if (option->get_type_size() == 0) return out;
  if (!option->get_type_name().empty()) out += " " + option->get_type_name();
  if (!option->get_default_str().empty()) out += " [" + option->get_default_str() + "]";
  if (!option->get_envname().empty()) out += " (" + option->get_envname() + ")";
  return out;
}

class ServeCommand {
 public:
  explicit ServeCommand(CLI::App& app);
  ServeCommand(const ServeCommand&) = delete;
  ServeCommand& operator=(const ServeCommand&) = delete;

  CLI::App* app() const { return command_; }
  /// Throws UsageError.
  int run();

 private:
  /// Adds flags that only warn.
  void add_removed(const RemovedSetting& removed);
  void resolve();

  CLI::App* command_;
  ServeConfig config_;
  const std::vector<Setting> settings_;
  std::map<std::string, std::string> texts_;  // flag values by key
  std::string file_;
  std::string model_;
  std::string model_name_;
  std::string tags_;
  bool print_ = false;
};

ServeCommand::ServeCommand(CLI::App& app)
    : command_(app.add_subcommand("serve", "Run the HTTP server until SIGINT, SIGTERM or SIGHUP")),
      settings_(serve_settings(config_)) {
  command_->formatter(std::make_shared<ServeFormatter>());
  command_->set_help_all_flag("--help-all", "Explain all options");
  command_->footer(
      "Every option is also a setting of the file that --config names, and a variable: --port is http.port "
      "and REPRISE_HTTP_PORT. --print-config lists them all. REPRISE_API_KEYS holds keys.");
  const auto common = [](CLI::Option* option) { return option->group(kCommonGroup); };
  common(command_->add_option("--model,-m", model_,
                              "Model to serve: a Hugging Face folder, a GGUF file, or hf:OWNER/MODEL[:FILE]; "
                              "default: the built-in model"))
      ->type_name("MODEL")
      ->envname("REPRISE_MODEL");
  common(command_->add_option(
             "--model-name,--alias,-a", model_name_,
             "Name of the model in requests, instead of the file's; separate several by commas"))
      ->type_name("NAMES");
  command_->add_option("--tags", tags_, "Labels of the model for people, separated by commas")
      ->type_name("WORDS");
  common(command_->add_option("--config", file_, "TOML file with settings"))
      ->type_name("FILE")
      ->envname("REPRISE_CONFIG");
  common(command_->add_flag("--print-config", print_,
                            "Print all settings with explanations, in the form of that file, and exit"));
  for (const Setting& setting : settings_) {
    const std::string names = setting.flag + setting.further_flags;
    CLI::Option* option = nullptr;
    if (setting.kind == Setting::Kind::kSwitch) {
      const bool turns_off = setting.flag_value == "false";
      option = command_->add_flag_callback(
          names, [this, &setting] { texts_[setting.key] = setting.flag_value; },
          turns_off ? "Turn off: " + setting.help : setting.help);
    } else {
      option = command_->add_option_function<std::string>(
          names, [this, &setting](const std::string& text) { texts_[setting.key] = text; },
          setting.description());
      option->type_name(setting.value);
      if (const std::string shown = setting.show(); shown != "\"\"" && shown != "[]")
        option->default_str(shown);
    }
    option->group(setting.common ? kCommonGroup : setting.group);
  }
  for (const RemovedSetting& removed : removed_settings()) add_removed(removed);
}

// Options without a group are hidden from help, manual and suggestions.
void ServeCommand::add_removed(const RemovedSetting& removed) {
  std::istringstream flags{std::string(removed.flags)};
  for (std::string flag; std::getline(flags, flag, ',');) {
    const auto warn = [this, &removed, flag] { config_.warnings.push_back(removed.warning(flag)); };
    CLI::Option* option = removed.has_value ? command_->add_option_function<std::string>(
                                                  flag, [warn](const std::string&) { warn(); })
                                            : command_->add_flag_callback(flag, warn);
    option->group("");
  }
}

void ServeCommand::resolve() {
  if (!file_.empty()) load_config_file(config_, file_);
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  load_config_environment(config_, environment);
  for (const Setting& setting : settings_) {
    if (const auto given = texts_.find(setting.key); given != texts_.end()) {
      set_from_flag(setting, given->second);
    }
  }
  if (!model_.empty()) config_.models = {model_at(model_)};
  if (!model_name_.empty()) {
    if (config_.models.size() != 1) throw UsageError("--model-name: goes with one model");
    take_names(config_.models[0], model_name_);
  }
  if (!tags_.empty()) {
    if (config_.models.size() != 1) throw UsageError("--tags: goes with one model");
    std::istringstream words(tags_);
    for (std::string word; std::getline(words, word, ',');) config_.models[0].tags.push_back(word);
  }
  // Larger bodies imply longer prompts and more data in flight.
  config_.http.bodies_bytes = 8 * config_.http.body_bytes;
  config_.http.request.prompt_bytes = config_.http.body_bytes;
  if (config_.reasoning != "template" && config_.reasoning != "on" && config_.reasoning != "off" &&
      config_.reasoning != "auto") {
    throw UsageError("chat.reasoning: '" + config_.reasoning + "' is not one of on, auto, off, template");
  }
  if (config_.log_format != "text" && config_.log_format != "json") {
    throw UsageError("log.format: '" + config_.log_format + "' is not one of text, json");
  }
  if (!protocol::log_level_named(config_.log_level)) {
    throw UsageError("log.level: '" + config_.log_level + "' is not one of debug, info, warning, error, off");
  }
}

int ServeCommand::run() {
  resolve();
  if (print_) {
    std::fputs(print_config(config_).c_str(), stdout);
    for (const std::string& warning : config_.warnings)
      std::fprintf(stderr, "reprise: %s\n", warning.c_str());
    return 0;
  }
  check_device(config_.engine.device);
  std::vector<std::string> devices;
  for (const ModelTable& model : config_.models) {
    if (!model.device.empty()) check_device(model.device);
    devices.push_back(model.device.empty() ? config_.engine.device : model.device);
  }
  if (devices.empty()) devices.push_back(config_.engine.device);
  check_cpu_experts(config_.engine, devices);
  static_cast<void>(compute_options(config_.engine));
  load_keys(config_, std::getenv("REPRISE_API_KEYS"));
  return serve(config_);
}

}  // namespace

Command add_serve(CLI::App& program) {
  const auto command = std::make_shared<ServeCommand>(program);
  return {command->app(), [command] { return command->run(); }};
}

}  // namespace reprise::tools
