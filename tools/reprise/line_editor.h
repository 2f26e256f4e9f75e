#pragma once
// Lines that are typed at a terminal: arrows, Home and End, Ctrl-A and the like, and the lines before with the arrows up and
// down. Libedit does it, and only line_editor.cc knows.
//
// The lines before are kept in memory, kMostLines of them, and nowhere else.
//
// Threading: one thread; one for each process, for it has the terminal.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace reprise::tools {

class LineEditor {
 public:
  enum class Read { kLine, kTooLong, kEnd, kCleared, kInterrupted };
  static constexpr int kMostLines = 1000;

  /// Throws std::runtime_error.
  LineEditor();
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  /// Reads a line from stdin, as UTF-8 and without its newline, and shows it on stderr behind the prompt. Pasted text may
  /// have newlines, and Alt-Enter types one. Of one that is
  /// longer than `most_bytes` nothing is given. `wait_for_key` returns when there is something to read, or false where
  /// the line is to be given up: kCleared if something had been typed.
  Read read(const char* prompt, std::size_t most_bytes, const std::function<bool()>& wait_for_key,
            std::string& line);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace reprise::tools
