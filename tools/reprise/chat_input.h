#pragma once
// What a chat hears from its user: lines on stdin, and Ctrl-C.
//
// SIGINT is blocked and read from a file descriptor, so that none is lost between looking for it and waiting
// for a line.
//
// Threading: one thread, which makes this before it starts others: they inherit the blocked signal.

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

namespace reprise::tools {

class LineEditor;

class ChatInput {
 public:
  enum class Heard { kLine, kTooLong, kEnd, kCleared, kInterrupt };
  static constexpr std::size_t kMostBytes = std::size_t{1} << 20;  // of a line

  /// Throws std::runtime_error.
  ChatInput();
  ~ChatInput();
  ChatInput(const ChatInput&) = delete;
  ChatInput& operator=(const ChatInput&) = delete;

  /// Waits for the next line, without its newline; the last may have none. Of a line that is too long nothing
  /// is given. kCleared: Ctrl-C was pressed in a line that had begun; it is thrown away. At a terminal `prompt` stands before it, on stderr.
  Heard next(const char* prompt, std::string& line);

  /// Whether lines are typed, with keys to edit them and the lines before within reach.
  bool is_terminal() const { return editor_ != nullptr; }

  /// Whether Ctrl-C was pressed since the last look; waits for it this long.
  bool interrupted(std::chrono::milliseconds wait = {});

 private:
  Heard next_piped(std::string& line);

  int signals_ = -1;
  std::string buffer_;       // read and not given yet
  std::size_t scanned_ = 0;  // of it, known to hold no newline
  bool skipping_ = false;    // the rest of a line that is too long
  bool ended_ = false;
  std::unique_ptr<LineEditor> editor_;  // null: stdin or stderr is no terminal
};

}  // namespace reprise::tools
