// The smallest program: spawn an actor, tell it something, ask it something, stop.

#include <chrono>
#include <cstdio>
#include <string>

#include "runtime/system.h"

using namespace reprise::runtime;
using namespace std::chrono_literals;

namespace {

struct Greet {  // no Reply: can only be told
  std::string whom;
};
struct CountGreeted {  // has a Reply: can be asked
  using Reply = int;
};

class Greeter : public Actor {
 public:
  using Accepts = Messages<Greet, CountGreeted>;

  void on(const Greet& greet) {
    std::printf("hello, %s\n", greet.whom.c_str());
    ++greeted_;  // no lock: turns of one actor never overlap
  }
  int on(CountGreeted) { return greeted_; }

 private:
  int greeted_ = 0;
};

}  // namespace

int main() {
  System system({.workers = 2});
  const auto greeter = system.spawn<Greeter>();

  greeter.tell(Greet{"world"});
  greeter.tell(Greet{"reader"});
  // Messages of one sender keep their order, so both greetings are counted.
  const Result<int> greeted = greeter.ask_blocking(CountGreeted{}, 10s);
  const StopReport report = system.stop();

  if (!greeted) {
    std::fprintf(stderr, "no answer: %s\n", greeted.error().describe().c_str());
    return 1;
  }
  if (*greeted != 2 || !report.complete) {
    std::fprintf(stderr, "greeted %d, not 2; stop %s\n", *greeted,
                 report.complete ? "complete" : "incomplete");
    return 1;
  }
  // A reference outlives its actor; sending to a stopped actor reports kStopped.
  const SendStatus late = greeter.tell(Greet{"nobody"});
  std::printf("greeted %d; after the stop: %s\n", *greeted, to_string(late));
  return late == SendStatus::kStopped ? 0 : 1;
}
