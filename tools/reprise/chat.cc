// `reprise chat`: a conversation in the terminal, with a model in this process or, with --url, on a server.
//
// Reads lines from stdin, which may be a pipe; replies stream to stdout, everything else goes to stderr.
// Reasoning is dimmed on a terminal and omitted elsewhere. Ctrl-C ends a running reply, whose text stays in
// the conversation; at the prompt it discards the line or, if the line is empty, ends the program, as Ctrl-D
// does.

#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "base/json.h"
#include "base/utf8.h"
#include "protocol/reply/reply_message.h"
#include "protocol/reply/reply_parser.h"
#include "tools/reprise/chat_input.h"
#include "tools/reprise/chat_partner.h"
#include "tools/reprise/chat_text.h"
#include "tools/reprise/commands.h"
#include "tools/reprise/engine_flags.h"

namespace reprise::tools {

namespace {

/// The messages of a chat. Invariant: after an optional system message, user and assistant alternate; the
/// last message is the user's only while its reply is running.
class ChatHistory {
 public:
  /// An empty text removes the system message.
  void set_system(std::string text) { system_ = std::move(text); }
  void ask(std::string text) { turns_.push_back(Json{{"role", "user"}, {"content", std::move(text)}}); }
  void answer(Json message) { turns_.push_back(std::move(message)); }
  void clear() { turns_.clear(); }

  bool empty() const { return turns_.empty(); }

  /// Removes the last reply. Returns false if there is none.
  bool drop_reply() {
    if (turns_.empty()) return false;
    turns_.pop_back();
    return true;
  }
  /// Removes the last question and its reply, if any. Returns false if there is none.
  bool drop_turn() {
    if (turns_.size() % 2 == 0 && !drop_reply()) return false;
    turns_.pop_back();
    return true;
  }

  /// Replaces the conversation by one from messages(). Returns the error, without changes, if it is invalid.
  std::string load(const Json& messages) {
    if (!messages.is_array()) return "'messages' is not an array";
    std::string system;
    Json::Array turns;
    for (const Json& message : messages.as_array()) {
      const std::string* role = message.is_object() ? message.find_string("role") : nullptr;
      const std::string* content = message.is_object() ? message.find_string("content") : nullptr;
      const bool first = turns.empty() && system.empty();
      if (role != nullptr && content != nullptr && *role == "system" && first) {
        system = *content;
        continue;
      }
      const char* const expected = turns.size() % 2 == 0 ? "user" : "assistant";
      if (role == nullptr || *role != expected || (content == nullptr && turns.size() % 2 == 0)) {
        return "message " + std::to_string(turns.size() + (system.empty() ? 0 : 1)) +
               " is not a text message of the " + expected;
      }
      turns.push_back(message);
    }
    if (turns.size() % 2 != 0) return "the last message has no reply";
    system_ = std::move(system);
    turns_ = std::move(turns);
    return {};
  }

  Json messages() const {
    Json all = Json::array();
    if (!system_.empty()) all.push_back(Json{{"role", "system"}, {"content", system_}});
    for (const Json& turn : turns_) all.push_back(turn);
    return all;
  }

 private:
  std::string system_;
  Json::Array turns_;
};

/// Returns the width of the terminal at `file`; 0: no terminal, or unknown.
std::size_t columns_of_terminal(int file) {
  winsize size{};
  if (isatty(file) != 1 || ioctl(file, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

/// Prints a reply as it streams: wrapped and with dimmed reasoning on a terminal, else unchanged and without
/// reasoning. No other code may write to stdout until end().
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
constexpr std::uintmax_t kMaxFileBytes = std::uintmax_t{64} << 20;

class Chat {
 public:
  Chat(const ChatOptions& options, ChatInput& input, ChatPartner& partner);

  int run();

 private:
  /// Waits for a message or a command; `is_text`: the message is a marked block, never a command.
  ChatInput::Heard hear(std::string& message, bool& is_text);
  bool obey(const std::string& command, const std::string& rest);  // returns false to quit
  /// Answers the last message of the history. On failure restores `before`.
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
  if (!about) return kWrongUsage;
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
                   ChatInput::kMaxBytes);
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
    fits = fits && heard == ChatInput::Heard::kLine && message.size() + line.size() < ChatInput::kMaxBytes;
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
  static_cast<void>(input_.interrupted());  // discard earlier presses of Ctrl-C
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
  if (!error && bytes > kMaxFileBytes) problem = "the file is larger than 64 MiB";
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

/// Returns the exit status: 1 if a reply failed, 2 if the model cannot chat.
int chat(const ChatOptions& options) {
  if (options.url.empty()) {
    if (options.engine.model.empty()) throw UsageError("--model: is required");
    check_device(options.engine.device);  // these throw before any thread is started
    check_cpu_experts(options.engine, {options.engine.device});
    static_cast<void>(compute_options(options.engine));
  }
  use_utf8_locale();
  ChatInput input;
  ChatPartner partner(options);
  return Chat(options, input, partner).run();
}

}  // namespace

Command add_chat(CLI::App& program) {
  const auto given = std::make_shared<ChatOptions>();
  ChatOptions& options = *given;
  CLI::App* command = program.add_subcommand("chat", "Talk to a model in the terminal");
  add_engine_flags(*command, options.engine,
                   "cpu, cuda:N, auto (a GPU if there is one), or cpu-grid for tests");
  command->add_option(
      "--url", options.url,
      "Talk to a running server, such as http://127.0.0.1:8080; --model is then its name of the model");
  command->add_option("--api-key", options.api_key, "API key of the server at --url")
      ->envname("REPRISE_API_KEY");
  command->parse_complete_callback([&options] {
    if (options.url.empty()) options.engine.model = model_or_builtin(options.engine.model);
  });
  command->add_option("--system", options.system, "System message");
  command->add_option("--temperature", options.temperature,
                      "Sampling temperature; 0: greedy; default: the model's");
  command->add_option(
      "--top-p", options.top_p,
      "Sample among the most likely tokens with this share of the probability; default: the model's");
  command->add_option("--seed", options.seed, "Sampling seed; the same seed gives the same replies");
  command->add_option("--max-tokens", options.max_tokens, "Maximum length of a reply in tokens")
      ->check(CLI::Range(1U, 10'000'000U))
      ->capture_default_str();
  command->add_flag("--no-think", options.no_think, "Ask for replies without reasoning");
  command->add_flag("--no-cache", options.no_cache,
                    "Compute every prompt from its start, without the prefix cache");
  return {command, [given] { return chat(*given); }};
}

}  // namespace reprise::tools
