#pragma once
// A reply on stdout as it is made. At a terminal lines end between words and reasoning is dimmed; elsewhere the text is
// printed as it comes, without the reasoning.
//
// Threading: one owner, who alone writes to stdout until end().

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "protocol/reply/reply_parser.h"
#include "tools/reprise/text_wrap.h"

namespace reprise::tools {

/// Columns of the terminal behind a file descriptor; 0: it is none, or does not tell.
inline std::size_t columns_of_terminal(int file) {
  winsize size{};
  if (isatty(file) != 1 || ioctl(file, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

class ReplyPrinter {
 public:
  void print(const protocol::ReplyPieces& pieces) {
    for (const protocol::ReplyPiece& piece : pieces) {
      if (const auto* content = std::get_if<protocol::ReplyContent>(&piece)) {
        dim(false);
        write(wrap_.push(content->text));
      } else if (const auto* reasoning = std::get_if<protocol::ReplyReasoning>(&piece)) {
        if (!terminal_) continue;
        dim(true);
        write(wrap_.push(reasoning->text));
      }
    }
    std::fflush(stdout);
  }
  /// Ends the line.
  void end() {
    write(wrap_.flush());
    dim(false);
    if (!at_line_start_) write("\n");
    std::fflush(stdout);
  }

 private:
  void write(const std::string& text) {
    if (text.empty()) return;
    std::fwrite(text.data(), 1, text.size(), stdout);
    at_line_start_ = text.back() == '\n';
  }
  void dim(bool wanted) {
    if (wanted == dimmed_) return;
    write(wrap_.flush());
    dimmed_ = wanted;
    std::fputs(wanted ? "\x1b[2m" : "\x1b[0m", stdout);
    if (!wanted && !at_line_start_) write(wrap_.push("\n"));
  }

  const bool terminal_ = isatty(STDOUT_FILENO) == 1;
  TextWrap wrap_{columns_of_terminal(STDOUT_FILENO)};
  bool dimmed_ = false;
  bool at_line_start_ = true;
};

}  // namespace reprise::tools
