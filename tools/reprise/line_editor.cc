#include "tools/reprise/line_editor.h"

#include <histedit.h>
#include <langinfo.h>
#include <unistd.h>

#include <clocale>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "base/utf8.h"

namespace reprise::tools {

struct LineEditor::Parts {
  EditLine* editor = nullptr;
  HistoryW* history = nullptr;
  HistEventW event{};
  const char* prompt = "";
  const std::function<bool()>* wait_for_key = nullptr;
  std::size_t taken = 0;  // bytes of the line
  std::size_t most = 0;
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

  /// One byte; false at the end, or where the line is given up.
  bool next_byte(unsigned char& byte) {
    if (!(*wait_for_key)()) {
      interrupted = true;
      return false;
    }
    return ::read(STDIN_FILENO, &byte, 1) == 1;
  }

  /// As libedit wants it: 1 and a character, or 0 at the end.
  static int next_character(EditLine* editor, wchar_t* character) {
    Parts& parts = of(editor);
    for (;;) {
      unsigned char bytes[4];
      if (!parts.next_byte(bytes[0])) return 0;
      // A Ctrl-D that was typed before the line is read leaves a zero behind in the terminal.
      if (bytes[0] == 0 && parts.taken == 0) return 0;
      const std::size_t count = bytes[0] < 0xC0 ? 1 : bytes[0] < 0xE0 ? 2 : bytes[0] < 0xF0 ? 3 : 4;
      for (std::size_t i = 1; i < count; ++i) {
        if (!parts.next_byte(bytes[i])) return 0;
      }
      parts.taken += count;
      const bool ends = bytes[0] == '\n' || bytes[0] == '\r';
      if (parts.taken > parts.most && !ends) continue;  // it is not kept, for it will not be used
      *character =
          static_cast<wchar_t>(read_utf8({reinterpret_cast<const char*>(bytes), count}, 0).code_point);
      return 1;
    }
  }
};

namespace {

/// Characters beyond ASCII are shown as they are where the locale knows them.
void use_utf8() {
  std::setlocale(LC_CTYPE, "");
  if (std::strcmp(nl_langinfo(CODESET), "UTF-8") != 0) std::setlocale(LC_CTYPE, "C.UTF-8");
}

}  // namespace

LineEditor::LineEditor() : parts_(std::make_unique<Parts>()) {
  use_utf8();
  parts_->editor = el_init("reprise", stdin, stderr, stderr);
  parts_->history = history_winit();
  if (parts_->editor == nullptr || parts_->history == nullptr) {
    throw std::runtime_error("the terminal cannot be used for lines");
  }
  el_set(parts_->editor, EL_CLIENTDATA, parts_.get());
  el_set(parts_->editor, EL_SIGNAL, 0);
  el_set(parts_->editor, EL_EDITOR, "emacs");
  el_set(parts_->editor, EL_PROMPT, &Parts::show_prompt);
  el_set(parts_->editor, EL_GETCFN, &Parts::next_character);
  history_w(parts_->history, &parts_->event, H_SETSIZE, kMostLines);
  history_w(parts_->history, &parts_->event, H_SETUNIQUE, 1);
  el_wset(parts_->editor, EL_HIST, history_w, parts_->history);
  // Keys that terminals send in several ways, and those that people expect.
  struct Key {
    const char* sent;
    const char* does;
  };
  for (const Key key : {Key{"\\e[1~", "ed-move-to-beg"}, Key{"\\e[4~", "ed-move-to-end"},
                        Key{"\\e[H", "ed-move-to-beg"}, Key{"\\e[F", "ed-move-to-end"},
                        Key{"\\e[3~", "ed-delete-next-char"}, Key{"^R", "em-inc-search-prev"}}) {
    el_set(parts_->editor, EL_BIND, key.sent, key.does, nullptr);
  }
}

LineEditor::~LineEditor() = default;

LineEditor::Read LineEditor::read(const char* prompt, std::size_t most_bytes,
                                  const std::function<bool()>& wait_for_key, std::string& line) {
  Parts& parts = *parts_;
  parts.prompt = prompt;
  parts.wait_for_key = &wait_for_key;
  parts.taken = 0;
  parts.most = most_bytes;
  parts.interrupted = false;
  line.clear();
  int count = 0;
  const wchar_t* typed = el_wgets(parts.editor, &count);
  if (parts.interrupted) return Read::kInterrupted;
  if (typed == nullptr || count <= 0) return Read::kEnd;
  if (parts.taken > most_bytes) return Read::kTooLong;
  for (int i = 0; i < count; ++i) append_utf8(line, static_cast<char32_t>(typed[i]));
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
  if (line.find_first_not_of(" \t") != std::string::npos) {
    history_w(parts.history, &parts.event, H_ENTER, typed);
  }
  return Read::kLine;
}

}  // namespace reprise::tools
