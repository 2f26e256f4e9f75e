#include "tools/reprise/chat.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "actors/engine.h"
#include "base/utf8.h"
#include "protocol/chat/chat_format.h"
#include "protocol/reply/reply_message.h"
#include "runtime/system.h"
#include "tools/reprise/chat_history.h"
#include "tools/reprise/chat_input.h"
#include "tools/reprise/progress.h"
#include "tools/reprise/reply_printer.h"
#include "tools/reprise/serve_config.h"

namespace reprise::tools {

namespace {

using namespace std::chrono_literals;
using protocol::CacheReport;
using protocol::ModelCard;

constexpr int kUsage = 2;
constexpr int kInterrupted = 130;
constexpr auto kLook = 20ms;  // between looks for Ctrl-C

constexpr const char* kHelp =
    "/exit         end\n"
    "/reset        forget the conversation\n"
    "/regen        answer the last message again\n"
    "/undo         take the last message and its reply back\n"
    "/system TEXT  set the system message, or remove it without TEXT\n"
    "/stats        what the cache has saved\n"
    "/help         this\n"
    "//TEXT        say /TEXT\n"
    "Ctrl-C ends a reply; at the prompt it ends the chat, as Ctrl-D does.\n";

class Chat {
 public:
  Chat(const ChatOptions& options, ChatInput& input);

  int run();

 private:
  /// Whether the model can chat; says so where it cannot.
  bool load();
  bool obey(const std::string& command, const std::string& rest);  // false: the end
  /// Answers the history's last message, which is the user's. Without an answer all is as before.
  void reply(const ChatHistory& before);
  void show_status(const CacheReport& cache, const protocol::Timing* timing, std::uint32_t tokens,
                   const char* end);
  void show_stats() const;
  protocol::GenerateRequest request() const;

  const ChatOptions& options_;
  ChatInput& input_;
  runtime::System system_;
  std::optional<actors::Engine> engine_;
  protocol::ChatFormatPtr format_;
  ChatHistory history_;
  std::uint64_t replies_ = 0, prompt_tokens_ = 0, restored_tokens_ = 0, prefilled_tokens_ = 0;
  std::uint32_t conversation_ = 1;
  bool failed_ = false;
};

actors::EngineOptions engine_options(const ChatOptions& options) {
  actors::EngineOptions engine{};
  engine.models = {{.name = model_at(options.engine.model).name,
                    .path = options.engine.model,
                    .compute = options.engine.compute,
                    .kv_dtype = options.engine.kv_dtype,
                    .isa = options.engine.isa}};
  engine.worker.device = options.engine.device;
  engine.worker.device_options.threads = options.engine.threads;
  engine.worker.state_bytes = 0;
  engine.cache = !options.no_cache;
  return engine;
}

Chat::Chat(const ChatOptions& options, ChatInput& input) : options_(options), input_(input) {
  engine_.emplace(system_, engine_options(options));
  history_.set_system(options.system);
}

bool Chat::load() {
  ModelCard card;
  std::optional<ProgressBar> bar("loading");
  while ((card = engine_->models().at(0)).state == ModelCard::State::kLoading) {
    bar->show(card.loaded_permille, 1000);
    if (input_.interrupted(kLook)) std::_Exit(kInterrupted);  // nothing was begun that would have to be ended
  }
  bar.reset();
  if (card.state == ModelCard::State::kFailed) throw std::runtime_error(engine_->health().detail);
  if (card.chat == nullptr) {
    std::fprintf(stderr, "reprise: model '%s' has %s: use `reprise generate`\n", card.id.c_str(),
                 card.takes_text ? "no chat template" : "no tokenizer");
    return false;
  }
  format_ = card.chat;
  std::fprintf(stderr, "%s, %u tokens of context; /help lists the commands\n", card.id.c_str(), card.context);
  return true;
}

int Chat::run() {
  if (!load()) return kUsage;
  const bool prompts = isatty(STDIN_FILENO) == 1;
  for (;;) {
    if (prompts) std::fputs("> ", stderr);
    std::string line;
    const ChatInput::Heard heard = input_.next(line);
    if (heard == ChatInput::Heard::kEnd || heard == ChatInput::Heard::kInterrupt) {
      if (prompts) std::fputc('\n', stderr);
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
  } else if (command == "exit") {
    return false;
  } else if (command == "reset") {
    history_.clear();
    ++conversation_;
    std::fputs("[the conversation is forgotten]\n", stderr);
  } else if (command == "regen") {
    const ChatHistory before = history_;
    if (history_.drop_reply()) {
      reply(before);
    } else {
      std::fputs("reprise: /regen: there is no reply yet\n", stderr);
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

protocol::GenerateRequest Chat::request() const {
  protocol::ChatPrompt prompt{.messages = history_.messages()};
  if (options_.no_think) prompt.template_extra = Json{{"enable_thinking", false}};
  protocol::GenerateRequest request{.prompt = std::move(prompt)};
  request.max_tokens = options_.max_tokens;
  request.sampling.temperature = options_.temperature;
  request.sampling.top_p = options_.top_p;
  if (options_.seed) request.sampling.seed = *options_.seed + replies_;
  request.conversation = "chat " + std::to_string(conversation_);
  return request;
}

void Chat::reply(const ChatHistory& before) {
  static_cast<void>(input_.interrupted());  // what was pressed before does not count
  runtime::StreamReader<protocol::Event> events = engine_->generate(request());
  std::optional<protocol::ReplyParser> parser;
  protocol::MessageBuilder message;
  ReplyPrinter printer;
  CacheReport cache;
  std::uint32_t tokens = 0;
  std::optional<protocol::Usage> usage;
  std::optional<std::string> error;
  bool at_limit = false;
  bool stopped = false;
  const auto take = [&](const protocol::ReplyPieces& pieces) {
    message.add(pieces);
    printer.print(pieces);
  };
  for (;;) {
    if (input_.interrupted()) {
      stopped = true;
      events.cancel();
      break;
    }
    runtime::Result<protocol::Event> event = events.next_blocking(runtime::deadline_after(kLook));
    if (!event) {
      if (event.error().code == runtime::ErrorCode::kDeadline) continue;
      if (!usage && !error) error = event.error().describe();
      break;
    }
    if (auto* started = std::get_if<protocol::Started>(&*event)) {
      cache = started->cache;
      parser.emplace(format_->parser({.prompt_tail = started->prompt_tail, .parse_tools = false}));
    } else if (auto* delta = std::get_if<protocol::Delta>(&*event)) {
      tokens += static_cast<std::uint32_t>(delta->tokens.size());
      if (parser) take(parser->push(delta->text));
    } else if (auto* finished = std::get_if<protocol::Finished>(&*event)) {
      at_limit = finished->reason == protocol::FinishReason::kLength;
    } else if (auto* done = std::get_if<protocol::Done>(&*event)) {
      usage = done->usage;
    } else if (auto* failed = std::get_if<protocol::Failed>(&*event)) {
      error = failed->error.message;
    }
  }
  if (parser) take(parser->finish());
  printer.end();
  ++replies_;
  if (error) {
    std::fprintf(stderr, "reprise: %s; the conversation is as before\n", error->c_str());
    failed_ = true;
  } else {
    show_status(cache, usage ? &usage->timing : nullptr, tokens,
                stopped    ? ", stopped"
                : at_limit ? ", cut at --max-tokens or the context's end"
                           : "");
  }
  if (error || (stopped && message.content().empty())) {
    history_ = before;
  } else {
    history_.answer(message.message());
  }
}

void Chat::show_status(const CacheReport& cache, const protocol::Timing* timing, std::uint32_t tokens,
                       const char* end) {
  prompt_tokens_ += cache.prompt_tokens;
  restored_tokens_ += cache.restored_tokens;
  prefilled_tokens_ += cache.prefilled_tokens;
  const std::string origin = cache.origin ? " (" + std::string(name_of(*cache.origin)) + ")" : "";
  std::fprintf(stderr, "[%u tokens restored%s, %u prefilled, miss reason %s", cache.restored_tokens,
               origin.c_str(), cache.prefilled_tokens, std::string(name_of(cache.reason)).c_str());
  if (timing != nullptr) {
    std::fprintf(stderr, "; first token after %.1f ms", timing->first_token_ms);
    if (tokens > 1 && timing->decode_ms > 0) {
      std::fprintf(stderr, ", %.1f tokens/s", (tokens - 1) * 1000 / timing->decode_ms);
    }
  }
  std::fprintf(stderr, "; %u tokens%s]\n", tokens, end);
}

void Chat::show_stats() const {
  const double share =
      prompt_tokens_ == 0 ? 0 : 100.0 * static_cast<double>(restored_tokens_) / prompt_tokens_;
  std::fprintf(stderr, "[%llu replies, %llu prompt tokens: %llu restored (%.1f %%), %llu prefilled",
               static_cast<unsigned long long>(replies_), static_cast<unsigned long long>(prompt_tokens_),
               static_cast<unsigned long long>(restored_tokens_), share,
               static_cast<unsigned long long>(prefilled_tokens_));
  double entries = 0;
  double bytes = 0;
  for (const protocol::Figure& figure : engine_->figures()) {
    if (figure.name == "reprise_cache_entries") entries = figure.value;
    if (figure.name == "reprise_cache_bytes") bytes = figure.value;
  }
  if (!options_.no_cache) std::fprintf(stderr, "; %.0f snapshots of %.1f MiB", entries, bytes / (1 << 20));
  std::fputs("]\n", stderr);
}

}  // namespace

int chat(const ChatOptions& options) {
  EngineFlags flags = options.engine;
  if (flags.model.empty()) throw UsageError("--model: is needed");
  check_device(flags.device);  // these throw before anything is started
  static_cast<void>(compute_options(flags));
  ChatInput input;
  Chat chat(options, input);
  return chat.run();
}

}  // namespace reprise::tools
