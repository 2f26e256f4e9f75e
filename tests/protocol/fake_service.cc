#include "tests/protocol/fake_service.h"

#include <algorithm>

namespace reprise::protocol {

using runtime::Actor;
using runtime::Result;
using runtime::StreamWriter;
using runtime::Task;

namespace {

constexpr std::chrono::milliseconds kStep{2};  // between checks whether the reader is there
constexpr std::uint32_t kPromptTokens = 9;

ReplyToken token_of(const std::string& text, int id, const SamplingOverrides& sampling) {
  ReplyToken token{.id = id, .bytes = text};
  if (sampling.logprobs) {
    token.logprob = -0.25;
    for (int i = 0; i < *sampling.logprobs; ++i) {
      token.top.push_back({id + i, i == 0 ? text : "alternative" + std::to_string(i), -0.25 - i});
    }
  }
  return token;
}

Usage usage_of(std::uint32_t completion_tokens) {
  return {.prompt_tokens = kPromptTokens,
          .completion_tokens = completion_tokens,
          .cache = {.prompt_tokens = kPromptTokens,
                    .restored_tokens = 5,
                    .prefilled_tokens = 4,
                    .reason = MissReason::kNoCheckpoint,
                    .known_tokens = 7,
                    .lost_tokens = 2,
                    .behind_tokens = 30,
                    .origin = Origin::kHistory,
                    .tier = Tier::kDevice},
          .timing = {.queued_ms = 1.5, .prefill_ms = 2.25, .first_token_ms = 4, .decode_ms = 8}};
}

SharedTokens tokens_of(const GenerateRequest& request) {
  if (const auto* tokens = std::get_if<TokenList>(&request.prompt)) return share_tokens(*tokens);
  return share_tokens(TokenList(kPromptTokens, 7));
}

ScriptStep failure(ErrorKind code, std::string message) {
  return Event(Failed{{.kind = code, .message = std::move(message)}});
}

}  // namespace

class FakeRequest : public Actor {
 public:
  using Accepts = runtime::Messages<>;
  FakeRequest(FakeService& service, Script script, StreamWriter<Event> writer)
      : service_(service), script_(std::move(script)), writer_(std::move(writer)) {}
  void on_start() { launch(play()); }

 private:
  Task<void> play() {
    bool wanted = true;
    for (std::size_t i = 0; wanted && i < script_.size(); ++i) {
      ScriptStep& step = script_[i];
      if (auto* event = std::get_if<Event>(&step)) {
        auto writing = writer_.write(std::move(*event));
        const Result<void> written = co_await writing;
        wanted = written.ok();
        if (wanted) ++service_.written_;
      } else if (auto* for_ever = std::get_if<ForEver>(&step)) {
        while (wanted) {
          auto writing = writer_.write(Event(for_ever->delta));
          const Result<void> written = co_await writing;
          wanted = written.ok();
          if (wanted) ++service_.written_;
        }
      } else {
        auto* pause = std::get_if<Pause>(&step);
        const auto end = runtime::deadline_after(pause == nullptr ? std::chrono::hours(1) : pause->time);
        while (wanted && runtime::Clock::now() < end && !(pause == nullptr && service_.released_)) {
          auto sleeping = runtime::sleep_for(kStep);
          const Result<void> slept = co_await sleeping;
          wanted = !writer_.reader_gone();
        }
      }
    }
    if (!wanted) ++service_.left_;
    writer_.close();
    --service_.live_;
    stop();
  }

  FakeService& service_;
  Script script_;
  StreamWriter<Event> writer_;
};

Script reply_with(const GenerateRequest& request, const std::vector<std::string>& texts,
                  FinishReason reason) {
  Script script;
  script.push_back(Event(Admitted{"fake", kPromptTokens}));
  script.push_back(Event(Started{usage_of(0).cache, "<|im_start|>assistant\n", tokens_of(request)}));
  int id = 100;
  for (const std::string& text : texts) {
    for (std::uint32_t choice = 0; choice < request.n; ++choice) {
      script.push_back(Event(Delta{choice, text, {token_of(text, id, request.sampling)}}));
    }
    ++id;
  }
  for (std::uint32_t choice = 0; choice < request.n; ++choice) {
    script.push_back(Event(Finished{choice, reason}));
  }
  script.push_back(Event(Done{usage_of(static_cast<std::uint32_t>(texts.size()) * request.n)}));
  return script;
}

Script embed_with(const GenerateRequest& request, std::vector<float> values) {
  Script script = reply_with(request, {});
  script.resize(2);
  script.push_back(Event(Embedded{std::move(values)}));
  script.push_back(Event(Done{usage_of(0)}));
  return script;
}

std::string last_words(const GenerateRequest& request) {
  if (const auto* text = std::get_if<std::string>(&request.prompt)) return *text;
  const auto* chat = std::get_if<ChatPrompt>(&request.prompt);
  if (chat == nullptr || chat->messages.size() == 0) return {};
  const std::string* content = chat->messages.as_array().back().find_string("content");
  return content == nullptr ? std::string() : *content;
}

Script default_script(const GenerateRequest& request) {
  if (request.embedding) return embed_with(request, {3, 0, 4});
  const std::string words = last_words(request);
  const auto asks = [&](std::string_view what) { return words.find(what) != std::string::npos; };
  if (asks("fail at once")) return {failure(ErrorKind::kOverloaded, "the queue is full")};
  if (asks("call a tool")) {
    return reply_with(request, {"<tool_call>\n{\"name\": \"get_", "weather\", \"argu",
                                "ments\": {\"city\": ", "\"Paris\"}}\n</tool_", "call>"});
  }
  if (asks("think")) {
    return reply_with(request, {"<think>\nLet me", " see.\n</think>\n\n", "Here", " it is."});
  }
  if (asks("go on for ever")) {
    Script script = reply_with(request, {});
    script.resize(2);
    script.push_back(ForEver{Delta{0, "word ", {token_of("word ", 100, request.sampling)}}});
    return script;
  }
  Script script = reply_with(request, {"Hel", "lo, ", "wor", "ld!"});
  if (asks("fail later")) {
    script.resize(4);
    script.push_back(failure(ErrorKind::kInternal, "the device is on fire"));
  }
  if (asks("wait half way")) script.insert(script.begin() + 3, Hold{});
  if (asks("wait in the queue")) script.insert(script.begin(), Hold{});
  return script;
}

FakeService::FakeService(runtime::System& system) : system_(system), writer_(default_script) {}

void FakeService::set_script(Writer writer) {
  const std::lock_guard lock(mutex_);
  writer_ = std::move(writer);
}
void FakeService::set_health(Health health) {
  const std::lock_guard lock(mutex_);
  health_ = std::move(health);
}
void FakeService::set_chat_template(std::string source) {
  const std::lock_guard lock(mutex_);
  chat_ = *ChatFormat::make(std::move(source), {});
}
void FakeService::set_ask_failure(std::optional<runtime::ErrorCode> failure) {
  const std::lock_guard lock(mutex_);
  ask_failure_ = failure;
}
std::vector<GenerateRequest> FakeService::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

runtime::StreamReader<Event> FakeService::generate(GenerateRequest request) {
  auto [writer, reader] = runtime::make_stream<Event>(kEventWindow);
  Script script;
  {
    const std::lock_guard lock(mutex_);
    script = writer_(request);
    requests_.push_back(std::move(request));
  }
  ++live_;
  system_.spawn<FakeRequest>({}, *this, std::move(script), std::move(writer));
  return std::move(reader);
}

template <class T>
runtime::Ask<Answer<T>> FakeService::answer(Answer<T> value) const {
  const std::lock_guard lock(mutex_);
  return runtime::Ask<Answer<T>>(ask_failure_ ? Result<Answer<T>>(*ask_failure_)
                                              : Result<Answer<T>>(std::move(value)));
}

runtime::Ask<Answer<Tokenized>> FakeService::tokenize(TokenizeRequest request) {
  Tokenized answer;  // one token per byte, 1 ms of work
  if (request.caller.time) *request.caller.time += 1000 * request.text.size();
  for (const char c : request.text) {
    answer.tokens.push_back(static_cast<unsigned char>(c));
    answer.pieces.push_back(std::string(1, c));
  }
  return this->answer<Tokenized>(std::move(answer));
}

runtime::Ask<Answer<Detokenized>> FakeService::detokenize(DetokenizeRequest request) {
  Answer<Detokenized> answer = Detokenized{};
  for (const TokenId id : request.tokens) {
    if (id > 255) {
      answer = Error{ErrorKind::kInvalid, std::to_string(id) + " is not a token", "tokens"};
      break;
    }
    std::get<Detokenized>(answer).text += static_cast<char>(id);
  }
  return this->answer<Detokenized>(std::move(answer));
}

runtime::Ask<Answer<Rendered>> FakeService::render(RenderRequest request) {
  Rendered rendered{.prompt = request.chat.messages.dump() + "<|im_start|>assistant\n"};
  if (request.want_tokens) rendered.tokens.resize(rendered.prompt.size());  // one per byte
  Answer<Rendered> answer = std::move(rendered);
  return this->answer<Rendered>(std::move(answer));
}

std::vector<ModelCard> FakeService::models() const {
  const std::lock_guard lock(mutex_);
  return {{.id = "fake",
           .created = 1'700'000'000,
           .architecture = "scripted",
           .context = 4096,
           .vocab = 256,
           .takes_text = true,
           .chat = chat_,
           .state = ModelCard::State::kReady}};
}

bool FakeService::end_reasoning(const std::string& reply_id, const std::string& tenant) {
  const std::lock_guard lock(mutex_);
  return live_ > 0 && std::any_of(requests_.begin(), requests_.end(), [&](const GenerateRequest& one) {
           return one.origin.reply_id == reply_id && one.origin.tenant == tenant;
         });
}

Health FakeService::health() const {
  const std::lock_guard lock(mutex_);
  return health_;
}

std::vector<Figure> FakeService::figures() const {
  return {{.kind = Figure::Kind::kGauge,
           .name = "reprise_sequences",
           .help = "Sequences being computed",
           .value = static_cast<double>(live_)},
          {.kind = Figure::Kind::kCounter,
           .name = "reprise_restored_tokens_total",
           .help = "Tokens restored",
           .labels = {{"model", "fake"}},
           .value = 12}};
}

}  // namespace reprise::protocol
