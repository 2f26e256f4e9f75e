#include "tools/reprise/chat_partner.h"

#include <cstdio>
#include <cstdlib>

#include "actors/engine.h"
#include "protocol/chat/chat_format.h"
#include "runtime/system.h"
#include "tools/reprise/chat_input.h"
#include "tools/reprise/curl_handle.h"
#include "tools/reprise/progress.h"
#include "tools/reprise/serve_config.h"

namespace reprise::tools {

namespace {

// -- a model in the same process

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

// -- a server

constexpr std::size_t kMostEventBytes = std::size_t{4} << 20;
constexpr std::size_t kMostAnswerBytes = std::size_t{16} << 20;

constexpr int kLookMs = 20;  // between looks for Ctrl-C

std::string text_in(const Json& object, const char* name) {
  const std::string* text = object.find_string(name);
  return text == nullptr ? std::string() : *text;
}

std::uint32_t count_in(const Json& object, const char* name) {
  const Json* value = object.find(name);
  const bool counts =
      value != nullptr && value->is_int() && value->as_int() >= 0 && value->as_int() < UINT32_MAX;
  return counts ? static_cast<std::uint32_t>(value->as_int()) : 0;
}

std::optional<double> number_in(const Json& object, const char* name) {
  const Json* value = object.find(name);
  return value != nullptr && value->is_number() ? std::optional(value->as_double()) : std::nullopt;
}

/// What an error's body says; the body itself where it is none that we know.
std::string error_in(const std::string& body) {
  const auto parsed = Json::parse(body);
  const Json* error = parsed.ok() && parsed->is_object() ? parsed->find_object("error") : nullptr;
  const std::string message = error == nullptr ? std::string() : text_in(*error, "message");
  return message.empty() ? body.substr(0, 400) : message;
}

/// Puts bytes together to the events of a stream, and those to an outcome.
class StreamReading {
 public:
  StreamReading(ChatOutcome& outcome, const ChatPartner::Show& show) : outcome_(outcome), show_(show) {}

  /// False: an event is too long.
  bool take(std::string_view bytes) {
    rest_ += bytes;
    std::size_t begin = 0;
    for (std::size_t end = rest_.find('\n', begin); end != std::string::npos; end = rest_.find('\n', begin)) {
      std::string_view line(rest_.data() + begin, end - begin);
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line.starts_with("data:")) event(line.substr(line.starts_with("data: ") ? 6 : 5));
      begin = end + 1;
    }
    rest_.erase(0, begin);
    return rest_.size() <= kMostEventBytes;
  }
  bool ended() const { return ended_; }

 private:
  void event(std::string_view data) {
    if (data == "[DONE]") {
      ended_ = true;
      return;
    }
    const auto parsed = Json::parse(data);
    if (!parsed.ok() || !parsed->is_object()) return;
    if (parsed->find_object("error") != nullptr) outcome_.error = error_in(std::string(data));
    if (const Json::Array* choices = parsed->find_array("choices"); choices != nullptr && !choices->empty()) {
      choice(choices->front());
    }
    if (const Json* usage = parsed->find_object("usage")) {
      outcome_.tokens = count_in(*usage, "completion_tokens");
      outcome_.prompt_tokens = count_in(*usage, "prompt_tokens");
      outcome_.prefilled = outcome_.prompt_tokens;
    }
    if (const Json* own = parsed->find_object("reprise")) account(*own);
  }

  void choice(const Json& one) {
    if (!one.is_object()) return;
    outcome_.at_limit = outcome_.at_limit || text_in(one, "finish_reason") == "length";
    const Json* delta = one.find_object("delta");
    if (delta == nullptr) return;
    protocol::ReplyPieces pieces;
    if (std::string text = text_in(*delta, "reasoning_content"); !text.empty()) {
      pieces.emplace_back(protocol::ReplyReasoning{std::move(text)});
    }
    if (std::string text = text_in(*delta, "content"); !text.empty()) {
      pieces.emplace_back(protocol::ReplyContent{std::move(text)});
    }
    if (!pieces.empty()) show_(pieces);
  }

  void account(const Json& own) {
    outcome_.restored = count_in(own, "restored_tokens");
    outcome_.prefilled = count_in(own, "prefilled_tokens");
    outcome_.restored_from = text_in(own, "restored_from");
    outcome_.miss_reason = text_in(own, "miss_reason");
    outcome_.miss_position = count_in(own, "miss_position");
    outcome_.first_token_ms = number_in(own, "first_token_ms");
    const auto decode_ms = number_in(own, "decode_ms");
    if (decode_ms && *decode_ms > 0 && outcome_.tokens > 1) {
      outcome_.tokens_per_second = (outcome_.tokens - 1) * 1000 / *decode_ms;
    }
  }

  ChatOutcome& outcome_;
  const ChatPartner::Show& show_;
  std::string rest_;  // of an event that is not whole yet
  bool ended_ = false;
};

class ServerPartner final : public ChatPartner {
 public:
  explicit ServerPartner(const ChatOptions& options) : options_(options), base_(options.url) {
    while (base_.ends_with('/')) base_.pop_back();
    if (base_.ends_with("/v1")) base_.resize(base_.size() - 3);
    if (!base_.starts_with("http://") && !base_.starts_with("https://")) base_ = "http://" + base_;
    model_ = options.engine.model;
  }

  std::optional<std::string> meet(ChatInput& input) override {
    Exchange exchange(*this, "/v1/models");
    std::string body;
    bool fits = true;
    const auto take = [&](std::string_view bytes) {
      body += bytes;
      return fits = body.size() <= kMostAnswerBytes;
    };
    const std::string problem = exchange.run(input, take);
    if (!problem.empty())
      throw std::runtime_error(base_ + ": " + (fits ? problem : "the server's list of models is too long"));
    if (exchange.status() != 200) throw std::runtime_error(base_ + ": " + error_in(body));
    const auto parsed = Json::parse(body);
    const Json::Array* models = parsed.ok() && parsed->is_object() ? parsed->find_array("data") : nullptr;
    if (models == nullptr || models->empty())
      throw std::runtime_error(base_ + ": the server lists no models");
    std::string served;
    bool known = false;
    for (const Json& model : *models) {
      const std::string id = model.is_object() ? text_in(model, "id") : std::string();
      known = known || id == model_;
      served += (served.empty() ? "" : ", ") + id;
      if (model_.empty()) known = !(model_ = id).empty();
    }
    if (!known) throw std::runtime_error(base_ + ": there is no model '" + model_ + "'; served: " + served);
    return model_ + " at " + base_;
  }

  ChatOutcome reply(const ChatWish& wish, ChatInput& input, const Show& show) override {
    ChatOutcome outcome;
    StreamReading reading(outcome, show);
    Exchange exchange(*this, "/v1/chat/completions");
    exchange.post(body_of(wish));
    std::string refusal;
    bool fits = true;
    const auto take = [&](std::string_view bytes) {
      if (exchange.status() == 200) return fits = reading.take(bytes);
      refusal += bytes.substr(0, kMostEventBytes - std::min(kMostEventBytes, refusal.size()));
      return true;
    };
    const std::string problem = exchange.run(input, take);
    outcome.stopped = exchange.stopped();
    if (outcome.stopped || outcome.error) return outcome;
    if (!fits) {
      outcome.error = "an event of the reply is too long";
    } else if (!problem.empty()) {
      outcome.error = problem;
    } else if (exchange.status() != 200) {
      outcome.error = error_in(refusal);
    } else if (!reading.ended()) {
      outcome.error = "the server ended its reply early";
    }
    return outcome;
  }

 private:
  using Take = std::function<bool(std::string_view)>;

  /// One request and its answer.
  class Exchange {
   public:
    Exchange(const ServerPartner& partner, const char* path)
        : handle_(make_curl()), multi_(curl_multi_init()) {
      if (!multi_) throw std::bad_alloc();
      const std::string url = partner.base_ + path;
      curl_easy_setopt(handle_.get(), CURLOPT_URL, url.c_str());
      if (!partner.options_.api_key.empty())
        headers_.add("Authorization: Bearer " + partner.options_.api_key);
    }
    void post(std::string body) {
      body_ = std::move(body);
      headers_.add("Content-Type: application/json");
      headers_.add("Expect:");
      curl_easy_setopt(handle_.get(), CURLOPT_POSTFIELDS, body_.c_str());
      curl_easy_setopt(handle_.get(), CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body_.size()));
    }
    /// Until the answer's end or Ctrl-C; what went wrong, or nothing.
    std::string run(ChatInput& input, const Take& take) {
      take_ = &take;
      curl_easy_setopt(handle_.get(), CURLOPT_HTTPHEADER, headers_.get());
      curl_easy_setopt(handle_.get(), CURLOPT_WRITEFUNCTION, &Exchange::written);
      curl_easy_setopt(handle_.get(), CURLOPT_WRITEDATA, this);
      curl_multi_add_handle(multi_.get(), handle_.get());
      std::string problem;
      int running = 1;
      while (running > 0 && !stopped_ && problem.empty()) {
        const CURLMcode went = curl_multi_perform(multi_.get(), &running);
        if (went != CURLM_OK) problem = curl_multi_strerror(went);
        if (running > 0) curl_multi_poll(multi_.get(), nullptr, 0, kLookMs, nullptr);
        stopped_ = input.interrupted();
      }
      int left = 0;
      while (const CURLMsg* message = curl_multi_info_read(multi_.get(), &left)) {
        if (message->msg == CURLMSG_DONE && message->data.result != CURLE_OK) {
          problem = curl_easy_strerror(message->data.result);
        }
      }
      curl_multi_remove_handle(multi_.get(), handle_.get());
      return problem;
    }
    bool stopped() const { return stopped_; }
    long status() const {
      long status = 0;
      curl_easy_getinfo(handle_.get(), CURLINFO_RESPONSE_CODE, &status);
      return status;
    }

   private:
    static std::size_t written(char* bytes, std::size_t, std::size_t count, void* self) {
      return (*static_cast<Exchange*>(self)->take_)({bytes, count}) ? count : 0;
    }

    CurlHandle handle_;
    CurlMulti multi_;
    CurlHeaders headers_;
    std::string body_;
    const Take* take_ = nullptr;
    bool stopped_ = false;
  };

  std::string body_of(const ChatWish& wish) const {
    Json body{{"model", model_},
              {"messages", wish.messages},
              {"max_tokens", options_.max_tokens},
              {"stream", true},
              {"stream_options", Json{{"include_usage", true}}},
              {"prompt_cache_key", "chat " + std::to_string(wish.conversation)}};
    if (options_.temperature) body["temperature"] = *options_.temperature;
    if (options_.top_p) body["top_p"] = *options_.top_p;
    if (options_.seed) body["seed"] = static_cast<std::int64_t>(*options_.seed + wish.number);
    if (options_.no_think) body["chat_template_kwargs"] = Json{{"enable_thinking", false}};
    if (options_.no_cache) body["cache_prompt"] = false;
    return body.dump();
  }

  const ChatOptions& options_;
  std::string base_;   // "http://127.0.0.1:8080"
  std::string model_;  // as the server calls it
};

}  // namespace

std::unique_ptr<ChatPartner> engine_partner(const ChatOptions& options) {
  return std::make_unique<EnginePartner>(options);
}

std::unique_ptr<ChatPartner> server_partner(const ChatOptions& options) {
  return std::make_unique<ServerPartner>(options);
}

}  // namespace reprise::tools
