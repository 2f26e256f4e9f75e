#include "tools/reprise/chat_input.h"

#include <histedit.h>
#include <poll.h>
#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "base/utf8.h"
#include "tools/reprise/chat_text.h"

namespace reprise::tools {

/// Line editing at a terminal with libedit, and a history of kMaxLines lines in memory. One per process,
/// because it controls the terminal.
class LineEditor {
 public:
  enum class Read { kLine, kTooLong, kEnd, kCleared, kInterrupted };
  static constexpr int kMaxLines = 1000;

  /// Throws std::runtime_error.
  LineEditor();
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  /// Reads a line from stdin as UTF-8, without its newline, showing it on stderr after the prompt. Pasted
  /// text may contain newlines, and Alt-Enter enters one. A line longer than `max_bytes` is discarded.
  /// `wait_for_key` blocks until input is available, or returns false to abandon the line: kCleared if it was
  /// not empty.
  Read read(const char* prompt, std::size_t max_bytes, const std::function<bool()>& wait_for_key,
            std::string& line);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

struct LineEditor::Parts {
  EditLine* editor = nullptr;
  HistoryW* history = nullptr;
  HistEventW event{};
  const char* prompt = "";
  const std::function<bool()>* wait_for_key = nullptr;
  std::size_t taken = 0;  // bytes of the line so far
  std::size_t max = 0;
  bool interrupted = false;

  ~Parts() {
    if (editor != nullptr) el_end(editor);
    if (history != nullptr) history_wend(history);
  }

  static Parts& of(EditLine* editor) {
    void* parts = nullptr;
    el_get(editor, EL_CLIENTDATA, &parts);
    return *static_cast<Parts*>(parts);
  }
  static char* show_prompt(EditLine* editor) { return const_cast<char*>(of(editor).prompt); }

  /// Reads one byte; returns false at the end of input or if the line is abandoned.
  bool next_byte(unsigned char& byte) {
    if (!(*wait_for_key)()) {
      interrupted = true;
      return false;
    }
    return ::read(STDIN_FILENO, &byte, 1) == 1;
  }

  /// Reads one character, even beyond `max`; returns false at the end of input or if the line is abandoned.
  bool next_code_point(char32_t& code_point) {
    unsigned char bytes[4];
    if (interrupted || !next_byte(bytes[0])) return false;
    const std::size_t count = bytes[0] < 0xC0 ? 1 : bytes[0] < 0xE0 ? 2 : bytes[0] < 0xF0 ? 3 : 4;
    for (std::size_t i = 1; i < count; ++i) {
      if (!next_byte(bytes[i])) return false;
    }
    taken += count;
    code_point = read_utf8({reinterpret_cast<const char*>(bytes), count}, 0).code_point;
    return true;
  }

  /// libedit's callback: returns 1 and a character, or 0 at the end.
  static int next_character(EditLine* editor, wchar_t* character) {
    Parts& parts = of(editor);
    char32_t code_point = 0;
    for (;;) {
      const bool begins = parts.taken == 0;
      if (!parts.next_code_point(code_point)) return 0;
      // Ctrl-D typed before the line is read appears as a zero.
      if (code_point == 0 && begins) return 0;
      const bool ends = code_point == '\n' || code_point == '\r';
      if (parts.taken > parts.max && !ends) continue;  // discarded: the line is too long anyway
      *character = static_cast<wchar_t>(code_point);
      return 1;
    }
  }

  /// Bracketed paste: newlines do not end the line, and other control keys are ignored.
  static unsigned char take_paste(EditLine* editor, wint_t) {
    constexpr std::wstring_view kEnd = L"\x1b[201~";
    Parts& parts = of(editor);
    std::wstring text;
    char32_t code_point = 0;
    while (!text.ends_with(kEnd) && parts.next_code_point(code_point)) {
      if (parts.taken > parts.max) text.erase(0, text.size() - std::min(text.size(), kEnd.size()));
      text += static_cast<wchar_t>(code_point);
    }
    if (!text.ends_with(kEnd)) return CC_REFRESH;  // abandoned: the next read ends the line
    text.resize(text.size() - kEnd.size());
    std::wstring kept;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == L'\r') {  // terminals send it for a newline
        if (i + 1 == text.size() || text[i + 1] != L'\n') kept += L'\n';
      } else if (text[i] == L'\n' || text[i] == L'\t' || (text[i] >= L' ' && text[i] != 0x7F)) {
        kept += text[i];
      }
    }
    if (!kept.empty() && parts.taken <= parts.max) el_winsertstr(editor, kept.c_str());
    return CC_REFRESH;
  }

  static unsigned char add_newline(EditLine* editor, wint_t) {
    el_winsertstr(editor, L"\n");
    return CC_REFRESH;
  }
};

namespace {

/// Turns on bracketed paste: the terminal encloses pasted text in ESC [200~ and ESC [201~.
constexpr const char* kPasteIsMarked = "\x1b[?2004h";
constexpr const char* kPasteIsNotMarked = "\x1b[?2004l";

}  // namespace

LineEditor::LineEditor() : parts_(std::make_unique<Parts>()) {
  use_utf8_locale();
  parts_->editor = el_init("reprise", stdin, stderr, stderr);
  parts_->history = history_winit();
  if (parts_->editor == nullptr || parts_->history == nullptr) {
    throw std::runtime_error("the terminal does not support line editing");
  }
  el_set(parts_->editor, EL_CLIENTDATA, parts_.get());
  el_set(parts_->editor, EL_SIGNAL, 0);
  el_set(parts_->editor, EL_EDITOR, "emacs");
  el_set(parts_->editor, EL_PROMPT, &Parts::show_prompt);
  el_set(parts_->editor, EL_GETCFN, &Parts::next_character);
  el_wset(parts_->editor, EL_ADDFN, L"take-paste", L"Take pasted text", &Parts::take_paste);
  el_wset(parts_->editor, EL_ADDFN, L"add-newline", L"Begin another line", &Parts::add_newline);
  history_w(parts_->history, &parts_->event, H_SETSIZE, kMaxLines);
  history_w(parts_->history, &parts_->event, H_SETUNIQUE, 1);
  el_wset(parts_->editor, EL_HIST, history_w, parts_->history);
  // Keys with several encodings, and common shortcuts.
  struct Key {
    const char* sent;
    const char* does;
  };
  for (const Key key :
       {Key{"\\e[1~", "ed-move-to-beg"}, Key{"\\e[4~", "ed-move-to-end"}, Key{"\\e[H", "ed-move-to-beg"},
        Key{"\\e[F", "ed-move-to-end"}, Key{"\\e[3~", "ed-delete-next-char"}, Key{"^R", "em-inc-search-prev"},
        Key{"\\e[200~", "take-paste"}, Key{"\\e\\n", "add-newline"}, Key{"\\e\\r", "add-newline"}}) {
    el_set(parts_->editor, EL_BIND, key.sent, key.does, nullptr);
  }
}

LineEditor::~LineEditor() = default;

LineEditor::Read LineEditor::read(const char* prompt, std::size_t max_bytes,
                                  const std::function<bool()>& wait_for_key, std::string& line) {
  Parts& parts = *parts_;
  parts.prompt = prompt;
  parts.wait_for_key = &wait_for_key;
  parts.taken = 0;
  parts.max = max_bytes;
  parts.interrupted = false;
  line.clear();
  int count = 0;
  std::fputs(kPasteIsMarked, stderr);
  const wchar_t* typed = el_wgets(parts.editor, &count);
  std::fputs(kPasteIsNotMarked, stderr);
  if (parts.interrupted) {
    const LineInfoW* shown = el_wline(parts.editor);
    return shown != nullptr && shown->lastchar != shown->buffer ? Read::kCleared : Read::kInterrupted;
  }
  if (typed == nullptr || count <= 0) return Read::kEnd;
  if (parts.taken > max_bytes) return Read::kTooLong;
  for (int i = 0; i < count; ++i) append_utf8(line, static_cast<char32_t>(typed[i]));
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
  if (line.find_first_not_of(" \t") != std::string::npos) {
    history_w(parts.history, &parts.event, H_ENTER, typed);
  }
  return Read::kLine;
}

// -- ChatInput

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
  switch (editor_->read(prompt, kMaxBytes, wait_for_key, line)) {
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
      const bool whole = !std::exchange(skipping_, false) && line.size() <= kMaxBytes;
      if (!whole) line.clear();
      return whole ? Heard::kLine : Heard::kTooLong;
    }
    if (ended_) return std::exchange(skipping_, false) ? Heard::kTooLong : Heard::kEnd;
    scanned_ = buffer_.size();
    if (buffer_.size() > kMaxBytes) {
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
