#pragma once
// A reply on stdout as it is made. Reasoning is dimmed where stdout is a terminal, and left out elsewhere.
//
// Threading: one owner, who alone writes to stdout until end().

#include <unistd.h>

#include <cstdio>
#include <string>

#include "protocol/reply/reply_parser.h"

namespace reprise::tools {

class ReplyPrinter {
 public:
  void print(const protocol::ReplyPieces& pieces) {
    for (const protocol::ReplyPiece& piece : pieces) {
      if (const auto* content = std::get_if<protocol::ReplyContent>(&piece)) {
        dim(false);
        write(content->text);
      } else if (const auto* reasoning = std::get_if<protocol::ReplyReasoning>(&piece)) {
        if (!terminal_) continue;
        dim(true);
        write(reasoning->text);
      }
    }
    std::fflush(stdout);
  }
  /// Ends the line.
  void end() {
    dim(false);
    if (!at_line_start_) write("\n");
    std::fflush(stdout);
  }

 private:
  void write(const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    at_line_start_ = text.back() == '\n';
  }
  void dim(bool wanted) {
    if (wanted == dimmed_) return;
    dimmed_ = wanted;
    std::fputs(wanted ? "\x1b[2m" : "\x1b[0m", stdout);
    if (!wanted && !at_line_start_) write("\n");
  }

  const bool terminal_ = isatty(STDOUT_FILENO) == 1;
  bool dimmed_ = false;
  bool at_line_start_ = true;
};

}  // namespace reprise::tools
