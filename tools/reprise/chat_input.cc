#include "tools/reprise/chat_input.h"

#include <poll.h>
#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "tools/reprise/line_editor.h"

namespace reprise::tools {

namespace {

sigset_t interrupts() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  return signals;
}

}  // namespace

ChatInput::ChatInput() {
  const sigset_t signals = interrupts();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signals_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals_ < 0)
    throw std::runtime_error(std::string("cannot listen for Ctrl-C: ") + std::strerror(errno));
  if (isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1) editor_ = std::make_unique<LineEditor>();
}

ChatInput::~ChatInput() {
  close(signals_);
}

bool ChatInput::interrupted(std::chrono::milliseconds wait) {
  pollfd ready{.fd = signals_, .events = POLLIN, .revents = 0};
  if (poll(&ready, 1, static_cast<int>(wait.count())) <= 0) return false;
  signalfd_siginfo signal;
  bool any = false;
  while (read(signals_, &signal, sizeof(signal)) == sizeof(signal)) any = true;
  return any;
}

ChatInput::Heard ChatInput::next(const char* prompt, std::string& line) {
  if (!editor_) return next_piped(line);
  const auto wait_for_key = [this] {
    pollfd ready[] = {{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0},
                      {.fd = signals_, .events = POLLIN, .revents = 0}};
    while (poll(ready, 2, -1) < 0) {
      if (errno != EINTR) return false;
    }
    return !interrupted();
  };
  switch (editor_->read(prompt, kMostBytes, wait_for_key, line)) {
    case LineEditor::Read::kLine:
      return Heard::kLine;
    case LineEditor::Read::kTooLong:
      return Heard::kTooLong;
    case LineEditor::Read::kEnd:
      return Heard::kEnd;
    case LineEditor::Read::kCleared:
      return Heard::kCleared;
    case LineEditor::Read::kInterrupted:
      return Heard::kInterrupt;
  }
  return Heard::kEnd;
}

ChatInput::Heard ChatInput::next_piped(std::string& line) {
  for (;;) {
    const std::size_t newline = buffer_.find('\n', scanned_);
    if (newline != std::string::npos || (ended_ && !buffer_.empty())) {
      line = buffer_.substr(0, newline);
      buffer_.erase(0, newline == std::string::npos ? newline : newline + 1);
      scanned_ = 0;
      if (!line.empty() && line.back() == '\r') line.pop_back();
      const bool whole = !std::exchange(skipping_, false) && line.size() <= kMostBytes;
      if (!whole) line.clear();
      return whole ? Heard::kLine : Heard::kTooLong;
    }
    if (ended_) return std::exchange(skipping_, false) ? Heard::kTooLong : Heard::kEnd;
    scanned_ = buffer_.size();
    if (buffer_.size() > kMostBytes) {
      skipping_ = true;
      buffer_.clear();
      scanned_ = 0;
    }
    pollfd ready[] = {{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0},
                      {.fd = signals_, .events = POLLIN, .revents = 0}};
    if (poll(ready, 2, -1) < 0) {
      if (errno == EINTR) continue;
      return Heard::kEnd;
    }
    if (interrupted()) return Heard::kInterrupt;
    if (ready[0].revents == 0) continue;
    char bytes[4096];
    const ssize_t count = read(STDIN_FILENO, bytes, sizeof(bytes));
    if (count > 0) buffer_.append(bytes, static_cast<std::size_t>(count));
    if (count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN)) ended_ = true;
  }
}

}  // namespace reprise::tools
