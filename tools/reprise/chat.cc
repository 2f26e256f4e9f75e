#include "tools/reprise/chat.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/utf8.h"
#include "protocol/reply/reply_message.h"
#include "tools/reprise/chat_engine.h"
#include "tools/reprise/chat_history.h"
#include "tools/reprise/chat_input.h"
#include "tools/reprise/chat_server.h"
#include "tools/reprise/chat_status.h"
#include "tools/reprise/reply_printer.h"

namespace reprise::tools {

namespace {

constexpr int kUsage = 2;

constexpr const char* kHelp =
    "/exit         end; so does /quit\n"
    "/reset        forget the conversation\n"
    "/regenerate   answer the last message again; /regen for short\n"
    "/undo         take the last message and its reply back\n"
    "/system TEXT  set the system message, or remove it without TEXT\n"
    "/stats        what the cache has saved\n"
    "/help         this\n"
    "//TEXT        say /TEXT\n"
    "Ctrl-C ends a reply; at the prompt it ends the chat, as Ctrl-D does.\n";

/// Columns of the terminal that stderr is; 0: it is none, or does not tell.
std::size_t terminal_columns() {
  winsize size{};
  if (isatty(STDERR_FILENO) != 1 || ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

class Chat {
 public:
  Chat(const ChatOptions& options, ChatInput& input, ChatPartner& partner);

  int run();

 private:
  bool obey(const std::string& command, const std::string& rest);  // false: the end
  /// Answers the history's last message, which is the user's. Without an answer all is as before.
  void reply(const ChatHistory& before);
  void show_stats() const;

  ChatInput& input_;
  ChatPartner& partner_;
  ChatHistory history_;
  std::uint64_t replies_ = 0, prompt_tokens_ = 0, restored_tokens_ = 0, prefilled_tokens_ = 0;
  std::uint32_t conversation_ = 1;
  bool failed_ = false;
};

Chat::Chat(const ChatOptions& options, ChatInput& input, ChatPartner& partner)
    : input_(input), partner_(partner) {
  history_.set_system(options.system);
}

int Chat::run() {
  const std::optional<std::string> about = partner_.meet(input_);
  if (!about) return kUsage;
  std::fprintf(stderr, "%s; /help lists the commands\n", about->c_str());
  for (;;) {
    std::string line;
    const ChatInput::Heard heard = input_.next("> ", line);
    if (heard == ChatInput::Heard::kEnd || heard == ChatInput::Heard::kInterrupt) {
      if (input_.is_terminal()) std::fputc('\n', stderr);
      break;
    }
    if (heard == ChatInput::Heard::kTooLong) {
      std::fprintf(stderr, "reprise: a line has at most %zu bytes; it was ignored\n", ChatInput::kMostBytes);
      failed_ = true;
      continue;
    }
    if (const std::size_t valid = valid_utf8_prefix(line); valid < line.size()) {
      std::fprintf(stderr, "reprise: byte %zu of the line is no UTF-8; it was ignored\n", valid + 1);
      failed_ = true;
      continue;
    }
    if (line.find_first_not_of(" \t") == std::string::npos) continue;
    if (line[0] == '/' && !line.starts_with("//")) {
      const std::size_t space = std::min(line.find(' '), line.size());
      const std::size_t rest = line.find_first_not_of(' ', space);
      if (!obey(line.substr(1, space - 1), rest == std::string::npos ? "" : line.substr(rest))) break;
    } else {
      const ChatHistory before = history_;
      history_.ask(line[0] == '/' ? line.substr(1) : line);
      reply(before);
    }
    if (std::ferror(stdout) != 0) return 1;
  }
  return failed_ ? 1 : 0;
}

bool Chat::obey(const std::string& command, const std::string& rest) {
  if (!rest.empty() && command != "system") {
    std::fprintf(stderr, "reprise: /%s takes nothing behind it; it was ignored\n", command.c_str());
  } else if (command == "exit" || command == "quit") {
    return false;
  } else if (command == "reset") {
    history_.clear();
    ++conversation_;
    std::fputs("[the conversation is forgotten]\n", stderr);
  } else if (command == "regen" || command == "regenerate") {
    const ChatHistory before = history_;
    if (history_.drop_reply()) {
      reply(before);
    } else {
      std::fprintf(stderr, "reprise: /%s: there is no reply yet\n", command.c_str());
    }
  } else if (command == "undo") {
    std::fputs(history_.drop_turn() ? "[the last turn is taken back]\n"
                                    : "reprise: /undo: there is nothing to take back\n",
               stderr);
  } else if (command == "system") {
    history_.set_system(rest);
    std::fputs(rest.empty() ? "[no system message]\n" : "[the system message is set]\n", stderr);
  } else if (command == "stats") {
    show_stats();
  } else if (command == "help") {
    std::fputs(kHelp, stderr);
  } else {
    std::fprintf(stderr, "reprise: there is no command /%s; /help lists them, //%s says it\n",
                 command.c_str(), command.c_str());
  }
  return true;
}

void Chat::reply(const ChatHistory& before) {
  static_cast<void>(input_.interrupted());  // what was pressed before does not count
  protocol::MessageBuilder message;
  ReplyPrinter printer;
  const ChatOutcome outcome =
      partner_.reply({.messages = history_.messages(), .number = replies_, .conversation = conversation_},
                     input_, [&](const protocol::ReplyPieces& pieces) {
                       message.add(pieces);
                       printer.print(pieces);
                     });
  printer.end();
  ++replies_;
  if (outcome.error) {
    std::fprintf(stderr, "reprise: %s; the conversation is as before\n", outcome.error->c_str());
    failed_ = true;
  } else {
    prompt_tokens_ += outcome.prompt_tokens;
    restored_tokens_ += outcome.restored;
    prefilled_tokens_ += outcome.prefilled;
    std::fprintf(stderr, "%s\n", status_line(outcome, terminal_columns()).c_str());
  }
  if (outcome.error || (outcome.stopped && message.content().empty())) {
    history_ = before;
  } else {
    history_.answer(message.message());
  }
}

void Chat::show_stats() const {
  const double share =
      prompt_tokens_ == 0 ? 0 : 100.0 * static_cast<double>(restored_tokens_) / prompt_tokens_;
  std::fprintf(stderr, "[%llu replies, %llu prompt tokens: %llu restored (%.1f %%), %llu prefilled%s]\n",
               static_cast<unsigned long long>(replies_), static_cast<unsigned long long>(prompt_tokens_),
               static_cast<unsigned long long>(restored_tokens_), share,
               static_cast<unsigned long long>(prefilled_tokens_), partner_.kept().c_str());
}

}  // namespace

int chat(const ChatOptions& options) {
  if (options.url.empty()) {
    if (options.engine.model.empty()) throw UsageError("--model: is needed");
    check_device(options.engine.device);  // these throw before anything is started
    check_cpu_experts(options.engine, {options.engine.device});
    static_cast<void>(compute_options(options.engine));
  }
  ChatInput input;
  const std::unique_ptr<ChatPartner> partner =
      options.url.empty() ? engine_partner(options) : server_partner(options);
  return Chat(options, input, *partner).run();
}

}  // namespace reprise::tools
