// An actor with its own thread may block, e.g. to drive a device, without affecting the pool.

#include <chrono>
#include <cstdio>
#include <future>
#include <thread>

#include "runtime/system.h"

using namespace reprise::runtime;
using namespace std::chrono_literals;

namespace {

struct Multiply {
  using Reply = int;
  int left, right;
};

/// Blocks in its handler until the device is ready. On a pool worker that would stall the worker's other
/// actors.
class DeviceWorker : public Actor {
 public:
  using Accepts = Messages<Multiply>;
  static constexpr const char* kName = "device";  // also the thread's name
  static constexpr MailboxSpec kMailbox{.capacity = 8, .overload = Overload::kSuspend};
  explicit DeviceWorker(std::shared_future<void> device_ready) : ready_(std::move(device_ready)) {}

  void on_start() { thread_ = std::this_thread::get_id(); }  // a device could be bound to the thread here
  Result<int> on(Multiply task) {
    if (std::this_thread::get_id() != thread_) return Error{ErrorCode::kIo, "on another thread"};
    ready_.wait();
    return task.left * task.right;
  }

 private:
  const std::shared_future<void> ready_;
  std::thread::id thread_;
};

struct Square {
  using Reply = int;
  int number;
};
struct CountWaiting {
  using Reply = int;
};

/// Runs on the pool and awaits the device without blocking.
class Scheduler : public Actor {
 public:
  using Accepts = Messages<Square, CountWaiting>;
  static constexpr std::uint32_t kConcurrentHandlers = 16;
  explicit Scheduler(Ref<Multiply> device) : device_(std::move(device)) {}

  Task<Result<int>> on(Square square) {
    ++waiting_;
    auto asked = device_.ask(Multiply{square.number, square.number}, 20s);
    const Result<int> answer = co_await asked;
    --waiting_;
    co_return answer;
  }
  int on(CountWaiting) { return waiting_; }

 private:
  const Ref<Multiply> device_;
  int waiting_ = 0;
};

}  // namespace

int main() {
  std::promise<void> device;
  System system({.workers = 1});
  const auto worker =
      system.spawn<DeviceWorker>({.placement = Placement::own_thread()}, device.get_future().share());
  const auto scheduler = system.spawn<Scheduler>({}, worker);

  auto square = std::async(std::launch::async, [&] { return scheduler.ask_blocking(Square{6}, 20s); });
  // The device's thread is blocked, but the pool's only worker still answers.
  Result<int> waiting = 0;
  const TimePoint limit = Clock::now() + 20s;
  while (waiting && *waiting == 0 && Clock::now() < limit) {
    waiting = scheduler.ask_blocking(CountWaiting{}, 20s);
  }
  device.set_value();
  const Result<int> product = square.get();
  const StopReport report = system.stop();

  if (!waiting || !product) return std::fprintf(stderr, "no answer\n"), 1;
  std::printf("%d waiting for the device, then the answer %d\n", *waiting, *product);
  return *waiting == 1 && *product == 36 && report.complete ? 0 : 1;
}
