#include "protocol/http/process_figures.h"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "base/build_id.h"

namespace reprise::protocol {
namespace {

using WallClock = std::chrono::system_clock;

double seconds_of(WallClock::duration time) {
  return std::chrono::duration<double>(time).count();
}

// About: when this library was initialized, before main().
const WallClock::time_point kStarted = WallClock::now();

double resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t size = 0;
  std::uint64_t resident = 0;
  file >> size >> resident;
  return static_cast<double>(resident) * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double open_files() {
  double count = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end; !error && entry != end;
       entry.increment(error)) {
    ++count;
  }
  return count;
}

}  // namespace

std::vector<Figure> process_figures() {
  const auto gauge = [](const char* name, const char* help, double value) {
    return Figure{.name = name, .help = help, .value = value};
  };
  return {{.name = "reprise_build_info",
           .help = "Always 1; the label names the build; servers with equal labels run the same program",
           .labels = {{"build", build_id()}},
           .value = 1},
          gauge("reprise_uptime_seconds", "Time since the process started",
                seconds_of(WallClock::now() - kStarted)),
          gauge("process_start_time_seconds", "Start of the process, in seconds since 1970",
                seconds_of(kStarted.time_since_epoch())),
          gauge("process_resident_memory_bytes", "Memory that the process holds", resident_bytes()),
          {.kind = Figure::Kind::kCounter,
           .name = "process_cpu_seconds_total",
           .help = "CPU time that the process has used",
           .value = cpu_seconds()},
          gauge("process_open_fds", "Open file descriptors", open_files())};
}

}  // namespace reprise::protocol
