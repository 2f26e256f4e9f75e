#pragma once
// User input of `reprise chat`: lines from stdin, and Ctrl-C.
//
// SIGINT is blocked and read from a file descriptor, so none is lost between checking for it and waiting for
// a line.
//
// Threading: one thread. Create it before starting other threads, which inherit the blocked signal.

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

namespace reprise::tools {

class LineEditor;

class ChatInput {
 public:
  enum class Heard { kLine, kTooLong, kEnd, kCleared, kInterrupt };
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 20;  // per line

  /// Throws std::runtime_error.
  ChatInput();
  ~ChatInput();
  ChatInput(const ChatInput&) = delete;
  ChatInput& operator=(const ChatInput&) = delete;

  /// Blocks until the next line, returned without newline; the last line may have none. A line that is too
  /// long is discarded. kCleared: Ctrl-C discarded a started line. On a terminal `prompt` is printed first,
  /// to stderr.
  Heard next(const char* prompt, std::string& line);

  /// Returns whether lines are typed in an editor with history.
  bool is_terminal() const { return editor_ != nullptr; }

  /// Returns whether Ctrl-C was pressed since the last call; blocks for at most `wait`.
  bool interrupted(std::chrono::milliseconds wait = {});

 private:
  Heard next_piped(std::string& line);

  int signals_ = -1;
  std::string buffer_;       // read but not returned yet
  std::size_t scanned_ = 0;  // bytes of buffer_ known to hold no newline
  bool skipping_ = false;    // discarding the rest of a line that is too long
  bool ended_ = false;
  std::unique_ptr<LineEditor> editor_;  // null: stdin or stderr is no terminal
};

}  // namespace reprise::tools
