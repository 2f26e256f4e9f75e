#include "tools/reprise/generate.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "actors/request/chat_tokens.h"
#include "models/sampling/sampler.h"
#include "models/text/chat_template_source.h"
#include "models/text/text_stream.h"
#include "models/text/tokenizer_load.h"
#include "protocol/chat/chat_format.h"
#include "tools/reprise/json_text.h"
#include "tools/reprise/single_sequence.h"

namespace reprise::tools {

namespace {

/// Whether the model comes with a vocabulary; without one, token ids work all the same.
std::optional<models::Tokenizer> find_tokenizer(const models::Checkpoint& checkpoint,
                                                const std::string& path) {
  if (checkpoint.gguf() != nullptr) {
    const models::GgufMetadata& metadata = checkpoint.gguf()->metadata();
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

/// The prompt as a user's message, in the template that came with the model.
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

/// Says on stderr how a text is given to a model that has a chat template: people who mean the one and get the other
/// would not see why.
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

/// What came of it, and the text as far as it is certain.
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

}  // namespace

int generate(const GenerateOptions& options) {
  SingleSequence sequence(options.engine);
  const models::ModelConfig& config = sequence.model().config();
  const std::vector<ParamError> errors = options.sampling.validate(config.vocab);
  if (!errors.empty()) throw UsageError(errors.front().describe());

  TokenizerPtr tokenizer;
  if (auto found = find_tokenizer(sequence.model().checkpoint(), options.engine.model)) {
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
        prompt.size(), json_array(output.tokens).c_str(), json_string(output.text).c_str(),
        output.finish_reason);
  }
  return std::ferror(stdout) != 0 ? 1 : 0;
}

}  // namespace reprise::tools
