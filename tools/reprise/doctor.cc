// `reprise doctor`: reports the machine's capabilities, what will be used, and how to fix problems; `reprise
// devices` lists the GPUs.
//
// The doctor prints a line per check: "ok", "note" (works but could be better), or "BAD".

#include <netdb.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "base/machine.h"
#include "gpu/compute.h"
#include "gpu/devices.h"
#include "gpu/numa_nodes.h"
#include "models/memory_plan.h"
#include "models/model_files.h"
#include "tools/reprise/commands.h"
#include "tools/reprise/engine_flags.h"
#include "tools/reprise/hub.h"

#ifndef REPRISE_DOCTOR_CUDA
#define REPRISE_DOCTOR_CUDA 0
#endif

namespace reprise::tools {

namespace {

struct DoctorOptions {
  std::string model{};  // empty: the built-in model
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;
};

namespace fs = std::filesystem;

class Findings {
 public:
  void good(const char* what, const std::string& text) { line("ok", what, text, ""); }
  void note(const char* what, const std::string& text, const std::string& advice) {
    line("note", what, text, advice);
  }
  void bad(const char* what, const std::string& text, const std::string& advice) {
    line("BAD", what, text, advice);
    any_bad_ = true;
  }
  bool any_bad() const { return any_bad_; }

 private:
  static void line(const char* verdict, const char* what, const std::string& text,
                   const std::string& advice) {
    std::printf("%-4s  %-12s %s\n", verdict, what, text.c_str());
    if (!advice.empty()) std::printf("      %-12s -> %s\n", "", advice.c_str());
  }
  bool any_bad_ = false;
};

/// Returns the text after the colon in the first line of `file` that starts with `begin`; empty: none.
std::string line_of(const char* file, const std::string& begin) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(begin)) continue;
    const std::size_t colon = line.find(':');
    const std::size_t text = colon == std::string::npos ? colon : line.find_first_not_of(" \t", colon + 1);
    return text == std::string::npos ? std::string() : line.substr(text);
  }
  return {};
}

void look_at_processor(Findings& findings) {
  std::string name = line_of("/proc/cpuinfo", "model name");
  if (name.empty()) name = "unknown processor";
  std::string sets;
  for (const gpu::Isa isa : gpu::available_isas()) {
    sets += (sets.empty() ? "" : ", ") + std::string(gpu::name_of(isa));
  }
  const std::string best(gpu::name_of(gpu::best_isa()));
  const std::string text = name + ", " + std::to_string(available_processors()) +
                           " threads; kernels available: " + sets + "; used: " + best;
  if (best == "plain") {
    findings.note("processor", text, "no vector kernels for this processor: expect a tenth of the speed");
  } else {
    findings.good("processor", text);
  }
  if (const std::size_t nodes = gpu::numa_nodes().count(); nodes > 1) {
    findings.good("NUMA nodes", std::to_string(nodes) +
                                    "; threads are bound to nodes, weights are copied to each node while a "
                                    "fourth of the memory is left");
  }
}

void look_at_memory(Findings& findings) {
  constexpr std::uint64_t kLittle = std::uint64_t{2} << 30;
  const std::uint64_t free = available_memory();
  const std::string text = models::in_units(free) + " available";
  if (free < kLittle) {
    findings.note(
        "memory", text,
        "weights and snapshots share it: stop other programs that use much memory, or set engine.state_mb");
  } else {
    findings.good("memory", text);
  }
  constexpr const char* kHugePages = "/sys/kernel/mm/transparent_hugepage/enabled";
  std::ifstream file(kHugePages);
  std::string modes;
  if (!std::getline(file, modes)) {
    findings.note("huge pages", "not supported by this kernel", "");
  } else if (modes.find("[never]") != std::string::npos) {
    findings.note("huge pages", "off", "as root: echo madvise > " + std::string(kHugePages));
  } else {
    findings.good("huge pages", modes);
  }
}

void look_at_files(Findings& findings) {
  constexpr rlim_t kWanted = 2048;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const std::string text = std::to_string(limit.rlim_max) + " allowed";
  if (limit.rlim_max < kWanted) {
    findings.note("open files", text,
                  "each connection needs one: raise `ulimit -Hn`, or LimitNOFILE of the service");
  } else {
    findings.good("open files", text);
  }
}

void look_at_gpus(Findings& findings) {
  const std::vector<gpu::DeviceInfo> devices = gpu::list_devices();
  for (const gpu::DeviceInfo& device : devices) {
    findings.good(
        "GPU", "cuda:" + std::to_string(device.index) + " " + device.name + ", compute " +
                   std::to_string(device.compute_major) + "." + std::to_string(device.compute_minor) + ", " +
                   models::in_units(device.free_bytes) + " of " + models::in_units(device.total_bytes) +
                   " free, driver for CUDA " + std::to_string(device.driver_version / 1000) + "." +
                   std::to_string(device.driver_version % 1000 / 10));
  }
  if (!devices.empty()) return;
  const std::string driver = line_of("/proc/driver/nvidia/version", "NVRM version");
  const bool has_card = !driver.empty() || fs::exists("/dev/nvidia0");
  if (!has_card) {
    findings.good("GPU", "none; models are computed on the processor");
  } else if (REPRISE_DOCTOR_CUDA == 0) {
    findings.note("GPU", "found a GPU, but this build has no CUDA",
                  "build with the CUDA toolkit, see docs/gpu.md");
  } else {
    findings.bad(
        "GPU", "found a GPU, but CUDA cannot use it (driver: " + (driver.empty() ? "?" : driver) + ")",
        "check `nvidia-smi`; the driver must support CUDA 12 or later, and /dev/nvidia* must be readable");
  }
}

void look_at_model(Findings& findings, const std::string& wanted) {
  std::string path;
  try {
    path = model_or_builtin(wanted);
    const models::ModelFiles files = models::ModelFiles::open(path);
    const models::MemoryPlan plan = models::plan_memory(files, models::ComputeOptions{});
    const std::string fits = models::verdict(plan, available_memory(), 0);
    const std::string text = path + ": " + files.config().architecture + ", " +
                             models::in_units(plan.weights()) + " of weights; fits on the processor: " + fits;
    findings.good("model", text);
  } catch (const std::exception& error) {
    findings.bad("model", error.what(),
                 wanted.empty()
                     ? "run `cmake --install` to install the built-in model, or name a model with --model"
                     : "name a Hugging Face folder, a GGUF file, or hf:OWNER/MODEL[:FILE]");
  }
  try {
    const fs::path folder = hub_settings().folder;
    std::error_code unknown;
    fs::path there = folder;
    while (!fs::exists(there, unknown) && there.has_relative_path()) there = there.parent_path();
    const fs::space_info space = fs::space(there, unknown);
    findings.good("models", folder.string() + ": folder of `reprise pull`" +
                                (unknown ? "" : "; " + models::in_units(space.available) + " free"));
  } catch (const std::exception& error) {
    findings.note("models", error.what(), "");
  }
}

void look_at_port(Findings& findings, const DoctorOptions& options) {
  const std::string where = options.host + ":" + std::to_string(options.port);
  addrinfo wish{};
  wish.ai_socktype = SOCK_STREAM;
  wish.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (getaddrinfo(options.host.c_str(), std::to_string(options.port).c_str(), &wish, &found) != 0) {
    return findings.bad("port", options.host + " is not an address of this machine",
                        "choose another with --host");
  }
  const int socket = ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  const int bound = socket < 0 ? -1 : bind(socket, found->ai_addr, found->ai_addrlen);
  const int heard = bound != 0 ? -1 : listen(socket, 1);
  const int error = errno;
  if (socket >= 0) close(socket);
  freeaddrinfo(found);
  if (heard == 0) {
    findings.good("port", where + " is free");
  } else {
    findings.bad("port", where + ": " + std::strerror(error),
                 error == EADDRINUSE
                     ? "another server uses it: stop that one, or choose another port with --port"
                     : "choose another with --port or --host");
  }
}

int doctor(const DoctorOptions& options) {
  Findings findings;
  look_at_processor(findings);
  look_at_memory(findings);
  look_at_files(findings);
  look_at_gpus(findings);
  look_at_model(findings, options.model);
  look_at_port(findings, options);
  std::puts(findings.any_bad() ? "Something will not work: see the lines with BAD."
                               : "Everything needed is available.");
  return findings.any_bad() ? 1 : 0;
}

// Prints one line per GPU on stdout; none if there is no GPU.
int list_devices() {
  const auto devices = gpu::list_devices();
  constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
  for (const auto& device : devices) {
    std::printf("cuda:%d  %s  compute %d.%d  %.1f of %.1f GiB free\n", device.index, device.name.c_str(),
                device.compute_major, device.compute_minor, device.free_bytes / kGiB,
                device.total_bytes / kGiB);
  }
  if (devices.empty()) std::fputs("reprise: no GPU that this build can use\n", stderr);
  return 0;
}

}  // namespace

Command add_doctor(CLI::App& program) {
  const auto options = std::make_shared<DoctorOptions>();
  CLI::App* command =
      program.add_subcommand("doctor", "Check this machine: what will be used and what is missing");
  command->add_option("--model", options->model, kModelHelp);
  command->add_option("--host", options->host, "Address to listen on")->capture_default_str();
  command->add_option("--port", options->port, "Port to listen on")->capture_default_str();
  return {command, [options] { return doctor(*options); }};
}

Command add_devices(CLI::App& program) {
  return {program.add_subcommand("devices", "List the GPUs that this build can use"), list_devices};
}

}  // namespace reprise::tools
