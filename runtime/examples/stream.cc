// A stream of tokens between two actors. The writer may be ahead of the reader by at most the window, so a
// slow reader pauses it. Either side may end the stream, and the other is told.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>

#include "runtime/stream.h"
#include "runtime/system.h"

using namespace reprise::runtime;
using namespace std::chrono_literals;

namespace {

constexpr int kWindow = 4;
std::atomic<int> written{0};  // used only to check the result

struct Generate {  // an end of a stream travels in a message and then belongs to the receiver
  StreamWriter<std::string> to;
  int count;
};
struct AwaitEnd {
  using Reply = void;
};

class Generator : public Actor {
 public:
  using Accepts = Messages<Generate, AwaitEnd>;

  Task<void> on(Generate job) {
    for (written = 0; written < job.count; ++written) {
      auto writing = job.to.write("token");
      const Result<void> done = co_await writing;  // suspended while the reader is a full window behind
      if (!done) co_return;                        // kEnded: the reader has canceled
    }
    job.to.close();
  }
  void on(AwaitEnd) {}  // this actor is serial, so this runs after the handler above has ended
};

struct Seen {
  int tokens = 0;
  int max_ahead = 0;  // max values the writer was ahead
};
struct Show {
  using Reply = Seen;
  StreamReader<std::string> from;
  int enough;
};

class Screen : public Actor {
 public:
  using Accepts = Messages<Show>;

  Task<Seen> on(Show job) {
    Seen seen;
    while (seen.tokens < job.enough) {
      auto reading = job.from.next();
      const Result<std::string> token = co_await reading;
      if (!token) break;  // kEnded: the writer has closed the stream
      ++seen.tokens;
      auto slowness = sleep_for(1ms);
      const Result<void> rested = co_await slowness;
      seen.max_ahead = std::max(seen.max_ahead, written - seen.tokens);
    }
    job.from.cancel();  // tells the writer; destroying the reader would do the same
    co_return seen;
  }
};

bool run(System& system, int count, int enough, int min_written, int max_written) {
  const auto generator = system.spawn<Generator>();
  auto [writer, reader] = make_stream<std::string>(kWindow);
  generator.tell(Generate{std::move(writer), count});
  const auto seen = system.spawn<Screen>().ask_blocking(Show{std::move(reader), enough}, 20s);
  const auto ended = generator.ask_blocking(AwaitEnd{}, 20s);
  if (!seen || !ended) return std::fprintf(stderr, "no answer\n"), false;
  std::printf("%d written, %d read, the writer at most %d ahead\n", written.load(), seen->tokens,
              seen->max_ahead);
  return seen->tokens == std::min(count, enough) && seen->max_ahead <= kWindow && written >= min_written &&
         written <= max_written;
}

}  // namespace

int main() {
  System system({.workers = 2});
  if (!run(system, 30, 1000, 30, 30)) return std::fprintf(stderr, "wrong where the writer ends\n"), 1;
  if (!run(system, 1000, 10, 10, 10 + kWindow))
    return std::fprintf(stderr, "wrong where the reader ends\n"), 1;
  return 0;
}
