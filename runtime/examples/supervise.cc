// An actor that fails is restarted a limited number of times; then its failure escalates to its parent. A
// watcher gets one Down for each actor that ends.

#include <atomic>
#include <chrono>
#include <cstdio>
#include <future>
#include <set>
#include <stdexcept>
#include <string>

#include "runtime/system.h"

using namespace reprise::runtime;
using namespace std::chrono_literals;

namespace {

struct Work {
  bool fail;
};
struct CountWork {
  using Reply = int;
};

class Worker : public Actor {
 public:
  using Accepts = Messages<Work, CountWork>;
  static constexpr const char* kName = "worker";
  void on(Work work) {
    if (work.fail) throw std::runtime_error("out of cheese");
    ++done_;
  }
  int on(CountWork) { return done_; }

 private:
  int done_ = 0;  // a restart creates a new object, so this is 0 again
};

struct GetWorker {
  using Reply = RefOf<Worker>;
};

class Manager : public Actor {
 public:
  using Accepts = Messages<GetWorker>;
  void on_start() {
    worker_ = spawn<Worker>({.on_failure = OnFailure::restart(2, 1min, OnFailure::Do::kEscalate)});
  }
  RefOf<Worker> on(GetWorker) { return worker_; }

 private:
  RefOf<Worker> worker_;
};

using Ends = std::set<StopReason>;
struct Watch {
  using Reply = void;
  Ref<> whom;  // a Ref of no messages can refer to any actor
};

class Witness : public Actor {
 public:
  using Accepts = Messages<Watch, Down>;
  explicit Witness(std::promise<Ends> two_ended) : two_ended_(std::move(two_ended)) {}
  void on(const Watch& request) { watch(*this, request.whom); }
  void on(const Down& down) {
    std::printf("#%d ended: %s (%s)\n", static_cast<int>(down.who), to_string(down.reason), down.why.c_str());
    ends_.insert(down.reason);
    if (ends_.size() == 2) two_ended_.set_value(ends_);
  }

 private:
  Ends ends_;
  std::promise<Ends> two_ended_;
};

}  // namespace

int main() {
  std::atomic<int> untreated{0};
  System system({.hooks = {.on_failure = [](auto...) {}, .on_escalation = [&](auto...) { ++untreated; }}});
  const auto manager = system.spawn<Manager>({.on_failure = OnFailure::escalate()});  // it has no parent
  const auto worker = *manager.ask_blocking(GetWorker{}, 20s);
  std::promise<Ends> promise;
  std::future<Ends> two_ended = promise.get_future();
  const auto witness = system.spawn<Witness>({}, std::move(promise));
  const bool watched =
      witness.ask_blocking(Watch{manager}, 20s).ok() && witness.ask_blocking(Watch{worker}, 20s).ok();

  worker.tell(Work{.fail = false});
  const int before = *worker.ask_blocking(CountWork{}, 20s);
  worker.tell(Work{.fail = true});
  const int after = *worker.ask_blocking(CountWork{}, 20s);  // the same reference, a new object
  worker.tell(Work{.fail = true});
  worker.tell(Work{.fail = true});  // exceeds the allowed number of restarts
  if (two_ended.wait_for(20s) != std::future_status::ready) return std::fprintf(stderr, "no ends\n"), 1;
  system.stop();

  std::printf("done %d, after a restart %d\n", before, after);
  const bool right = watched && before == 1 && after == 0 && untreated == 1 &&
                     two_ended.get() == Ends{StopReason::kFailed, StopReason::kOutOfRestarts};
  return right ? 0 : (std::fprintf(stderr, "not as it should be; %d untreated\n", untreated.load()), 1);
}
