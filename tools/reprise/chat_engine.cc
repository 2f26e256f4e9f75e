#include "tools/reprise/chat_engine.h"

#include <cstdio>
#include <cstdlib>

#include "actors/engine.h"
#include "protocol/chat/chat_format.h"
#include "runtime/system.h"
#include "tools/reprise/chat_input.h"
#include "tools/reprise/progress.h"
#include "tools/reprise/serve_config.h"

namespace reprise::tools {
namespace {

using namespace std::chrono_literals;
using protocol::CacheReport;
using protocol::ModelCard;

constexpr int kInterrupted = 130;
constexpr auto kLook = 20ms;  // between looks for Ctrl-C

actors::EngineOptions engine_options(const ChatOptions& options) {
  actors::EngineOptions engine{};
  engine.models = {{.name = model_at(options.engine.model).name,
                    .path = options.engine.model,
                    .compute = options.engine.compute,
                    .kv_dtype = options.engine.kv_dtype,
                    .isa = options.engine.isa}};
  engine.worker.device = options.engine.device;
  engine.worker.device_options = device_options(options.engine);
  engine.worker.state_bytes = 0;
  engine.cache = !options.no_cache;
  return engine;
}

class EnginePartner final : public ChatPartner {
 public:
  explicit EnginePartner(const ChatOptions& options) : options_(options) {
    engine_.emplace(system_, engine_options(options));
  }

  std::optional<std::string> meet(ChatInput& input) override {
    ModelCard card;
    std::optional<ProgressBar> bar("loading");
    while ((card = engine_->models().at(0)).state == ModelCard::State::kLoading) {
      bar->show(card.loaded_permille, 1000);
      if (input.interrupted(kLook))
        std::_Exit(kInterrupted);  // nothing was begun that would have to be ended
    }
    bar.reset();
    if (card.state == ModelCard::State::kFailed) {
      // Clients of a server are not told where files lie; whoever named one is.
      throw std::runtime_error(options_.engine.model + ": " + engine_->health().detail);
    }
    if (card.chat == nullptr) {
      std::fprintf(stderr, "reprise: model '%s' has %s: use `reprise generate`\n", card.id.c_str(),
                   card.takes_text ? "no chat template" : "no tokenizer");
      return std::nullopt;
    }
    format_ = card.chat;
    return card.id + ", " + std::to_string(card.context) + " tokens of context";
  }

  ChatOutcome reply(const ChatWish& wish, ChatInput& input, const Show& show) override;
  std::string kept() const override;

 private:
  protocol::GenerateRequest request(const ChatWish& wish) const;

  const ChatOptions& options_;
  runtime::System system_;
  std::optional<actors::Engine> engine_;
  protocol::ChatFormatPtr format_;
};

protocol::GenerateRequest EnginePartner::request(const ChatWish& wish) const {
  protocol::ChatPrompt prompt{.messages = wish.messages};
  if (options_.no_think) prompt.template_extra = Json{{"enable_thinking", false}};
  protocol::GenerateRequest request{.prompt = std::move(prompt)};
  request.max_tokens = options_.max_tokens;
  request.sampling.temperature = options_.temperature;
  request.sampling.top_p = options_.top_p;
  if (options_.seed) request.sampling.seed = *options_.seed + wish.number;
  request.conversation = "chat " + std::to_string(wish.conversation);
  return request;
}

void tell(const CacheReport& cache, ChatOutcome& outcome) {
  outcome.prompt_tokens = cache.prompt_tokens;
  outcome.restored = cache.restored_tokens;
  outcome.prefilled = cache.prefilled_tokens;
  if (cache.origin) outcome.restored_from = name_of(*cache.origin);
  outcome.miss_reason = name_of(cache.reason);
  outcome.miss_position = cache.known_tokens;
}

ChatOutcome EnginePartner::reply(const ChatWish& wish, ChatInput& input, const Show& show) {
  runtime::StreamReader<protocol::Event> events = engine_->generate(request(wish));
  std::optional<protocol::ReplyParser> parser;
  ChatOutcome outcome;
  std::optional<protocol::Usage> usage;
  for (;;) {
    if (input.interrupted()) {
      outcome.stopped = true;
      events.cancel();
      break;
    }
    runtime::Result<protocol::Event> event = events.next_blocking(runtime::deadline_after(kLook));
    if (!event) {
      if (event.error().code == runtime::ErrorCode::kDeadline) continue;
      if (!usage && !outcome.error) outcome.error = event.error().describe();
      break;
    }
    if (auto* started = std::get_if<protocol::Started>(&*event)) {
      tell(started->cache, outcome);
      parser.emplace(format_->parser({.prompt_tail = started->prompt_tail, .parse_tools = false}));
    } else if (auto* delta = std::get_if<protocol::Delta>(&*event)) {
      outcome.tokens += static_cast<std::uint32_t>(delta->tokens.size());
      if (parser) show(parser->push(delta->text));
    } else if (auto* finished = std::get_if<protocol::Finished>(&*event)) {
      outcome.at_limit = finished->reason == protocol::FinishReason::kLength;
    } else if (auto* done = std::get_if<protocol::Done>(&*event)) {
      usage = done->usage;
    } else if (auto* failed = std::get_if<protocol::Failed>(&*event)) {
      outcome.error = failed->error.message;
    }
  }
  if (parser) show(parser->finish());
  if (!usage) return outcome;
  outcome.first_token_ms = usage->timing.first_token_ms;
  if (outcome.tokens > 1 && usage->timing.decode_ms > 0) {
    outcome.tokens_per_second = (outcome.tokens - 1) * 1000 / usage->timing.decode_ms;
  }
  return outcome;
}

std::string EnginePartner::kept() const {
  double entries = 0;
  double bytes = 0;
  for (const protocol::Figure& figure : engine_->figures()) {
    if (figure.name == "reprise_cache_entries") entries = figure.value;
    if (figure.name == "reprise_cache_bytes") bytes = figure.value;
  }
  if (options_.no_cache) return {};
  char text[64];
  std::snprintf(text, sizeof(text), "; %.0f snapshots of %.1f MiB", entries, bytes / (1 << 20));
  return text;
}

}  // namespace

std::unique_ptr<ChatPartner> engine_partner(const ChatOptions& options) {
  return std::make_unique<EnginePartner>(options);
}

}  // namespace reprise::tools
