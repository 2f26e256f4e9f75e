#include "tools/reprise/serve.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <iterator>
#include <optional>

#include "protocol/admin/admin_api.h"
#include "protocol/apis.h"
#include "protocol/http/http_server.h"
#include "protocol/http/log.h"

namespace reprise::tools {
namespace {

using namespace std::chrono_literals;
using protocol::HttpServer;
using protocol::log_line;
using protocol::LogLevel;

constexpr auto kDrainTime = 200ms;  // of the actors, when all connections have been closed
constexpr auto kStopTime = 500ms;

/// Those that end the server. SIGHUP is not among them where it was ignored from the start, as nohup has it: a signal
/// that is blocked is kept even if it is ignored.
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

/// Those that end the server, and the one that stops and starts tracing.
sigset_t all_signals() {
  sigset_t signals = stop_signals();
  sigaddset(&signals, SIGUSR2);
  return signals;
}

/// Watches the models that come with the server.
class ModelWatch {
 public:
  explicit ModelWatch(const protocol::Service& service) : service_(service) {}

  /// Tells now and then how far those are that take long to load.
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
  /// Until the first time that none is being loaded it is worth to look often.
  timespec pause() const {
    return settled_ ? timespec{.tv_sec = 5, .tv_nsec = 0} : timespec{.tv_sec = 0, .tv_nsec = kLookNs};
  }
  /// None of them could be loaded, ever: there is nothing to serve.
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

/// Returns with one that ends the server, or with 0 where there is nothing to serve. `sessions` may be null.
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

std::unique_ptr<traces::SessionControl> trace_sessions(const TraceConfig& config) {
  if (config.file.empty()) return nullptr;
  auto sessions = std::make_unique<traces::SessionControl>(
      config.file, config.size_mb << 20, [](const std::string& line) { log_line(LogLevel::kInfo, line); });
  if (config.later) return sessions;
  if (const auto started = sessions->start(); !started.ok()) throw UsageError("--trace: " + started.error());
  return sessions;
}

/// From now on SIGINT or SIGTERM ends the program.
void end_at_next_signal() {
  const auto end = [](int) { _exit(1); };
  std::signal(SIGINT, end);
  std::signal(SIGTERM, end);
  const sigset_t signals = stop_signals();
  std::signal(SIGHUP, SIG_IGN);  // a terminal that closes may send several
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

const char* meaning_of(int signal) {
  if (signal == SIGINT) return "interrupted";
  return signal == SIGHUP ? "hung up" : "terminated";
}

/// What the runtime would print to stderr, and wait there for its reader.
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

/// Each connection is a file descriptor, and shells often leave a program 1024.
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

/// A tenant sees its own prompts in the cache, an operator everybody's; without keys everybody is one.
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

}  // namespace

int serve(const ServeConfig& config, const ServiceFactory& make_service) {
  const sigset_t signals = all_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // for all threads to come
  std::signal(SIGPIPE, SIG_IGN);                  // a pipe without reader is an error of who writes to it
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
  if (auto* desk = dynamic_cast<protocol::ServerDesk*>(service.get())) {
    std::ranges::move(protocol::admin::cache_routes(*desk, scopes_of(config.http.keys)),
                      std::back_inserter(apis.routes));
    std::ranges::move(protocol::admin::model_routes(*desk), std::back_inserter(apis.routes));
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
  if (!closed || !report.complete) {  // a turn hangs, and what it uses must not be destroyed
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

}  // namespace reprise::tools
