#include "protocol/http/line_writer.h"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

namespace reprise::protocol {
namespace {

constexpr std::size_t kBytesOfALine = 64;  // beside its text, about

/// What is written to, and whether it ends within a line.
class Lines {
 public:
  explicit Lines(int file) : file_(file) {}

  /// False where not all of it could be written.
  bool write(const std::string& line) {
    if (torn_ && put("\n") == 1) torn_ = false;
    if (torn_) return false;
    const std::size_t written = put(line);
    torn_ = written > 0 && written < line.size();
    return written == line.size();
  }

 private:
  /// Returns how many bytes were written.
  std::size_t put(std::string_view text) {
    std::size_t done = 0;
    while (done < text.size()) {
      const ssize_t written = ::write(file_, text.data() + done, text.size() - done);
      if (written > 0) {
        done += static_cast<std::size_t>(written);
      } else if (written < 0 &&
                 (errno == EAGAIN || errno == EWOULDBLOCK)) {  // another process asked for that
        pollfd ready{.fd = file_, .events = POLLOUT, .revents = 0};
        ::poll(&ready, 1, -1);
      } else if (written == 0 || errno != EINTR) {
        break;
      }
    }
    return done;
  }

  const int file_;
  bool torn_ = false;
};

}  // namespace

struct LineWriter::Shared {
  struct Line {
    std::string text;           // empty: none, only a gap
    std::uint64_t missing = 0;  // lines before it that were not taken
  };

  const int file;
  const std::size_t most_bytes;
  const Notice notice;

  std::mutex mutex{};
  std::condition_variable changed{};
  std::deque<Line> lines{};
  std::size_t bytes = 0;
  std::uint64_t missing = 0;  // lines not taken since the last that was
  std::uint64_t dropped = 0;
  bool writing = false;
  bool ending = false;

  static std::size_t cost(const std::string& text) { return text.size() + kBytesOfALine; }
  bool is_idle() const { return lines.empty() && missing == 0 && !writing; }
};

LineWriter::LineWriter(int file, std::size_t most_bytes, Notice notice)
    : shared_(new Shared{.file = file, .most_bytes = most_bytes, .notice = std::move(notice)}) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are others' to take; SIGPIPE is an error of write()
  std::thread([shared = shared_] { run(*shared); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

LineWriter::~LineWriter() {
  const std::lock_guard lock(shared_->mutex);
  shared_->ending = true;
  shared_->changed.notify_all();
}

void LineWriter::put(std::string line) {
  const std::lock_guard lock(shared_->mutex);
  const std::size_t cost = Shared::cost(line);
  if (shared_->bytes + cost > shared_->most_bytes) {
    ++shared_->missing;
    ++shared_->dropped;
  } else {
    shared_->bytes += cost;
    shared_->lines.push_back({std::move(line), std::exchange(shared_->missing, 0)});
  }
  shared_->changed.notify_all();
}

bool LineWriter::flush(std::chrono::milliseconds limit) {
  std::unique_lock lock(shared_->mutex);
  return shared_->changed.wait_for(lock, limit, [this] { return shared_->is_idle(); });
}

std::uint64_t LineWriter::dropped() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->dropped;
}

void LineWriter::run(Shared& shared) {
  Lines file(shared.file);
  std::uint64_t missing = 0;  // lines that nothing in the file tells of
  std::unique_lock lock(shared.mutex);
  for (;;) {
    shared.changed.wait(lock, [&] { return shared.ending || !shared.lines.empty() || shared.missing > 0; });
    Shared::Line line;
    if (!shared.lines.empty()) {
      line = std::move(shared.lines.front());
      shared.lines.pop_front();
      shared.bytes -= Shared::cost(line.text);
    } else if (shared.missing > 0) {
      line.missing = std::exchange(shared.missing, 0);
    } else {
      return;
    }
    shared.writing = true;
    lock.unlock();

    missing += line.missing;
    if (missing > 0 && file.write(shared.notice(missing))) missing = 0;
    const bool lost = !line.text.empty() && (missing > 0 || !file.write(line.text));
    if (lost) ++missing;

    lock.lock();
    shared.writing = false;
    if (lost) ++shared.dropped;
    if (shared.is_idle()) shared.changed.notify_all();
  }
}

}  // namespace reprise::protocol
