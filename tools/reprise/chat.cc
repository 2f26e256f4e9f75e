#include "tools/reprise/chat.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/utf8.h"
#include "protocol/reply/reply_message.h"
#include "tools/reprise/chat_engine.h"
#include "tools/reprise/chat_history.h"
#include "tools/reprise/chat_input.h"
#include "tools/reprise/chat_server.h"
#include "tools/reprise/chat_status.h"
#include "tools/reprise/reply_printer.h"
#include "tools/reprise/text_wrap.h"

namespace reprise::tools {

namespace {

constexpr int kUsage = 2;

constexpr const char* kHelp =
    "/exit         end; so does /quit\n"
    "/reset        forget the conversation\n"
    "/regenerate   answer the last message again; /regen for short\n"
    "/undo         take the last message and its reply back\n"
    "/system TEXT  set the system message, or remove it without TEXT\n"
    "/save FILE    write the conversation to a file, as the messages of a request\n"
    "/load FILE    go on with a conversation that was saved\n"
    "/stats        what the cache has saved\n"
    "/help         this\n"
    "//TEXT        say /TEXT\n"
    "\"\"\"           begins a message of several lines, and ends it; Alt-Enter begins a line, too\n"
    "Ctrl-C ends a reply. At the prompt it throws the line away, and in an empty one it ends the chat, as "
    "Ctrl-D does.\n";

constexpr std::string_view kBlockMark = "\"\"\"";
constexpr std::uintmax_t kMostFileBytes = std::uintmax_t{64} << 20;

class Chat {
 public:
  Chat(const ChatOptions& options, ChatInput& input, ChatPartner& partner);

  int run();

 private:
  /// Waits for a message, or a command: `is_text` tells them apart where it begins with a slash.
  ChatInput::Heard hear(std::string& message, bool& is_text);
  bool obey(const std::string& command, const std::string& rest);  // false: the end
  /// Answers the history's last message, which is the user's. Without an answer all is as before.
  void reply(const ChatHistory& before);
  void show_stats() const;
  void save(const std::string& path);
  void load(const std::string& path);

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
    bool is_text = false;
    const ChatInput::Heard heard = hear(line, is_text);
    if (heard == ChatInput::Heard::kCleared) {
      std::fputs("^C\n", stderr);
      continue;
    }
    if (heard == ChatInput::Heard::kEnd || heard == ChatInput::Heard::kInterrupt) {
      if (input_.is_terminal()) std::fputc('\n', stderr);
      break;
    }
    if (heard == ChatInput::Heard::kTooLong) {
      std::fprintf(stderr, "reprise: a message can have at most %zu bytes; this one was ignored\n",
                   ChatInput::kMostBytes);
      failed_ = true;
      continue;
    }
    if (const std::size_t valid = valid_utf8_prefix(line); valid < line.size()) {
      std::fprintf(stderr, "reprise: byte %zu of the line is not UTF-8; the line was ignored\n", valid + 1);
      failed_ = true;
      continue;
    }
    if (line.find_first_not_of(" \t\n") == std::string::npos) continue;
    if (!is_text && line[0] == '/' && !line.starts_with("//")) {
      const std::size_t space = std::min(line.find(' '), line.size());
      const std::size_t rest = line.find_first_not_of(' ', space);
      if (!obey(line.substr(1, space - 1), rest == std::string::npos ? "" : line.substr(rest))) break;
    } else {
      const ChatHistory before = history_;
      history_.ask(!is_text && line[0] == '/' ? line.substr(1) : line);
      reply(before);
    }
    if (std::ferror(stdout) != 0) return 1;
  }
  return failed_ ? 1 : 0;
}

ChatInput::Heard Chat::hear(std::string& message, bool& is_text) {
  ChatInput::Heard heard = input_.next("> ", message);
  is_text = heard == ChatInput::Heard::kLine && message.starts_with(kBlockMark);
  if (!is_text) return heard;
  message.erase(0, kBlockMark.size());
  bool fits = true;
  std::string line;
  for (bool ends = message.ends_with(kBlockMark); !ends; ends = line.ends_with(kBlockMark)) {
    heard = input_.next(". ", line);
    if (heard == ChatInput::Heard::kEnd) return fits ? ChatInput::Heard::kLine : ChatInput::Heard::kTooLong;
    if (heard == ChatInput::Heard::kInterrupt) return ChatInput::Heard::kCleared;
    if (heard == ChatInput::Heard::kCleared) return heard;
    fits = fits && heard == ChatInput::Heard::kLine && message.size() + line.size() < ChatInput::kMostBytes;
    if (fits) message += "\n" + line;
  }
  if (!fits) return ChatInput::Heard::kTooLong;
  message.resize(message.size() - kBlockMark.size());
  if (message.starts_with('\n')) message.erase(0, 1);
  if (message.ends_with('\n')) message.pop_back();
  return ChatInput::Heard::kLine;
}

bool Chat::obey(const std::string& command, const std::string& rest) {
  const bool takes_text = command == "system" || command == "save" || command == "load";
  if (!rest.empty() && !takes_text) {
    std::fprintf(stderr, "reprise: /%s takes no arguments; it was ignored\n", command.c_str());
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
  } else if (command == "save" || command == "load") {
    if (rest.empty()) {
      std::fprintf(stderr, "reprise: /%s: the file is missing: /%s FILE\n", command.c_str(), command.c_str());
    } else if (command == "save") {
      save(rest);
    } else {
      load(rest);
    }
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
    std::fprintf(stderr, "%s\n", status_line(outcome, columns_of_terminal(STDERR_FILENO)).c_str());
  }
  if (outcome.error || (outcome.stopped && message.content().empty())) {
    history_ = before;
  } else {
    history_.answer(message.message());
  }
}

void Chat::save(const std::string& path) {
  const Json messages = history_.messages();
  std::ofstream file(path);
  file << Json{{"messages", messages}}.dump() << '\n';
  file.close();
  if (file) {
    std::fprintf(stderr, "[%zu messages are saved in %s]\n", messages.size(), path.c_str());
    return;
  }
  std::fprintf(stderr, "reprise: /save: cannot write %s: %s\n", path.c_str(), std::strerror(errno));
  failed_ = true;
}

void Chat::load(const std::string& path) {
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  std::string problem = error ? error.message() : std::string();
  if (!error && bytes > kMostFileBytes) problem = "the file is larger than 64 MiB";
  if (problem.empty()) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    const auto parsed = Json::parse(text.str());
    const Json* messages = parsed.ok() && parsed->is_object() ? parsed->find("messages") : nullptr;
    problem = messages == nullptr ? "the file is not JSON with 'messages'" : history_.load(*messages);
  }
  if (!problem.empty()) {
    std::fprintf(stderr, "reprise: /load: %s: %s; the conversation is as before\n", path.c_str(),
                 problem.c_str());
    failed_ = true;
    return;
  }
  ++conversation_;
  std::fprintf(stderr, "[%zu messages are loaded]\n", history_.messages().size());
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
    if (options.engine.model.empty()) throw UsageError("--model: is required");
    check_device(options.engine.device);  // these throw before anything is started
    check_cpu_experts(options.engine, {options.engine.device});
    static_cast<void>(compute_options(options.engine));
  }
  use_utf8_locale();
  ChatInput input;
  const std::unique_ptr<ChatPartner> partner =
      options.url.empty() ? engine_partner(options) : server_partner(options);
  return Chat(options, input, *partner).run();
}

}  // namespace reprise::tools
