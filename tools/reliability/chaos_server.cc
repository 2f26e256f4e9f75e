// The engine with its HTTP server, with faults, crashes, scarce memory and reloads on command. Driven by
// tools/chaos; not installed.
//
//   chaos_server --model NAME=PATH [--model NAME=PATH] [--key "SECRET TENANT"]...
//
// Prints {"port": N} when all models are loaded. Then reads one command per line from stdin, and answers each
// with a line of JSON on stdout:
//   fault step|oom|nan|damage | fault hang MS      in the next step, or in all snapshots
//   crash texts|registries|device|supervisor       a handler of that actor throws
//   scarce N                                       refuse one in N blocks of state memory; 0: none
//   heap N [SEED]                                refuse one in N large allocations of the heap; 0: none
//   unload NAME | load NAME
//   state                                          print the resources held
// Exits at the end of stdin.
//
// Threading: commands run on the main thread, which runs no actor.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>

#include "actors/engine.h"
#include "actors/model_supervisor.h"
#include "gpu/state/scarce_memory.h"
#include "protocol/apis.h"
#include "protocol/http/http_server.h"
#include "protocol/http/log.h"
#include "runtime/system.h"
#include "tools/reliability/faults.h"
#include "tools/reliability/scarce_heap.h"

namespace reprise::tools {
namespace {

using namespace std::chrono_literals;

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count - 1;  // without the iterator's own descriptor
}

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  file >> total >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

std::size_t threads() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) ++count;
  return count;
}

class ChaosServer {
 public:
  ChaosServer(runtime::System& system, actors::EngineOptions options, gpu::ScarceMemory& memory,
              std::shared_ptr<actors::Faults> faults)
      : system_(system),
        specs_(options.models),
        memory_(memory),
        faults_(std::move(faults)),
        engine_(system, std::move(options)) {}

  actors::Engine& engine() { return engine_; }

  Json obey(const std::string& line) {
    std::istringstream words(line);
    std::string command;
    std::string what;
    std::uint32_t number = 0;
    words >> command >> what >> number;
    if (command == "state") return state();
    if (command == "fault") return fault(what, number);
    if (command == "crash") return crash(what);
    if (command == "scarce") {
      memory_.refuse_one_in(static_cast<std::uint32_t>(std::stoul(what)));
      return Json{{"ok", true}};
    }
    if (command == "heap") {
      scarce_heap::refuse_one_in(static_cast<std::uint32_t>(std::stoul(what)), number);
      return Json{{"ok", true}};
    }
    if (command == "unload") return Json{{"ok", engine_.unload(what, 60s)}};
    if (command == "load") {
      for (const actors::ModelSpec& spec : specs_) {
        if (spec.name == what) return Json{{"ok", engine_.load(spec, 60s).ok()}};
      }
    }
    return Json{{"error", "what is '" + line + "'?"}};
  }

 private:
  Json fault(const std::string& what, std::uint32_t number) {
    using Kind = actors::Fault::Kind;
    static const std::map<std::string, Kind> kinds{{"step", Kind::kFailedStep},
                                                   {"oom", Kind::kOutOfMemory},
                                                   {"nan", Kind::kNanState},
                                                   {"damage", Kind::kDamage},
                                                   {"hang", Kind::kHang}};
    const auto kind = kinds.find(what);
    if (kind == kinds.end()) return Json{{"error", "no such fault"}};
    faults_->inject({.kind = kind->second, .hang_ms = number});
    return Json{{"ok", true}};
  }

  Json crash(const std::string& what) {
    using Crash = std::function<void(const runtime::System&)>;
    static const std::map<std::string, Crash> crashes{
        {"texts", actors::crash_texts},
        {"registries", [](const auto& system) { actors::crash_all<actors::PrefixRegistry>(system); }},
        {"device", [](const auto& system) { actors::crash_all<actors::DeviceWorker>(system); }},
        {"supervisor", [](const auto& system) { actors::crash_all<actors::ModelSupervisor>(system); }}};
    const auto found = crashes.find(what);
    if (found == crashes.end()) return Json{{"error", "no such actor"}};
    found->second(system_);
    return Json{{"ok", true}};
  }

  Json state() {
    std::map<std::string, double> sums;  // summed over models
    for (const protocol::Figure& figure : engine_.figures()) sums[figure.name] += figure.value;
    Json figures;
    for (const auto& [name, value] : sums) figures[name] = value;
    const protocol::Health health = engine_.health();
    std::uint64_t suspended = 0;
    for (const runtime::ActorInfo& actor : system_.actors()) suspended += actor.suspended_handlers;
    return Json{{"ready", health.ready},
                {"detail", health.detail},
                {"requests", engine_.running_requests()},
                {"descriptors", open_descriptors()},
                {"threads", threads()},
                {"suspended_handlers", suspended},
                {"resident_bytes", resident_bytes()},
                {"block_bytes", memory_.used()},
                {"refused_blocks", memory_.refusals()},
                {"refused_allocations", scarce_heap::refusals()},
                {"figures", std::move(figures)}};
  }

  runtime::System& system_;
  const std::vector<actors::ModelSpec> specs_;
  gpu::ScarceMemory& memory_;
  const std::shared_ptr<actors::Faults> faults_;
  actors::Engine engine_;
};

void answer(const Json& json) {
  const std::string line = json.dump() + "\n";
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
}

int run(int argc, char** argv) {
  CLI::App app("The engine, made to obey");
  std::vector<std::string> models;
  std::vector<std::string> keys;
  std::uint64_t state_mb = 64;
  std::uint64_t budget_mb = 0;
  unsigned threads = 1;
  std::string device = "cpu";
  double max_step = 5;
  app.add_option("--model", models, "NAME=PATH")->required();
  app.add_option("--key", keys, "An API key, and its tenant");
  app.add_option("--state-mb", state_mb, "MiB for sequences and snapshots");
  app.add_option("--cache-budget-mb", budget_mb, "MiB for the snapshots of a model");
  app.add_option("--threads", threads, "Threads to compute with");
  app.add_option("--device", device, "cpu or cpu-grid");
  app.add_option("--longest-step", max_step, "Seconds before a step counts as a hang");
  CLI11_PARSE(app, argc, argv);

  actors::EngineOptions options;
  for (const std::string& model : models) {
    const std::size_t equals = model.find('=');
    options.models.push_back({.name = model.substr(0, equals), .path = model.substr(equals + 1)});
  }
  gpu::ScarceMemory memory;
  options.worker.device = device;
  options.worker.device_options.threads = threads;
  options.worker.state_bytes = state_mb << 20;
  options.worker.memory = &memory;
  const auto faults = std::make_shared<actors::Faults>();
  options.worker.faults = faults;
  options.registry.budget_bytes = budget_mb << 20;
  options.requests.verify_share = 1;
  options.requests.verify_inline = true;
  options.requests.max_wait = 20s;
  options.max_reloads = 1'000'000;
  options.max_step = std::chrono::milliseconds(static_cast<std::int64_t>(max_step * 1000));
  options.log = [](const std::string& line) { protocol::log_line(protocol::LogLevel::kWarning, line); };

  protocol::HttpOptions http;
  http.port = 0;
  http.write_timeout = 20s;  // clients that stall longer are disconnected
  for (const std::string& key : keys) {
    if (const std::string problem = http.keys.add(key); !problem.empty()) {
      std::fprintf(stderr, "%s\n", problem.c_str());
      return 2;
    }
    // All tenants may read the metrics.
    const std::string tenant = key.substr(key.find(' ') + 1);
    static_cast<void>(http.keys.describe({.name = tenant, .is_operator = true}));
  }
  protocol::set_log_level(protocol::LogLevel::kWarning);
  protocol::IoLoop loop;
  runtime::System system;
  auto chaos = std::make_unique<ChaosServer>(system, std::move(options), memory, faults);
  if (const auto error = chaos->engine().wait_until_ready(5min)) {
    std::fprintf(stderr, "%s\n", error->message.c_str());
    return 1;
  }
  protocol::HttpServer server(system, loop, chaos->engine(), http, protocol::all_apis());
  answer(Json{{"port", server.port()}});
  for (std::string line; std::getline(std::cin, line);) answer(chaos->obey(line));

  const bool closed = server.stop(2s);
  chaos.reset();
  const runtime::StopReport report = system.stop(1s, 30s);
  for (const runtime::ActorInfo& stuck : report.stuck) {
    std::fprintf(stderr, "did not stop in time: %s\n", stuck.name.c_str());
  }
  return closed && report.complete ? 0 : 1;
}

}  // namespace
}  // namespace reprise::tools

int main(int argc, char** argv) {
  return reprise::tools::run(argc, argv);
}
