#include "tools/reprise/chat_partner.h"

#include <cstdio>
#include <cstdlib>
#include <random>

#include "actors/engine.h"
#include "protocol/apis.h"
#include "protocol/http/http_server.h"
#include "protocol/http/log.h"
#include "runtime/system.h"
#include "tools/reprise/chat_input.h"
#include "tools/reprise/curl_handle.h"
#include "tools/reprise/progress.h"
#include "tools/reprise/serve_config.h"

namespace reprise::tools {
namespace {

using namespace std::chrono_literals;
using protocol::ModelCard;

constexpr int kInterrupted = 130;
constexpr auto kLook = 20ms;  // interval of polling for Ctrl-C
constexpr std::size_t kMaxEventBytes = std::size_t{4} << 20;
constexpr std::size_t kMaxAnswerBytes = std::size_t{16} << 20;

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

/// Key of the server in this process: 128 bits in hex.
std::string random_key() {
  std::random_device random;
  std::string key;
  char digits[9];
  for (int i = 0; i < 4; ++i) {
    std::snprintf(digits, sizeof digits, "%08x", static_cast<unsigned>(random()));
    key += digits;
  }
  return key;
}

protocol::HttpOptions http_options(const std::string& key) {
  protocol::HttpOptions http{.port = 0, .front_page = false};
  http.keys.add_key(key, "chat");
  return http;
}

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

/// Returns the message in an error body; the body itself if its form is unknown.
std::string error_in(const std::string& body) {
  const auto parsed = Json::parse(body);
  const Json* error = parsed.ok() && parsed->is_object() ? parsed->find_object("error") : nullptr;
  const std::string message = error == nullptr ? std::string() : text_in(*error, "message");
  return message.empty() ? body.substr(0, 400) : message;
}

class StreamReading {
 public:
  StreamReading(ChatOutcome& outcome, const ChatPartner::Show& show) : outcome_(outcome), show_(show) {}

  /// Returns false if an event is too long.
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
    return rest_.size() <= kMaxEventBytes;
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
    if (const Json* timings =
            parsed->find_object("timings")) {  // updated per event, so that an interrupted reply has them
      outcome_.tokens = count_in(*timings, "predicted_n");
      outcome_.restored = count_in(*timings, "cache_n");
      outcome_.prefilled = count_in(*timings, "prompt_n");
      outcome_.prompt_tokens = outcome_.restored + outcome_.prefilled;
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
  std::string rest_;  // of an incomplete event
  bool ended_ = false;
};

}  // namespace

/// A server in this process that requires a random key.
class ChatPartner::OwnServer {
 public:
  explicit OwnServer(const ChatOptions& options)
      : engine_(system_, engine_options(options)),
        key_(random_key()),
        server_(system_, loop_, engine_, http_options(key_), protocol::all_apis()) {}

  const std::string& url() const { return server_.url(); }
  const std::string& key() const { return key_; }

  ModelCard card(ChatInput& input) const {
    ModelCard card;
    ProgressBar bar("loading");
    while ((card = engine_.models().at(0)).state == ModelCard::State::kLoading) {
      bar.show(card.loaded_permille, 1000);
      if (input.interrupted(kLook)) std::_Exit(kInterrupted);  // nothing needs cleanup yet
    }
    return card;
  }
  std::string failure() const { return engine_.health().detail; }
  double figure(const char* name) const {
    for (const protocol::Figure& figure : engine_.figures()) {
      if (figure.name == name) return figure.value;
    }
    return 0;
  }

 private:
  protocol::IoLoop loop_;
  runtime::System system_;
  actors::Engine engine_;
  const std::string key_;
  protocol::HttpServer server_;
};

class ChatPartner::Exchange {
 public:
  using Take = std::function<bool(std::string_view)>;

  Exchange(const ChatPartner& partner, const char* path) : handle_(make_curl()), multi_(curl_multi_init()) {
    if (!multi_) throw std::bad_alloc();
    const std::string url = partner.base_ + path;
    curl_easy_setopt(handle_.get(), CURLOPT_URL, url.c_str());
    if (partner.own_ != nullptr) curl_easy_setopt(handle_.get(), CURLOPT_NOPROXY, "*");
    if (!partner.key_.empty()) headers_.add("Authorization: Bearer " + partner.key_);
  }
  void post(std::string body) {
    body_ = std::move(body);
    headers_.add("Content-Type: application/json");
    headers_.add("Expect:");
    curl_easy_setopt(handle_.get(), CURLOPT_POSTFIELDS, body_.c_str());
    curl_easy_setopt(handle_.get(), CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body_.size()));
  }
  /// Runs until the end of the response or Ctrl-C. Returns the error; empty on success.
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
      if (running > 0) curl_multi_poll(multi_.get(), nullptr, 0, static_cast<int>(kLook.count()), nullptr);
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

ChatPartner::ChatPartner(const ChatOptions& options)
    : options_(options), base_(options.url), key_(options.api_key), model_(options.engine.model) {
  if (base_.empty()) {
    protocol::set_log_level(protocol::LogLevel::kError);
    own_ = std::make_unique<OwnServer>(options);
    base_ = own_->url();
    key_ = own_->key();
  }
  while (base_.ends_with('/')) base_.pop_back();
  if (base_.ends_with("/v1")) base_.resize(base_.size() - 3);
  if (!base_.starts_with("http://") && !base_.starts_with("https://")) base_ = "http://" + base_;
}

ChatPartner::~ChatPartner() = default;

std::optional<std::string> ChatPartner::meet(ChatInput& input) {
  if (!own_) return find_model(input);
  const ModelCard card = own_->card(input);
  if (card.state == ModelCard::State::kFailed) {
    // Servers do not report file paths to clients, but the user of this command named one.
    throw std::runtime_error(options_.engine.model + ": " + own_->failure());
  }
  if (card.chat == nullptr) {
    std::fprintf(stderr, "reprise: model '%s' has %s: use `reprise generate`\n", card.id.c_str(),
                 card.takes_text ? "no chat template" : "no tokenizer");
    return std::nullopt;
  }
  model_ = card.id;
  return card.id + ", " + std::to_string(card.context) + " tokens of context";
}

/// Chooses the requested model, or the first one; returns a line that describes it.
std::string ChatPartner::find_model(ChatInput& input) {
  Exchange exchange(*this, "/v1/models");
  std::string body;
  bool fits = true;
  const auto take = [&](std::string_view bytes) {
    body += bytes;
    return fits = body.size() <= kMaxAnswerBytes;
  };
  const std::string problem = exchange.run(input, take);
  if (!problem.empty())
    throw std::runtime_error(base_ + ": " + (fits ? problem : "the server's list of models is too long"));
  if (exchange.status() != 200) throw std::runtime_error(base_ + ": " + error_in(body));
  const auto parsed = Json::parse(body);
  const Json::Array* models = parsed.ok() && parsed->is_object() ? parsed->find_array("data") : nullptr;
  if (models == nullptr || models->empty()) throw std::runtime_error(base_ + ": the server lists no models");
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

ChatOutcome ChatPartner::reply(const ChatWish& wish, ChatInput& input, const Show& show) {
  ChatOutcome outcome;
  StreamReading reading(outcome, show);
  // Unlike /v1, this path reports progress, for interrupted replies.
  Exchange exchange(*this, own_ ? "/chat/completions" : "/v1/chat/completions");
  exchange.post(body_of(wish));
  std::string refusal;
  bool fits = true;
  const auto take = [&](std::string_view bytes) {
    if (exchange.status() == 200) return fits = reading.take(bytes);
    refusal += bytes.substr(0, kMaxEventBytes - std::min(kMaxEventBytes, refusal.size()));
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

std::string ChatPartner::kept() const {
  if (!own_ || options_.no_cache) return {};
  char text[64];
  std::snprintf(text, sizeof(text), "; %.0f snapshots of %.1f MiB", own_->figure("reprise_cache_entries"),
                own_->figure("reprise_cache_bytes") / (1 << 20));
  return text;
}

std::string ChatPartner::body_of(const ChatWish& wish) const {
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
  if (own_) body["timings_per_token"] = true;
  return body.dump();
}

}  // namespace reprise::tools
