// A host whose actor appears in traces like Reprise's: a track with its name, one zone per turn with the
// message type and its queueing time, and inside it the host's zones and plots.
//
// Usage: traced_host FILE     writes a trace of itself in the Trace Event format
//        traced_host          waits for a profiler: with a package that was built with Tracy

#include <runtime/actor.h>
#include <runtime/system.h>
#include <traces/session_file.h>
#include <traces/trace.h>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

using namespace reprise;
using namespace std::chrono_literals;

namespace {

constexpr traces::ZoneSite kWeighing{"weighing"};

struct Weigh {
  using Reply = int;
  int grams;
};

class Scale : public runtime::Actor {
 public:
  using Accepts = runtime::Messages<Weigh>;

  runtime::Task<int> on(Weigh weigh) {
    traces::Zone zone(kWeighing);
    if (zone.on()) zone.text(std::to_string(weigh.grams) + " g");
    total_ += weigh.grams;
    traces::plot("weight on the scale", total_);
    co_return total_;
  }

 private:
  int total_ = 0;
};

int weigh_all() {
  runtime::System system({.workers = 1});
  const auto scale = system.spawn<Scale>({.name = "scale"});
  int total = 0;
  for (int grams = 1; grams <= 6; ++grams) {
    const runtime::Result<int> weighed = scale.ask_blocking(Weigh{grams}, 10s);
    if (weighed) total = *weighed;
  }
  system.stop();
  return total;
}

bool somebody_looks_within(std::chrono::seconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!traces::on() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(10ms);
  return traces::on();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    if (!somebody_looks_within(60s)) return 1;
    std::printf("weighed %d g\n", weigh_all());
    std::this_thread::sleep_for(1s);  // time to send the trace
    return 0;
  }
  auto trace = traces::SessionFile::open(argv[1]);
  if (!trace) {
    std::printf("%s\n", trace.error().c_str());
    return 1;
  }
  std::printf("weighed %d g\n", weigh_all());
  const traces::SessionFile::Summary summary = (*trace)->stop();
  std::printf("the trace is %s\n",
              summary.dropped == 0 && summary.error.empty() ? "complete" : "not complete");
  return 0;
}
