#include "actors/request/prompt_text.h"

#include <algorithm>
#include <array>
#include <limits>
#include <new>
#include <random>
#include <stdexcept>
#include <string_view>

#include "actors/models/grammar_cache.h"
#include "models/text/regex.h"
#include "models/text/tokenizer.h"

namespace reprise::actors {

using protocol::Error;
using protocol::ErrorKind;

namespace {

// -- infill

struct GapMarks {
  std::string_view prefix, suffix, middle;
};
constexpr std::array kGapMarks = {
    GapMarks{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},
    GapMarks{"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},
    GapMarks{"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},
    GapMarks{"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},
    GapMarks{"▁<PRE>", "▁<SUF>", "▁<MID>"},
    GapMarks{"<PRE>", "<SUF>", "<MID>"},
    GapMarks{"[PREFIX]", "[SUFFIX]", "[MIDDLE]"},
    GapMarks{"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"},
};
constexpr std::array<std::string_view, 3> kFileMarks = {"<|file_sep|>", "<file_sep>", "<|file_separator|>"};

struct Marks {
  TokenId prefix, suffix, middle;
};

std::optional<Marks> marks_of(const models::Tokenizer& tokenizer) {
  for (const GapMarks& known : kGapMarks) {
    const auto prefix = tokenizer.find(known.prefix);
    const auto suffix = tokenizer.find(known.suffix);
    const auto middle = tokenizer.find(known.middle);
    if (prefix && suffix && middle) return Marks{*prefix, *suffix, *middle};
  }
  return std::nullopt;
}

std::optional<TokenId> file_mark_of(const models::Tokenizer& tokenizer) {
  for (const std::string_view known : kFileMarks) {
    if (const auto mark = tokenizer.find(known)) return mark;
  }
  return std::nullopt;
}

// Returns the tokens of an infill prompt, for models whose vocabulary has tokens for it:
//
//   [BOS] [files] PREFIX before the gap SUFFIX after it MIDDLE opening
//
// The special tokens are found by the spellings that model families use. Returns nothing if the vocabulary
// has none. Such spellings inside the texts are plain text.
std::optional<TokenList> infill_tokens(const protocol::InfillPrompt& prompt,
                                       const models::Tokenizer& tokenizer) {
  const std::optional<Marks> marks = marks_of(tokenizer);
  if (!marks) return std::nullopt;
  TokenList tokens;
  const auto add_text = [&](const std::string& text) {
    const TokenList more = tokenizer.encode(text, {.parse_special = false});
    tokens.insert(tokens.end(), more.begin(), more.end());
  };
  if (tokenizer.adds_bos() && tokenizer.bos()) tokens.push_back(*tokenizer.bos());
  const std::optional<TokenId> file_mark = file_mark_of(tokenizer);
  for (const protocol::InfillPrompt::File& file : prompt.files) {
    if (file_mark) tokens.push_back(*file_mark);
    add_text(file.name + "\n" + file.text + (file_mark ? "" : "\n"));
  }
  if (file_mark && !prompt.files.empty()) tokens.push_back(*file_mark);
  tokens.push_back(marks->prefix);
  add_text(prompt.prefix);
  tokens.push_back(marks->suffix);
  add_text(prompt.suffix);
  tokens.push_back(marks->middle);
  if (!prompt.opening.empty()) add_text(prompt.opening);
  return tokens;
}

// -- prompts

constexpr std::size_t kTailBytes = 64;

/// 32 bits, so that every client can represent the seed and send it again.
std::uint64_t random_seed() {
  return std::random_device{}();
}

TokenList tokens_of_parts(const protocol::PromptParts& mixed, const models::Tokenizer& tokenizer) {
  TokenList tokens;
  for (const auto& part : mixed.parts) {
    if (const auto* ids = std::get_if<TokenList>(&part)) {
      tokens.insert(tokens.end(), ids->begin(), ids->end());
      continue;
    }
    const auto& text = std::get<std::string>(part);
    const TokenList more =
        &part == &mixed.parts.front() ? encode_prompt(tokenizer, text) : tokenizer.encode(text);
    tokens.insert(tokens.end(), more.begin(), more.end());
  }
  return tokens;
}

// Returns the tokens that end a reply.
std::vector<TokenId> ends_of(const ServedModel& model) {
  std::vector<TokenId> ends(model.special.eos.begin(), model.special.eos.end());
  if (model.tokenizer && model.tokenizer->eos()) ends.push_back(*model.tokenizer->eos());
  return ends;
}

// Returns the tokens whose text contains one of `texts`, by id.
std::vector<TokenId> tokens_with(const models::Tokenizer& tokenizer, const std::vector<std::string>& texts) {
  std::vector<TokenId> found;
  const auto count = static_cast<TokenId>(tokenizer.vocab_size());
  for (TokenId id = 0; id < count; ++id) {
    const std::string_view bytes = tokenizer.token_bytes(id);
    const bool has_one = std::any_of(texts.begin(), texts.end(), [&](const std::string& text) {
      return bytes.find(text) != std::string_view::npos;
    });
    if (has_one || tokenizer.is_special(id)) found.push_back(id);
  }
  return found;
}

// Adds the logit biases that depend on the vocabulary.
void add_biases(const protocol::GenerateRequest& request, const ServedModel& model,
                SamplingParams& sampling) {
  for (const protocol::TextBias& bias : request.rules.text_bias) {
    if (!model.tokenizer) break;
    for (const TokenId id : model.tokenizer->encode(bias.text))
      sampling.logit_bias.push_back({id, bias.bias});
  }
  if (!request.rules.ban_eos || request.rules.constraint) return;
  std::vector<TokenId> ends = ends_of(model);
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  for (const TokenId id : ends) sampling.logit_bias.push_back({id, -std::numeric_limits<float>::infinity()});
}

// Returns the tokens of the prompt. Sets `text` to the text of a chat or the end of a plain text; for a chat,
// also sets the turns known as sampled.
Outcome<TokenList, Error> tokens_of(const protocol::GenerateRequest& request, const ServedModel& model,
                                    std::string& text, PreparedPrompt& prepared) {
  if (const auto* ids = std::get_if<TokenList>(&request.prompt)) return *ids;
  if (!model.tokenizer) {
    return Error{ErrorKind::kUnsupported,
                 "model '" + model.card.id + "' has no tokenizer: send the prompt as token ids", "prompt"};
  }
  if (const auto* chat = std::get_if<protocol::ChatPrompt>(&request.prompt)) {
    if (model.card.chat == nullptr) {
      return Error{ErrorKind::kUnsupported,
                   "model '" + model.card.id + "' has no chat template: use completions", "messages"};
    }
    const protocol::ChatFormat& format = *model.card.chat;
    if (model.turns) {
      prepared.turns = protocol::recognize_turns(chat->messages, [&](const std::string& name) {
        return model.turns->find(model.arch.identity, request.cache.name_space, name);
      });
    }
    auto shown = format.show(*chat, prepared.turns);
    if (!shown.ok()) return shown.error();
    prepared.recognized_calls = shown->recognized_calls;
    text = std::move(shown->text);
    if (chat->add_generation_prompt && !chat->opening_is_content)
      prepared.turn_begin = format.turn_begin(text, shown->tokens);
    return std::move(shown->tokens);
  }
  if (const auto* mixed = std::get_if<protocol::PromptParts>(&request.prompt)) {
    return tokens_of_parts(*mixed, *model.tokenizer);
  }
  if (const auto* infill = std::get_if<protocol::InfillPrompt>(&request.prompt)) {
    auto tokens = infill_tokens(*infill, *model.tokenizer);
    if (tokens) return std::move(*tokens);
    return Error{
        ErrorKind::kUnsupported,
        "model '" + model.card.id + "' has no tokens for fill-in-the-middle (prefix, suffix, middle)",
        infill->field};
  }
  const auto& plain = std::get<std::string>(request.prompt);
  text = plain.substr(plain.size() - std::min(plain.size(), kTailBytes));
  return encode_prompt(*model.tokenizer, plain);
}

std::size_t string_bytes(const Json& value) {
  std::size_t bytes = 0;
  if (value.is_string()) bytes = value.as_string().size();
  if (value.is_array()) {
    for (const Json& item : value.as_array()) bytes += string_bytes(item) + 1;
  } else if (value.is_object()) {
    for (const auto& member : value.as_object()) bytes += member.key.size() + string_bytes(member.value) + 1;
  }
  return bytes;
}

// If the prompt or the request opens reasoning, the constraint begins after it. Otherwise the model may not
// open reasoning: one told not to think would, since the constraint allows little else that it likes to say.
// A forced call or a continued message is past its reasoning.
Outcome<GrammarCache::Maker, Error> masks_for(const protocol::GenerateRequest& request,
                                              const ServedModel& model, const std::string& tail,
                                              protocol::grammar::IsWanted wanted) {
  if (!model.constraints) {
    return Error{ErrorKind::kUnsupported, "model '" + model.card.id + "' has no tokenizer",
                 request.rules.constraint.field};
  }
  protocol::grammar::Constraint constraint = request.rules.constraint;
  const auto* chat = std::get_if<protocol::ChatPrompt>(&request.prompt);
  if (chat != nullptr && model.card.chat != nullptr && chat->reply_opening.empty()) {
    const protocol::ReplyFormat& format = model.card.chat->reply_format();
    const std::size_t last = tail.find_last_not_of(" \n");
    const bool closed = last != std::string::npos && tail.substr(0, last + 1).ends_with(format.think_close);
    const bool open = format.has_reasoning() && protocol::opens_thinking(format, tail);
    if (open || (format.has_reasoning() && !closed && model.card.chat->asks_for_reasoning(*chat))) {
      constraint.think_close = format.think_close;
      if (!open) constraint.think_open = format.think_open;
    }
  }
  auto found =
      model.constraints->find(constraint, request.cache.name_space, std::move(wanted), request.origin.tenant);
  if (found.ok()) return std::move(*found);
  return Error{ErrorKind::kInvalid, constraint.field + ": " + found.error(), constraint.field};
}

std::optional<std::uint32_t> reasoning_budget_of(const protocol::GenerateRequest& request,
                                                 const ServedModel& model) {
  const std::optional<std::int32_t> asked = request.rules.reasoning_budget;
  if (asked && *asked < 0) return std::nullopt;
  if (asked) return static_cast<std::uint32_t>(*asked);
  const bool chat = std::holds_alternative<protocol::ChatPrompt>(request.prompt);
  return chat ? model.limits.reasoning_budget : std::nullopt;
}

std::optional<Error> refuse_embedding(const protocol::EmbeddingRequest& embedding, const ServedModel& model) {
  if (model.arch.hidden == 0) {
    return Error{ErrorKind::kUnsupported,
                 "model '" + model.card.id + "' gives no embeddings on this device; " +
                     "serve it with device = \"cpu\"",
                 "model"};
  }
  if (embedding.dimensions > model.arch.hidden) {
    return Error{ErrorKind::kInvalid,
                 "dimensions: " + std::to_string(embedding.dimensions) + " is more than the " +
                     std::to_string(model.arch.hidden) + " that model '" + model.card.id + "' has",
                 "dimensions"};
  }
  return std::nullopt;
}

// Embedding models are trained with the EOS token after the text; their embedding is its hidden state.
void end_as_embedded(const protocol::GenerateRequest& request, const ServedModel& model, TokenList& tokens) {
  if (!std::holds_alternative<std::string>(request.prompt) || !model.tokenizer ||
      !model.tokenizer->adds_eos())
    return;
  const std::optional<TokenId> eos = model.tokenizer->eos();
  if (eos && (tokens.empty() || tokens.back() != *eos)) tokens.push_back(*eos);
}

Error invalid(std::string message, std::string field) {
  return {ErrorKind::kInvalid, std::move(message), std::move(field)};
}

std::string not_in_vocabulary(TokenId token, TokenId vocab) {
  return "token " + std::to_string(token) + " is not in the vocabulary of " + std::to_string(vocab);
}

/// One call of prepare_prompt(). Each step decides one thing, in the order of prepare(), and returns the error
/// that ends the request, or nothing.
class Preparation {
 public:
  using Step = std::optional<Error>;

  Preparation(const protocol::GenerateRequest& request, const ServedModel& model)
      : request_(request),
        model_(model),
        chat_(std::get_if<protocol::ChatPrompt>(&request.prompt)),
        prompt_field_(chat_ != nullptr    ? "messages"
                      : request.embedding ? "input"
                                          : "prompt"),
        vocab_(static_cast<TokenId>(model.arch.vocab)) {}

  Outcome<PreparedPrompt, Error> prepare(protocol::grammar::IsWanted wanted) {
    if (Step error = check_counts()) return std::move(*error);
    if (Step error = tokenize()) return std::move(*error);
    if (Step error = check_tokens()) return std::move(*error);
    limit_reply();
    limit_reasoning();
    locate_breakpoints();
    prepared_.tokens = share_tokens(std::move(tokens_));
    if (Step error = settle_sampling()) return std::move(*error);
    if (Step error = constrain(std::move(wanted))) return std::move(*error);
    if (Step error = settle_stop_tokens()) return std::move(*error);
    report_settled();
    return std::move(prepared_);
  }

 private:
  Step check_counts() const;
  /// Makes the tokens of the prompt, without a beginning that the request wants cut off.
  Step tokenize();
  Step check_tokens() const;
  void limit_reply();
  /// Also sets the tail, which shows whether the prompt opens reasoning.
  void limit_reasoning();
  /// May retokenize the prompt, so that positions in the chat are tokens' ends.
  void locate_breakpoints();
  Step settle_sampling();
  Step constrain(protocol::grammar::IsWanted wanted);
  Step settle_stop_tokens();
  void report_settled();

  const protocol::GenerateRequest& request_;
  const ServedModel& model_;
  const protocol::ChatPrompt* const chat_;  // null: no chat
  const std::string prompt_field_;          // request member that has the prompt, for errors
  const TokenId vocab_;
  PreparedPrompt prepared_{};
  std::string text_{};  // text of the prompt; empty: none
  TokenList tokens_{};
};

Preparation::Step Preparation::check_counts() const {
  if (request_.n == 0 || request_.n > model_.limits.max_choices) {
    return invalid("n: must be 1 to " + std::to_string(model_.limits.max_choices), "n");
  }
  if (request_.max_tokens && *request_.max_tokens == 0)
    return invalid("max_tokens: must be at least 1", "max_tokens");
  if (!request_.rules.stop.empty() && !model_.tokenizer) {
    return Error{ErrorKind::kUnsupported, "stop: model '" + model_.card.id + "' has no tokenizer", "stop"};
  }
  return std::nullopt;
}

Preparation::Step Preparation::tokenize() {
  try {
    auto tokens = tokens_of(request_, model_, text_, prepared_);
    if (!tokens.ok()) return tokens.error();
    tokens_ = std::move(*tokens);
  } catch (const std::exception& error) {
    return text_error(error, prompt_field_);
  }
  if (request_.embedding) {
    if (auto refused = refuse_embedding(*request_.embedding, model_)) return refused;
    end_as_embedded(request_, model_, tokens_);
  }
  if (request_.prompt_tail_tokens) {
    const std::uint64_t longest = model_.arch.context > 1 ? model_.arch.context - 1 : 1;
    const std::uint64_t most = *request_.prompt_tail_tokens == 0 ? longest : *request_.prompt_tail_tokens;
    if (tokens_.size() > most)
      tokens_.erase(tokens_.begin(), tokens_.end() - static_cast<std::ptrdiff_t>(most));
  }
  return std::nullopt;
}

Preparation::Step Preparation::check_tokens() const {
  if (tokens_.empty()) return invalid(prompt_field_ + ": is empty", prompt_field_);
  for (const TokenId token : tokens_) {
    if (token < 0 || token >= vocab_)
      return invalid("prompt: " + not_in_vocabulary(token, vocab_), prompt_field_);
  }
  const std::uint64_t context = model_.arch.context;
  if (tokens_.size() < context) return std::nullopt;
  return Error{ErrorKind::kTooLong,
               "the prompt has " + std::to_string(tokens_.size()) + " tokens and the model's context " +
                   std::to_string(context),
               prompt_field_,
               {},
               Error::Lengths{.prompt = tokens_.size(), .context = context}};
}

void Preparation::limit_reply() {
  std::uint64_t available = model_.arch.context - tokens_.size();
  // Without max_tokens, the reply may use all memory; a request that does not fit is refused with its cost.
  const std::uint64_t most = model_.max_tokens(request_.n > 1);
  if (!request_.max_tokens)
    available = most > tokens_.size() ? std::min(available, most - tokens_.size()) : 1;
  const std::uint64_t usual =
      request_.rules.unlimited ? available : model_.limits.max_tokens.value_or(available);
  prepared_.max_tokens =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(available, request_.max_tokens.value_or(usual)));
}

void Preparation::limit_reasoning() {
  prepared_.tail = text_.substr(text_.size() - std::min(text_.size(), kTailBytes));
  if (!model_.has_reasoning()) return;
  if (text_.empty()) prepared_.tail = text_around(tokens_, tokens_.size(), *model_.tokenizer).before;
  prepared_.reasoning_budget = reasoning_budget_of(request_, model_);
}

void Preparation::locate_breakpoints() {
  if (chat_ == nullptr || !request_.cache.enabled || model_.arch.any_token) return;
  std::vector<protocol::ChatBreakpoint> breakpoints = chat_->breakpoints;
  const std::vector<protocol::ChatBreakpoint> blocks = protocol::last_blocks(*chat_);
  breakpoints.insert(breakpoints.end(), blocks.begin(), blocks.end());
  protocol::ShownChat prompt{.text = std::move(text_), .tokens = std::move(tokens_)};
  const std::vector<std::uint32_t> at =
      model_.card.chat->breakpoints(*chat_, prepared_.turns, breakpoints, prompt);
  tokens_ = std::move(prompt.tokens);
  for (std::size_t i = 0; i < at.size(); ++i) {
    prepared_.breakpoints.push_back(
        {.at = at[i], .ttl = breakpoints[i].ttl, .is_block = i >= chat_->breakpoints.size()});
  }
}

Preparation::Step Preparation::settle_sampling() {
  const protocol::ReplyRules& rules = request_.rules;
  SamplingParams& sampling = prepared_.sampling;
  sampling = resolve(request_.sampling, model_.sampling);
  if (!request_.sampling.seed && !model_.sampling.seed) sampling.seed = random_seed();
  add_biases(request_, model_, sampling);
  if (rules.min_tokens > 0) {
    if (rules.constraint) {
      return invalid("min_tokens: does not go together with " + rules.constraint.field, "min_tokens");
    }
    sampling.min_tokens = rules.min_tokens;
    sampling.ends = ends_of(model_);
    sampling.ends.insert(sampling.ends.end(), rules.stop_tokens.begin(), rules.stop_tokens.end());
  }
  if (sampling.dry_multiplier > 0) {
    if (!model_.tokenizer)
      return invalid("dry_multiplier: model '" + model_.card.id + "' has no tokenizer", "dry_multiplier");
    sampling.dry_breakers = tokens_with(*model_.tokenizer, rules.dry_breakers);
  }
  sampling.logprobs_of_draw = rules.logprobs_of_draw;
  const auto errors = sampling.validate(model_.arch.vocab);
  if (!errors.empty()) return invalid(errors.front().describe(), errors.front().field);
  return std::nullopt;
}

Preparation::Step Preparation::constrain(protocol::grammar::IsWanted wanted) {
  if (!request_.rules.constraint) return std::nullopt;
  auto masks = masks_for(request_, model_, prepared_.tail, std::move(wanted));
  if (!masks.ok()) return masks.error();
  prepared_.masks = std::move(*masks);
  return std::nullopt;
}

Preparation::Step Preparation::settle_stop_tokens() {
  const protocol::ReplyRules& rules = request_.rules;
  if (!rules.ignore_eos || rules.constraint) {  // a constraint allows EOS at its end
    prepared_.stop_tokens = ends_of(model_);
  }
  for (const TokenId id : rules.stop_tokens) {
    if (id < 0 || id >= vocab_)
      return invalid("stop_token_ids: " + not_in_vocabulary(id, vocab_), "stop_token_ids");
    prepared_.stop_tokens.push_back(id);
  }
  return std::nullopt;
}

void Preparation::report_settled() {
  if (!request_.report.settled) return;
  auto settled = std::make_shared<protocol::Settled>();
  settled->sampling = prepared_.sampling;
  settled->max_tokens = prepared_.max_tokens;
  if (model_.tokenizer)
    settled->prompt_text = model_.tokenizer->decode(*prepared_.tokens, {.continuation = true});
  prepared_.settled = std::move(settled);
}

}  // namespace

protocol::TextAround text_around(std::span<const TokenId> tokens, std::size_t position,
                                 const models::Tokenizer& tokenizer) {
  constexpr std::size_t kTokens = 12;  // tokens on either side
  const std::size_t at = std::min(position, tokens.size());
  const std::size_t before = std::min(kTokens, at);
  const auto text = [&](std::span<const TokenId> some) {
    return tokenizer.decode(some, {.continuation = true});
  };
  return {.before = text(tokens.subspan(at - before, before)),
          .after = text(tokens.subspan(at, std::min(kTokens, tokens.size() - at)))};
}

std::size_t text_bytes(const protocol::Prompt& prompt) {
  if (const auto* text = std::get_if<std::string>(&prompt)) return text->size();
  if (const auto* mixed = std::get_if<protocol::PromptParts>(&prompt)) {
    std::size_t bytes = 0;
    for (const auto& part : mixed->parts) {
      if (const auto* text = std::get_if<std::string>(&part)) bytes += text->size();
    }
    return bytes;
  }
  if (const auto* infill = std::get_if<protocol::InfillPrompt>(&prompt)) {
    std::size_t bytes = infill->prefix.size() + infill->suffix.size() + infill->opening.size();
    for (const auto& file : infill->files) bytes += file.name.size() + file.text.size();
    return bytes;
  }
  const auto* chat = std::get_if<protocol::ChatPrompt>(&prompt);
  return chat == nullptr ? 0 : string_bytes(chat->messages) + string_bytes(chat->tools);
}

Error text_error(const std::exception& error, const std::string& field) {
  if (dynamic_cast<const models::RegexError*>(&error) != nullptr ||
      dynamic_cast<const std::length_error*>(&error) != nullptr) {
    return {ErrorKind::kInvalid, error.what(), field};
  }
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    return {ErrorKind::kOverloaded, "not enough memory to prepare the prompt; try again later", field,
            std::chrono::seconds(1)};
  }
  return {ErrorKind::kInternal, error.what()};
}

TokenList encode_prompt(const models::Tokenizer& tokenizer, const std::string& text) {
  TokenList tokens = tokenizer.encode(text);
  const std::optional<TokenId> bos = tokenizer.bos();
  if (tokenizer.adds_bos() && bos && (tokens.empty() || tokens.front() != *bos)) {
    tokens.insert(tokens.begin(), *bos);
  }
  return tokens;
}

Outcome<PreparedPrompt, Error> prepare_prompt(const protocol::GenerateRequest& request,
                                              const ServedModel& model, protocol::grammar::IsWanted wanted) {
  return Preparation(request, model).prepare(std::move(wanted));
}

}  // namespace reprise::actors
