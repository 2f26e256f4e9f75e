// `reprise generate` and `reprise logits`: run one prompt without actors or HTTP.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "actors/request/chat_tokens.h"
#include "base/json.h"
#include "base/sampling.h"
#include "models/model.h"
#include "models/sampling/sampler.h"
#include "models/text/chat_template_source.h"
#include "models/text/text_stream.h"
#include "models/text/tokenizer_load.h"
#include "protocol/chat/chat_format.h"
#include "tools/reprise/commands.h"
#include "tools/reprise/engine_flags.h"
#include "tools/reprise/progress.h"

namespace reprise::tools {

namespace {

/// One sequence on one model, without actors: the shortest path through models/ and gpu/.
class SingleSequence {
 public:
  /// Reads all weights once, to find damage before computing. Throws UsageError, models::LoadError.
  explicit SingleSequence(const EngineFlags& flags);

  models::Model& model() { return *model_; }

  /// Starts a new sequence of up to `tokens`. Throws UsageError if the model does not support that many.
  void begin(std::size_t tokens);

  /// Appends tokens and calls `row(logits)` for the last, or with `all` for each, in order. The first call
  /// prefills the prompt; later calls decode one token each. Throws UsageError for ids outside the
  /// vocabulary.
  template <class Row>
  void append(std::span<const TokenId> tokens, bool all, Row row) {
    check(tokens);
    const models::Phase phase =
        std::exchange(begun_, true) ? models::Phase::kDecode : models::Phase::kPrefill;
    while (!tokens.empty()) {
      const std::size_t count = std::min(
          tokens.size(), phase == models::Phase::kDecode && !model_->rules().phases_mix ? 1 : kSliceTokens);
      const bool last = count == tokens.size();
      const models::Slice slice{.sequence = &*sequence_,
                                .tokens = tokens.first(count),
                                .logits = all    ? models::Slice::Logits::kAll
                                          : last ? models::Slice::Logits::kLast
                                                 : models::Slice::Logits::kNone,
                                .adapter = adapter_};
      const std::span<const float> logits = model_->forward({&slice, 1}, phase);
      const std::size_t vocab = model_->config().vocab;
      for (std::size_t i = 0; i < logits.size(); i += vocab) row(logits.subspan(i, vocab));
      tokens = tokens.subspan(count);
    }
  }

 private:
  static constexpr std::size_t kSliceTokens = 256;  // bounds the activations; a multiple of every grid

  void check(std::span<const TokenId> tokens) const;

  std::unique_ptr<models::Device> device_;
  std::unique_ptr<models::Model> model_;
  std::unique_ptr<gpu::StateStore> store_;
  std::optional<gpu::Sequence> sequence_;
  bool begun_ = false;
  models::AdapterKey adapter_ = 0;  // 0: no adapter
};

/// Parses "1 2 3", commas allowed. Throws UsageError naming --tokens.
std::vector<TokenId> parse_token_ids(const std::string& text) {
  std::vector<TokenId> ids;
  const char* p = text.data();
  const char* const end = p + text.size();
  while (true) {
    while (p != end && (*p == ' ' || *p == ',' || *p == '\n' || *p == '\t')) ++p;
    if (p == end) break;
    TokenId id = 0;
    const auto [next, error] = std::from_chars(p, end, id);
    if (error != std::errc() ||
        (next != end && *next != ' ' && *next != ',' && *next != '\n' && *next != '\t')) {
      throw UsageError("--tokens: '" + std::string(p, std::find(p, end, ' ')) + "' is no token id");
    }
    ids.push_back(id);
    p = next;
  }
  if (ids.empty()) throw UsageError("--tokens: no token ids given");
  return ids;
}

SingleSequence::SingleSequence(const EngineFlags& flags) : device_(open_device(flags)) {
  {
    ProgressBar bar("packing weights");
    model_ = device_->load(flags.model, compute_options(flags),
                           [&](std::uint64_t done, std::uint64_t total) { bar.show(done, total); });
  }
  ProgressBar bar("reading weights");
  model_->files().validate([&](std::uint64_t done, std::uint64_t total) { bar.show(done, total); });
  if (flags.adapter.empty()) return;
  adapter_ = 1;
  model_->add_adapter(adapter_, models::Adapter::open(flags.adapter, model_->config()));
}

void SingleSequence::begin(std::size_t tokens) {
  const std::size_t context = model_->config().context_length;
  if (context != 0 && tokens > context) {
    throw UsageError("--max-tokens: with the prompt this is " + std::to_string(tokens) +
                     " tokens; the model's context is " + std::to_string(context));
  }
  sequence_.reset();
  begun_ = false;
  const std::size_t pages = (tokens + gpu::kPageTokens - 1) / gpu::kPageTokens;
  store_ = std::make_unique<gpu::StateStore>(
      model_->state().sizes(), gpu::StateBounds{.pages = pages, .slots = 1, .memory = &device_->memory()});
  sequence_ = store_->open();
  if (!sequence_->reserve(tokens)) throw std::bad_alloc();
}

void SingleSequence::check(std::span<const TokenId> tokens) const {
  for (const TokenId token : tokens) {
    if (token < 0 || static_cast<std::size_t>(token) >= model_->config().vocab) {
      throw UsageError("token id " + std::to_string(token) + " is outside the model's vocabulary of " +
                       std::to_string(model_->config().vocab));
    }
  }
}

// -- generate

struct GenerateOptions {
  EngineFlags engine;
  std::optional<std::string> prompt;  // needs a tokenizer
  std::optional<std::string> tokens;  // token ids, used unchanged
  bool chat = false;                  // format the prompt as a user message with the chat template
  std::string system{};               // system message of that chat; empty: none
  std::size_t max_tokens = 128;
  SamplingParams sampling{};
  std::vector<std::string> stop{};
  bool ignore_eos = false;
  bool json = false;
};

std::string json_array(std::span<const TokenId> ids) {
  std::string out = "[";
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i != 0) out += ',';
    out += std::to_string(ids[i]);
  }
  return out + ']';
}

/// Formats with nine significant digits, which round-trip a float; NaN and infinities as null.
std::string json_array(std::span<const float> values) {
  std::string out = "[";
  char number[32];
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i != 0) out += ',';
    if (std::isfinite(values[i])) {
      std::snprintf(number, sizeof(number), "%.9g", static_cast<double>(values[i]));
      out += number;
    } else {
      out += "null";
    }
  }
  return out + ']';
}

/// Returns the model's tokenizer, or nullopt; token ids work without one.
std::optional<models::Tokenizer> find_tokenizer(const models::ModelFiles& files, const std::string& path) {
  if (files.gguf() != nullptr) {
    const models::GgufMetadata& metadata = files.gguf()->metadata();
    if (metadata.find("tokenizer.ggml.model") == nullptr) return std::nullopt;
    const std::string_view kind = metadata.text("tokenizer.ggml.model");
    if (kind == "none" || kind == "no_vocab") return std::nullopt;
  } else if (!std::filesystem::exists(std::filesystem::path(path) / "tokenizer.json") &&
             !std::filesystem::exists(std::filesystem::path(path) / "tokenizer.model")) {
    return std::nullopt;
  }
  return models::load_tokenizer(path);
}

using TokenizerPtr = std::shared_ptr<const models::Tokenizer>;

std::vector<TokenId> chat_prompt_tokens(const GenerateOptions& options, const std::string& source,
                                        const TokenizerPtr& tokenizer) {
  auto format = protocol::ChatFormat::make(source, actors::chat_tokens(tokenizer));
  if (!format.ok()) throw UsageError("--chat: the model's chat template cannot be used: " + format.error());
  protocol::ChatPrompt chat{.messages = Json::array()};
  if (!options.system.empty()) chat.messages.push_back(Json{{"role", "system"}, {"content", options.system}});
  chat.messages.push_back(Json{{"role", "user"}, {"content", *options.prompt}});
  auto shown = (*format)->show(chat, {});
  if (!shown.ok()) throw UsageError("--chat: " + shown.error().message);
  return std::move(shown->tokens);
}

/// Prints on stderr whether the prompt is used as plain text or as a chat, since users may expect the other.
std::vector<TokenId> prompt_tokens(const GenerateOptions& options, const TokenizerPtr& tokenizer) {
  if (options.tokens.has_value() == options.prompt.has_value()) {
    throw UsageError("exactly one of --prompt and --tokens is needed");
  }
  if (options.chat && options.tokens) throw UsageError("--chat: needs --prompt, not --tokens");
  if (!options.chat && !options.system.empty()) throw UsageError("--system: needs --chat");
  if (options.tokens) return parse_token_ids(*options.tokens);
  if (!tokenizer) throw UsageError("--prompt: this model has no tokenizer; give --tokens");
  const std::optional<std::string> source = models::load_chat_template(options.engine.model);
  if (options.chat) {
    if (!source || source->empty()) {
      throw UsageError("--chat: this model has no chat template; without --chat the prompt is continued");
    }
    std::fputs("reprise: --chat: the prompt is sent as a user message in the model's chat template\n",
               stderr);
    return chat_prompt_tokens(options, *source, tokenizer);
  }
  if (source && !source->empty()) {
    std::fputs("reprise: the prompt is continued as raw text; --chat makes it a message to the model\n",
               stderr);
  }
  std::vector<TokenId> ids = tokenizer->encode(*options.prompt);
  if (tokenizer->adds_bos() && tokenizer->bos()) ids.insert(ids.begin(), *tokenizer->bos());
  if (ids.empty()) throw UsageError("--prompt: the text has no tokens");
  return ids;
}

struct Output {
  std::vector<TokenId> tokens;
  std::string text;
  const char* finish_reason = "length";
};

class Printer {
 public:
  Printer(bool live, bool as_text) : live_(live), as_text_(as_text) {}

  void token(TokenId id, const std::string& text) const {
    if (!live_) return;
    if (as_text_) {
      std::fwrite(text.data(), 1, text.size(), stdout);
    } else {
      std::printf("%d ", id);
    }
    std::fflush(stdout);
  }
  void end(const std::string& rest) const {
    if (!live_) return;
    std::fwrite(rest.data(), 1, rest.size(), stdout);
    std::fputc('\n', stdout);
  }

 private:
  bool live_;
  bool as_text_;
};

/// Prints the text (ids without a tokenizer) as it is generated, or one JSON object.
int run_generate(const GenerateOptions& options) {
  SingleSequence sequence(options.engine);
  const models::ModelConfig& config = sequence.model().config();
  const std::vector<ParamError> errors = options.sampling.validate(config.vocab);
  if (!errors.empty()) throw UsageError(errors.front().describe());

  TokenizerPtr tokenizer;
  if (auto found = find_tokenizer(sequence.model().files(), options.engine.model)) {
    tokenizer = std::make_shared<const models::Tokenizer>(std::move(*found));
  }
  const std::vector<TokenId> prompt = prompt_tokens(options, tokenizer);
  sequence.begin(prompt.size() + options.max_tokens);

  models::Sampler sampler(options.sampling, config.vocab);
  models::SamplerScratch scratch;
  for (const TokenId token : prompt) sampler.accept(token, models::TokenOrigin::kPrompt);
  std::optional<models::TextStream> stream;
  if (tokenizer) {
    stream.emplace(*tokenizer, models::DecodeOptions{.skip_special = true, .continuation = true},
                   options.stop);
  }
  const Printer printer(!options.json, stream.has_value());

  Output output;
  std::vector<TokenId> next = prompt;
  while (output.tokens.size() < options.max_tokens) {
    models::SampleResult result = models::SampleError::kNoLogits;
    sequence.append(next, /*all=*/false,
                    [&](std::span<const float> logits) { result = sampler.sample(logits, scratch); });
    if (const auto* error = std::get_if<models::SampleError>(&result)) {
      std::fprintf(stderr, "reprise: no token can be chosen: %s\n", models::to_string(*error));
      return 1;
    }
    const TokenId token = std::get<models::Sampled>(result).token;
    const bool ends = std::ranges::find(config.tokens.eos, token) != config.tokens.eos.end() ||
                      (options.chat && tokenizer->eos() == token);
    if (!options.ignore_eos && ends) {
      output.finish_reason = "stop";
      break;
    }
    output.tokens.push_back(token);
    sampler.accept(token, models::TokenOrigin::kOutput);
    const std::string text = stream ? stream->push(token) : std::string();
    output.text += text;
    printer.token(token, text);
    if (stream && stream->stop()) {
      output.finish_reason = "stop";
      break;
    }
    next = {token};
  }
  const std::string rest = stream ? stream->flush() : std::string();
  output.text += rest;
  printer.end(rest);
  if (options.json) {
    std::printf(
        "{\"prompt_tokens\": %zu, \"tokens\": %s, \"text\": %s, \"finish_reason\": \"%s\", "
        "\"cached_tokens\": 0}\n",
        prompt.size(), json_array(output.tokens).c_str(), Json(output.text).dump().c_str(),
        output.finish_reason);
  }
  return std::ferror(stdout) != 0 ? 1 : 0;
}

// -- logits

struct LogitsOptions {
  EngineFlags engine;
  std::string tokens;
  bool all = false;
  bool json = false;
};

int print_logits(const LogitsOptions& options) {
  const std::vector<TokenId> tokens = parse_token_ids(options.tokens);
  SingleSequence sequence(options.engine);
  sequence.begin(tokens.size());
  bool first = true;
  if (options.json) std::fputs("{\"logits\": [", stdout);
  sequence.append(tokens, options.all, [&](std::span<const float> row) {
    if (options.json && !first) std::fputs(",\n", stdout);
    first = false;
    const std::string text = json_array(row);
    std::fwrite(text.data(), 1, text.size(), stdout);
    if (!options.json) std::fputc('\n', stdout);
  });
  if (options.json) std::fputs("]}\n", stdout);
  return std::ferror(stdout) != 0 ? 1 : 0;
}

}  // namespace

Command add_generate(CLI::App& program) {
  const auto given = std::make_shared<GenerateOptions>();
  GenerateOptions& options = *given;
  CLI::App* generate = program.add_subcommand("generate", "Continue one prompt");
  add_engine_flags(*generate, options.engine);
  add_adapter_flag(*generate, options.engine);
  generate->add_option("--prompt", options.prompt, "Text to continue");
  generate->add_flag("--chat", options.chat,
                     "Send the prompt as a user message in the model's chat template");
  generate->add_option("--system", options.system, "System message; needs --chat");
  generate->add_option("--tokens", options.tokens, "Token ids to continue, instead of a text: \"1 2 3\"");
  generate->add_option("--max-tokens", options.max_tokens, "Maximum number of tokens to generate")
      ->check(CLI::Range(1UL, 10'000'000UL))
      ->capture_default_str();
  generate->add_option("--temperature", options.sampling.temperature, "Sampling temperature; 0: greedy")
      ->capture_default_str();
  generate->add_option("--top-k", options.sampling.top_k, "Sample among this many most likely tokens; 0: all")
      ->capture_default_str();
  generate
      ->add_option("--top-p", options.sampling.top_p,
                   "Sample among the most likely tokens with this share of the probability")
      ->capture_default_str();
  generate
      ->add_option("--min-p", options.sampling.min_p,
                   "Sample among tokens at least this likely relative to the most likely one")
      ->capture_default_str();
  generate->add_option("--seed", options.sampling.seed, "Sampling seed; the same seed gives the same text")
      ->capture_default_str();
  generate->add_option("--stop", options.stop, "End the text before this string; may be given several times");
  generate->add_flag("--ignore-eos", options.ignore_eos, "Continue after an end-of-text token");
  generate->add_flag("--json", options.json, "Print one JSON object at the end");
  return {generate, [given] { return run_generate(*given); }};
}

Command add_logits(CLI::App& program) {
  const auto given = std::make_shared<LogitsOptions>();
  LogitsOptions& options = *given;
  CLI::App* logits = program.add_subcommand("logits", "Print the float32 logits after a prompt");
  add_engine_flags(*logits, options.engine);
  add_adapter_flag(*logits, options.engine);
  logits->add_option("--tokens", options.tokens, "Token ids of the prompt: \"1 2 3\"")->required();
  logits->add_flag("--all", options.all, "Print the logits after every token, not only the last");
  logits->add_flag("--json", options.json, "Print one JSON object");
  return {logits, [given] { return print_logits(*given); }};
}

}  // namespace reprise::tools
