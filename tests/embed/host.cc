// A host with its own Asio loop embeds the runtime: one actor on a pool worker, one on the host's loop, and a
// stream between them.

#include <runtime/interop/asio_executor.h>
#include <runtime/stream.h>
#include <runtime/system.h>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>

using namespace reprise::runtime;
using namespace std::chrono_literals;

namespace {

struct Speak {
  StreamWriter<std::string> to;
};

class Speaker : public Actor {
 public:
  using Accepts = Messages<Speak>;

  Task<void> on(Speak speech) {
    for (const char* word : {"no", "prefix", "is", "computed", "twice"}) {
      auto writing = speech.to.write(word);
      const Result<void> written = co_await writing;
      if (!written) co_return;
    }
    speech.to.close();
  }
};

struct Print {
  StreamReader<std::string> from;
  std::function<void(ErrorCode)> at_end;  // called on the host's loop
};

class Printer : public Actor {
 public:
  using Accepts = Messages<Print>;

  Task<void> on(Print job) {
    while (true) {
      auto reading = job.from.next();
      const Result<std::string> word = co_await reading;
      if (!word) {
        job.at_end(word.error().code);
        co_return;
      }
      std::printf("word: %s\n", word->c_str());
    }
  }
};

}  // namespace

int main() {
  boost::asio::io_context loop(1);
  auto work = boost::asio::make_work_guard(loop);  // waiting actors do not keep run() from returning
  const std::thread::id loop_thread = std::this_thread::get_id();
  bool ended_well = false;

  System system({.workers = 2});
  const ExecutorPtr executor = adopt_io_context(system, loop);
  const auto speaker = system.spawn<Speaker>();
  const auto printer = system.spawn<Printer>({.placement = Placement::on(executor)});

  auto [writer, reader] = make_stream<std::string>(2);
  boost::asio::post(loop, [] { std::printf("the host's own handler\n"); });
  printer.tell(Print{std::move(reader), [&](ErrorCode end) {
                       ended_well = end == ErrorCode::kEnded && std::this_thread::get_id() == loop_thread;
                       work.reset();
                     }});
  boost::asio::post(loop, [&, to = std::make_shared<StreamWriter<std::string>>(std::move(writer))] {
    speaker.tell(Speak{std::move(*to)});
  });
  loop.run();

  const StopReport report = system.stop();
  std::printf("ended %s, stopped %s\n", ended_well ? "well" : "badly", report.complete ? "cleanly" : "late");
  return ended_well && report.drained && report.complete ? 0 : 1;
}
