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

using protocol::ServiceError;
using protocol::ServiceErrorCode;

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

// Adds biases that depend on the vocabulary.
void add_biases(const protocol::GenerateRequest& request, const ServedModel& model,
                SamplingParams& sampling) {
  for (const protocol::TextBias& bias : request.text_bias) {
    if (!model.tokenizer) break;
    for (const TokenId id : model.tokenizer->encode(bias.text))
      sampling.logit_bias.push_back({id, bias.bias});
  }
  if (!request.ban_eos || request.constraint) return;
  std::vector<TokenId> ends = ends_of(model);
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  for (const TokenId id : ends) sampling.logit_bias.push_back({id, -std::numeric_limits<float>::infinity()});
}

// Returns the tokens of the prompt. Sets `text` to the text of a chat or the end of a plain text; for a chat,
// also sets the turns known as sampled.
Outcome<TokenList, ServiceError> tokens_of(const protocol::GenerateRequest& request, const ServedModel& model,
                                           std::string& text, PreparedPrompt& prepared) {
  if (const auto* ids = std::get_if<TokenList>(&request.prompt)) return *ids;
  if (!model.tokenizer) {
    return ServiceError{ServiceErrorCode::kUnsupported,
                        "model '" + model.card.id + "' has no tokenizer: send the prompt as token ids",
                        "prompt"};
  }
  if (const auto* chat = std::get_if<protocol::ChatPrompt>(&request.prompt)) {
    if (model.card.chat == nullptr) {
      return ServiceError{ServiceErrorCode::kUnsupported,
                          "model '" + model.card.id + "' has no chat template: use completions", "messages"};
    }
    const protocol::ChatFormat& format = *model.card.chat;
    if (model.turns) {
      prepared.turns = protocol::recognize_turns(chat->messages, [&](const std::string& name) {
        return model.turns->find(model.arch.identity, request.name_space, name);
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
    return ServiceError{
        ServiceErrorCode::kUnsupported,
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
Outcome<GrammarCache::Maker, ServiceError> masks_for(const protocol::GenerateRequest& request,
                                                     const ServedModel& model, const std::string& tail,
                                                     protocol::grammar::IsWanted wanted) {
  if (!model.constraints) {
    return ServiceError{ServiceErrorCode::kUnsupported, "model '" + model.card.id + "' has no tokenizer",
                        request.constraint.field};
  }
  protocol::grammar::Constraint constraint = request.constraint;
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
  auto found = model.constraints->find(constraint, request.name_space, std::move(wanted), request.tenant);
  if (found.ok()) return std::move(*found);
  return ServiceError{ServiceErrorCode::kInvalid, constraint.field + ": " + found.error(), constraint.field};
}

std::optional<std::uint32_t> reasoning_budget_of(const protocol::GenerateRequest& request,
                                                 const ServedModel& model) {
  const std::optional<std::int32_t> asked = request.reasoning_budget;
  if (asked && *asked < 0) return std::nullopt;
  if (asked) return static_cast<std::uint32_t>(*asked);
  const bool chat = std::holds_alternative<protocol::ChatPrompt>(request.prompt);
  return chat ? model.limits.reasoning_budget : std::nullopt;
}

std::optional<ServiceError> refuse_embedding(const protocol::EmbeddingRequest& wish,
                                             const ServedModel& model) {
  if (model.arch.hidden == 0) {
    return ServiceError{ServiceErrorCode::kUnsupported,
                        "model '" + model.card.id + "' gives no embeddings on this device; " +
                            "serve it with device = \"cpu\"",
                        "model"};
  }
  if (wish.dimensions > model.arch.hidden) {
    return ServiceError{ServiceErrorCode::kInvalid,
                        "dimensions: " + std::to_string(wish.dimensions) + " is more than the " +
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

ServiceError text_error(const std::exception& error, const std::string& field) {
  if (dynamic_cast<const models::RegexError*>(&error) != nullptr ||
      dynamic_cast<const std::length_error*>(&error) != nullptr) {
    return {ServiceErrorCode::kInvalid, error.what(), field};
  }
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    return {ServiceErrorCode::kOverloaded, "not enough memory to prepare the prompt; try again later", field,
            std::chrono::seconds(1)};
  }
  return {ServiceErrorCode::kInternal, error.what()};
}

TokenList encode_prompt(const models::Tokenizer& tokenizer, const std::string& text) {
  TokenList tokens = tokenizer.encode(text);
  const std::optional<TokenId> bos = tokenizer.bos();
  if (tokenizer.adds_bos() && bos && (tokens.empty() || tokens.front() != *bos)) {
    tokens.insert(tokens.begin(), *bos);
  }
  return tokens;
}

Outcome<PreparedPrompt, ServiceError> prepare_prompt(const protocol::GenerateRequest& request,
                                                     const ServedModel& model,
                                                     protocol::grammar::IsWanted wanted) {
  const auto invalid = [](std::string message, std::string field) {
    return ServiceError{ServiceErrorCode::kInvalid, std::move(message), std::move(field)};
  };
  const bool chat = std::holds_alternative<protocol::ChatPrompt>(request.prompt);
  const std::string prompt_field = chat ? "messages" : request.embedding ? "input" : "prompt";
  if (request.n == 0 || request.n > model.limits.max_choices) {
    return invalid("n: must be 1 to " + std::to_string(model.limits.max_choices), "n");
  }
  if (request.max_tokens && *request.max_tokens == 0)
    return invalid("max_tokens: must be at least 1", "max_tokens");
  if (!request.stop.empty() && !model.tokenizer) {
    return ServiceError{ServiceErrorCode::kUnsupported,
                        "stop: model '" + model.card.id + "' has no tokenizer", "stop"};
  }
  PreparedPrompt prepared;
  std::string text;
  const auto tokens_or_error = [&]() -> Outcome<TokenList, ServiceError> {
    try {
      return tokens_of(request, model, text, prepared);
    } catch (const std::exception& error) {
      return text_error(error, prompt_field);
    }
  };
  auto tokens = tokens_or_error();
  if (!tokens.ok()) return tokens.error();
  if (request.embedding) {
    if (auto refused = refuse_embedding(*request.embedding, model)) return std::move(*refused);
    end_as_embedded(request, model, *tokens);
  }
  if (request.prompt_tail_tokens) {
    const std::uint64_t room = model.arch.context > 1 ? model.arch.context - 1 : 1;
    const std::uint64_t most = *request.prompt_tail_tokens == 0 ? room : *request.prompt_tail_tokens;
    if (tokens->size() > most)
      tokens->erase(tokens->begin(), tokens->end() - static_cast<std::ptrdiff_t>(most));
  }
  if (tokens->empty()) return invalid(prompt_field + ": is empty", prompt_field);
  const auto vocab = static_cast<TokenId>(model.arch.vocab);
  for (const TokenId token : *tokens) {
    if (token < 0 || token >= vocab) {
      return invalid(
          "prompt: token " + std::to_string(token) + " is not in the vocabulary of " + std::to_string(vocab),
          prompt_field);
    }
  }
  const std::uint64_t context = model.arch.context;
  if (tokens->size() >= context) {
    return ServiceError{ServiceErrorCode::kTooLong,
                        "the prompt has " + std::to_string(tokens->size()) +
                            " tokens and the model's context " + std::to_string(context),
                        prompt_field,
                        {},
                        ServiceError::Lengths{.prompt = tokens->size(), .context = context}};
  }
  std::uint64_t room = context - tokens->size();
  // Without max_tokens, the reply may use all memory; a request that does not fit is refused with its price.
  const std::uint64_t most = model.max_tokens(request.n > 1);
  if (!request.max_tokens) room = most > tokens->size() ? std::min(room, most - tokens->size()) : 1;
  const std::uint64_t usual = request.unlimited ? room : model.limits.max_tokens.value_or(room);
  prepared.max_tokens =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(room, request.max_tokens.value_or(usual)));
  prepared.tail = text.substr(text.size() - std::min(text.size(), kTailBytes));
  if (model.has_reasoning()) {
    if (text.empty()) prepared.tail = text_around(*tokens, tokens->size(), *model.tokenizer).before;
    prepared.reasoning_budget = reasoning_budget_of(request, model);
  }
  if (const auto* of_chat = std::get_if<protocol::ChatPrompt>(&request.prompt);
      of_chat != nullptr && request.cache_prompt && !model.arch.any_token) {
    std::vector<protocol::ChatBreakpoint> places = of_chat->breakpoints;
    const std::vector<protocol::ChatBreakpoint> blocks = protocol::last_blocks(*of_chat);
    places.insert(places.end(), blocks.begin(), blocks.end());
    protocol::ShownChat prompt{.text = std::move(text), .tokens = std::move(*tokens)};
    const std::vector<std::uint32_t> at =
        model.card.chat->breakpoints(*of_chat, prepared.turns, places, prompt);
    tokens = std::move(prompt.tokens);
    for (std::size_t i = 0; i < at.size(); ++i) {
      prepared.breakpoints.push_back(
          {.at = at[i], .ttl = places[i].ttl, .is_block = i >= of_chat->breakpoints.size()});
    }
  }
  prepared.tokens = share_tokens(std::move(*tokens));
  prepared.sampling = resolve(request.sampling, model.sampling);
  if (!request.sampling.seed && !model.sampling.seed) prepared.sampling.seed = random_seed();
  add_biases(request, model, prepared.sampling);
  if (request.min_tokens > 0) {
    if (request.constraint) {
      return invalid("min_tokens: does not go together with " + request.constraint.field, "min_tokens");
    }
    prepared.sampling.min_tokens = request.min_tokens;
    prepared.sampling.ends = ends_of(model);
    prepared.sampling.ends.insert(prepared.sampling.ends.end(), request.stop_tokens.begin(),
                                  request.stop_tokens.end());
  }
  if (prepared.sampling.dry_multiplier > 0) {
    if (!model.tokenizer)
      return invalid("dry_multiplier: model '" + model.card.id + "' has no tokenizer", "dry_multiplier");
    prepared.sampling.dry_breakers = tokens_with(*model.tokenizer, request.dry_breakers);
  }
  prepared.sampling.logprobs_of_draw = request.logprobs_of_draw;
  const auto errors = prepared.sampling.validate(model.arch.vocab);
  if (!errors.empty()) return invalid(errors.front().describe(), errors.front().field);
  if (request.constraint) {
    auto masks = masks_for(request, model, prepared.tail, std::move(wanted));
    if (!masks.ok()) return masks.error();
    prepared.masks = std::move(*masks);
  }
  if (!request.ignore_eos || request.constraint) {  // a constraint allows EOS at its end
    prepared.stop_tokens = ends_of(model);
  }
  for (const TokenId id : request.stop_tokens) {
    if (id < 0 || id >= vocab) {
      return invalid("stop_token_ids: token " + std::to_string(id) + " is not in the vocabulary of " +
                         std::to_string(vocab),
                     "stop_token_ids");
    }
    prepared.stop_tokens.push_back(id);
  }
  if (request.want_settled) {
    auto settled = std::make_shared<protocol::Settled>();
    settled->sampling = prepared.sampling;
    settled->max_tokens = prepared.max_tokens;
    if (model.tokenizer)
      settled->prompt_text = model.tokenizer->decode(*prepared.tokens, {.continuation = true});
    prepared.settled = std::move(settled);
  }
  return prepared;
}

}  // namespace reprise::actors
