#include "protocol/api/common_fields.h"

#include <charconv>
#include <limits>
#include <random>

#include "protocol/api/api_error.h"
#include "protocol/grammar/constraint.h"

namespace reprise::protocol {
namespace {

constexpr std::int64_t kMaxInt = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMaxToken = std::numeric_limits<TokenId>::max();

// -- samplers

SamplingOverrides read_sampling(const Fields& fields, ApiFlavor flavor) {
  SamplingOverrides sampling;
  // OpenAI refuses temperatures above 2; llama-server accepts them.
  sampling.temperature = fields.number("temperature", 0, flavor == ApiFlavor::kLlamaServer ? 100 : 2);
  sampling.top_k = fields.integer("top_k", -1, kMaxToken);
  if (sampling.top_k == -1) sampling.top_k = 0;  // 0 and -1 both disable it, depending on the server
  sampling.top_p = fields.number("top_p", 0, 1);
  sampling.min_p = fields.number("min_p", 0, 1);
  sampling.repetition_penalty = fields.number("repetition_penalty", 0.01, 100);
  if (!sampling.repetition_penalty) sampling.repetition_penalty = fields.number("repeat_penalty", 0.01, 100);
  sampling.repetition_last_n = fields.integer("repeat_last_n", -1, kMaxToken);
  sampling.presence_penalty = fields.number("presence_penalty", -2, 2);
  sampling.frequency_penalty = fields.number("frequency_penalty", -2, 2);
  if (const auto seed = fields.integer("seed", -kMaxInt - 1, kMaxInt)) {
    sampling.seed = static_cast<std::uint64_t>(*seed & kMaxInt);  // non-negative, as replies report it
  }
  return sampling;
}

/// Handles values that llama-server interprets differently.
void read_as_llama_server(const Fields& fields, SamplingOverrides& sampling) {
  if (fields.integer("seed", -kMaxInt - 1, kMaxInt) == -1) sampling.seed = std::random_device{}();
  if (fields.integer("repeat_last_n", -1, kMaxToken) == 0) sampling.repetition_penalty = 1;  // empty window
}

constexpr std::size_t kMaxStopTokens = 64;
constexpr std::size_t kMaxBreakers = 16;
constexpr std::int64_t kMaxCount = std::numeric_limits<std::int32_t>::max();

std::vector<std::string> read_breakers(const Fields& fields, const BodyLimits& limits) {
  const Json::Array* given = fields.array("dry_sequence_breakers");
  if (given == nullptr) return {"\n", ":", "\"", "*"};
  if (given->size() > kMaxBreakers) {
    refuse_field("dry_sequence_breakers", "too_many", "has more than " + std::to_string(kMaxBreakers));
  }
  std::vector<std::string> breakers;
  for (std::size_t i = 0; i < given->size(); ++i) {
    const std::string path = item_of("dry_sequence_breakers", i);
    if (!(*given)[i].is_string()) refuse_kind(path, "a string", (*given)[i]);
    const std::string& text = (*given)[i].as_string();
    if (text.empty() || text.size() > limits.stop_bytes) {
      refuse_field(path, "invalid_value", "must have 1 to " + std::to_string(limits.stop_bytes) + " bytes");
    }
    breakers.push_back(text);
  }
  return breakers;
}

void read_samplers(const Fields& fields, const BodyLimits& limits, GenerateRequest& generate) {
  SamplingOverrides& sampling = generate.sampling;
  sampling.typical_p = fields.number("typical_p", 0, 1);
  sampling.top_n_sigma = fields.number("top_n_sigma", -1, 100);
  if (sampling.top_n_sigma && *sampling.top_n_sigma < 0) sampling.top_n_sigma = 0;
  sampling.xtc_probability = fields.number("xtc_probability", 0, 1);
  sampling.xtc_threshold = fields.number("xtc_threshold", 0, 1);
  sampling.dry_multiplier = fields.number("dry_multiplier", 0, 100);
  sampling.dry_base = fields.number("dry_base", 1, 100);
  sampling.dry_allowed_length = fields.integer("dry_allowed_length", 1, 1'000'000);
  sampling.dry_penalty_last_n = fields.integer("dry_penalty_last_n", -1, kMaxCount);
  std::vector<std::string> breakers = read_breakers(fields, limits);
  if (sampling.dry_multiplier.value_or(0) > 0) generate.rules.dry_breakers = std::move(breakers);
}

// -- where a reply ends

void read_ends(const Fields& fields, const BodyLimits& limits, GenerateRequest& generate) {
  if (const Json::Array* ids = fields.array("stop_token_ids")) {
    if (ids->size() > kMaxStopTokens) {
      refuse_field("stop_token_ids", "too_many", "has more than " + std::to_string(kMaxStopTokens));
    }
    generate.rules.stop_tokens = read_token_list(*ids, "stop_token_ids", limits);
  }
  generate.rules.min_tokens =
      static_cast<std::uint32_t>(fields.integer("min_tokens", 0, limits.max_tokens).value_or(0));
  if (generate.max_tokens && generate.rules.min_tokens > *generate.max_tokens) {
    refuse_field("min_tokens", "invalid_value", "is more than max_tokens");
  }
  generate.rules.keep_stop = fields.boolean_or("include_stop_str_in_output", false);
}

// -- biases of tokens

constexpr std::size_t kMaxBiasTextBytes = 1024;

float read_bias(const Json& value, const std::string& path) {
  if (value.is_bool() && !value.as_bool()) return -std::numeric_limits<float>::infinity();
  if (!value.is_number()) refuse_kind(path, "a number", value);
  const double bias = value.as_double();
  if (!(bias >= -100 && bias <= 100)) {
    refuse_field(path, "out_of_range", show_number(bias) + " is not from -100 to 100");
  }
  return static_cast<float>(bias);
}

void add_by_text(const std::string& text, const Json& value, const std::string& path,
                 GenerateRequest& request) {
  if (text.empty() || text.size() > kMaxBiasTextBytes) {
    refuse_field(path, "invalid_value",
                 "a text has from 1 to " + std::to_string(kMaxBiasTextBytes) + " bytes, not " +
                     std::to_string(text.size()));
  }
  request.rules.text_bias.push_back({text, read_bias(value, path)});
}

void add_member(const Json::Member& member, ApiFlavor flavor, GenerateRequest& request) {
  TokenId id = 0;
  const char* end = member.key.data() + member.key.size();
  const auto [stopped, error] = std::from_chars(member.key.data(), end, id);
  if (stopped != end && flavor == ApiFlavor::kLlamaServer)
    return add_by_text(member.key, member.value, "logit_bias", request);
  if (error != std::errc() || stopped != end || id < 0) {
    refuse_field("logit_bias", "invalid_value", in_quotes(member.key) + " is not a token id");
  }
  const float bias = read_bias(member.value, "logit_bias." + std::to_string(id));
  request.sampling.logit_bias.push_back({id, bias});
}

void add_pair(const Json& pair, const std::string& path, GenerateRequest& request) {
  if (!pair.is_array() || pair.size() != 2) refuse_kind(path, "a pair of a token and its bias", pair);
  const Json& token = pair.as_array()[0];
  const Json& value = pair.as_array()[1];
  if (token.is_string()) return add_by_text(token.as_string(), value, path, request);
  if (!token.is_int()) refuse_kind(item_of(path, 0), "a token id or a text", token);
  if (token.as_int() < 0 || token.as_int() > std::numeric_limits<TokenId>::max()) {
    refuse_field(item_of(path, 0), "invalid_value", std::to_string(token.as_int()) + " is not a token id");
  }
  request.sampling.logit_bias.push_back({static_cast<TokenId>(token.as_int()), read_bias(value, path)});
}

/// Reads token biases into sampling.logit_bias and text_bias, in one of the forms that clients use:
///
///   {"15": -3}                               by id
///   {" the": 2}                              every token of a text (llama-server only)
///   [[15, -3], [" the", 2], [7, false]]      as a list; false bans the token (llama-server only)
void read_logit_bias(const Fields& fields, const BodyLimits& limits, ApiFlavor flavor,
                     GenerateRequest& request) {
  const Json* given = fields.find("logit_bias");
  if (given == nullptr) return;
  const bool takes_lists = flavor == ApiFlavor::kLlamaServer;
  if (!given->is_object() && !(takes_lists && given->is_array()))
    refuse_kind("logit_bias", "an object", *given);
  if (given->size() > limits.logit_biases) {
    refuse_field("logit_bias", "too_many",
                 std::to_string(given->size()) + " tokens, more than " + std::to_string(limits.logit_biases));
  }
  if (given->is_object()) {
    for (const Json::Member& member : given->as_object()) add_member(member, flavor, request);
  } else {
    for (std::size_t i = 0; i < given->size(); ++i) {
      add_pair(given->as_array()[i], item_of("logit_bias", i), request);
    }
  }
}

// -- constraints on the reply

using grammar::Constraint;
using Kind = Constraint::Kind;

constexpr std::size_t kMaxGrammarBytes = 1u << 20;
constexpr std::size_t kMaxChoices = 10'000;
constexpr std::size_t kMaxWhitespaceBytes = 1024;

Constraint of_schema(const Json& given, const std::string& path) {
  Json schema = given;
  if (given.is_string()) {  // a schema as text
    auto parsed = Json::parse(given.as_string(), {.bytes = kMaxGrammarBytes, .depth = 64});
    if (!parsed.ok()) refuse_field(path, "invalid_value", parsed.error().message);
    schema = std::move(*parsed);
  }
  if (!schema.is_object() && !schema.is_bool()) refuse_kind(path, "a JSON schema", given);
  return {.kind = Kind::kJsonSchema, .json = std::move(schema), .field = path};
}

Constraint of_text(Kind kind, const Json& given, const std::string& path) {
  if (!given.is_string()) refuse_kind(path, "a string", given);
  if (given.as_string().size() > kMaxGrammarBytes) {
    refuse_field(path, "too_long", "has more than " + std::to_string(kMaxGrammarBytes) + " bytes");
  }
  return {.kind = kind, .text = given.as_string(), .field = path};
}

/// Takes a grammar as GBNF, or as Lark if no rule has GBNF's "::=".
Constraint of_grammar(const Json& given, const std::string& path) {
  Constraint constraint = of_text(Kind::kGbnf, given, path);
  if (constraint.text.find("::=") == std::string::npos) constraint.kind = Kind::kLark;
  return constraint;
}

Constraint of_choices(const Json& given, const std::string& path) {
  if (!given.is_array() || given.size() == 0) refuse_kind(path, "an array of strings", given);
  if (given.size() > kMaxChoices)
    refuse_field(path, "too_many", "has more than " + std::to_string(kMaxChoices));
  Constraint constraint{.kind = Kind::kChoice, .field = path};
  for (const Json& choice : given.as_array()) {
    if (!choice.is_string() || choice.as_string().empty())
      refuse_kind(path, "an array of strings with text", given);
    constraint.choices.push_back(choice.as_string());
  }
  return constraint;
}

Constraint of_response_format(const Fields& body, const Json& given) {
  const Fields format(given, "response_format", body);
  const Json* word = format.find("type");
  if (word == nullptr || !word->is_string())
    refuse_field("response_format", "invalid_type", "must be an object with a string 'type'");
  const std::string* type = &word->as_string();
  if (*type == "text") return {};
  if (*type == "json_object") {
    if (const Json* schema = format.find("schema")) return of_schema(*schema, "response_format.schema");
    return {.kind = Kind::kJsonObject, .field = "response_format"};
  }
  if (*type == "json_schema") {
    const auto named = format.within("json_schema");
    const Json* schema = named ? named->find("schema") : format.find("schema");
    if (schema == nullptr) refuse_field("response_format.json_schema.schema", "missing", "is required");
    return of_schema(*schema, "response_format.json_schema.schema");
  }
  refuse_unsupported("response_format",
                     "type " + in_quotes(*type) + " is not supported: text, json_object and json_schema are");
}

std::string whitespace_of(const Json& given, const std::string& path) {
  if (!given.is_string()) refuse_kind(path, "a string", given);
  if (given.as_string().size() > kMaxWhitespaceBytes) {
    refuse_field(path, "too_long", "has more than " + std::to_string(kMaxWhitespaceBytes) + " bytes");
  }
  return given.as_string();
}

Constraint of_structured_outputs(const Json& object) {
  Constraint found;
  for (const Json::Member& member : object.as_object()) {
    if (member.value.is_null()) continue;
    const std::string path = "structured_outputs." + member.key;
    Constraint one;
    if (member.key == "json") {
      one = of_schema(member.value, path);
    } else if (member.key == "regex") {
      one = of_text(Kind::kRegex, member.value, path);
    } else if (member.key == "choice") {
      one = of_choices(member.value, path);
    } else if (member.key == "grammar") {
      one = of_grammar(member.value, path);
    } else if (member.key == "json_object") {
      if (!member.value.is_bool()) refuse_kind(path, "true or false", member.value);
      if (member.value.as_bool()) one = {.kind = Kind::kJsonObject, .field = path};
    } else if (member.key == "structural_tag") {
      refuse_unsupported(path, "is not supported by this server");
    }
    if (found && one) refuse_field("structured_outputs", "invalid_value", "must have only one constraint");
    if (one) found = std::move(one);
  }
  return found;
}

/// Reads whitespace_pattern, which also applies to JSON in tool arguments and may be the only constraint.
void read_whitespace(const Fields& fields, Constraint& constraint) {
  const Json* object = fields.object("structured_outputs");
  const Json* nested = object == nullptr ? nullptr : object->find("whitespace_pattern");
  const Json* plain = fields.find("guided_whitespace_pattern");
  if (nested != nullptr && nested->is_null()) nested = nullptr;
  if (nested != nullptr && plain != nullptr) {
    refuse_field("guided_whitespace_pattern", "invalid_value",
                 "does not go together with structured_outputs.whitespace_pattern");
  }
  if (nested == nullptr && plain == nullptr) return;
  const char* path =
      nested != nullptr ? "structured_outputs.whitespace_pattern" : "guided_whitespace_pattern";
  if (constraint && constraint.kind != Kind::kJsonObject && constraint.kind != Kind::kJsonSchema) {
    refuse_field(path, "invalid_value", "only goes with JSON, not with " + constraint.field);
  }
  constraint.whitespace = whitespace_of(nested != nullptr ? *nested : *plain, path);
}

/// Reads response_format and the corresponding fields of vLLM, SGLang and llama-server. Returns kind kNone if
/// there is none; refuses two at once.
Constraint read_constraint(const Fields& fields) {
  Constraint found;
  const auto take = [&](Constraint one) {
    if (!one) return;
    if (found) refuse_field(one.field, "invalid_value", "does not go together with " + found.field);
    found = std::move(one);
  };
  if (const Json* format = fields.find("response_format")) take(of_response_format(fields, *format));
  if (const auto object = fields.within("structured_outputs")) {
    for (const char* name : {"json", "regex", "choice", "grammar", "json_object", "whitespace_pattern"}) {
      static_cast<void>(object->find(name));
    }
    take(of_structured_outputs(object->whole()));
  }
  for (const char* name : {"guided_json", "json_schema"}) {
    if (const Json* schema = fields.find(name)) take(of_schema(*schema, name));
  }
  for (const char* name : {"guided_regex", "regex"}) {
    if (const Json* text = fields.find(name)) take(of_text(Kind::kRegex, *text, name));
  }
  if (const Json* choices = fields.find("guided_choice")) take(of_choices(*choices, "guided_choice"));
  for (const char* name : {"guided_grammar", "grammar", "ebnf"}) {
    const Json* text = fields.find(name);
    if (text != nullptr && !(text->is_string() && text->as_string().empty())) take(of_grammar(*text, name));
  }
  read_whitespace(fields, found);
  return found;
}

/// Reads the first of vLLM's, Qwen's and llama-server's names that is present.
void read_any_reasoning_budget(const Fields& fields, ApiRequest& asked) {
  for (const char* name : {"thinking_token_budget", "thinking_budget", "reasoning_budget_tokens",
                           "thinking_budget_tokens", "reasoning_budget"}) {
    if (!asked.generate.rules.reasoning_budget) read_reasoning_budget(fields, name, asked);
  }
}

}  // namespace

std::vector<std::string> read_stop(const Fields& fields, const std::string& name, const BodyLimits& limits) {
  const Json* stop = fields.find(name);
  if (stop == nullptr) return {};
  std::vector<std::string> strings;
  const auto add = [&](const Json& item, const std::string& path) {
    if (!item.is_string()) refuse_kind(path, "a string", item);
    if (item.as_string().empty()) refuse_field(path, "invalid_value", "must not be empty");
    if (item.as_string().size() > limits.stop_bytes) {
      refuse_field(path, "too_long", "has more than " + std::to_string(limits.stop_bytes) + " bytes");
    }
    strings.push_back(item.as_string());
  };
  if (stop->is_string()) {
    add(*stop, name);
  } else if (stop->is_array()) {
    if (stop->size() > limits.stop_strings) {
      refuse_field(
          name, "too_many",
          std::to_string(stop->size()) + " strings, more than " + std::to_string(limits.stop_strings));
    }
    for (std::size_t i = 0; i < stop->size(); ++i) add(stop->as_array()[i], item_of(name, i));
  } else {
    refuse_kind(name, "a string or an array of strings", *stop);
  }
  return strings;
}

void read_token_limit(const Fields& fields, const char* name, const BodyLimits& limits,
                      GenerateRequest& generate) {
  const Json* value = fields.find(name);
  if (value == nullptr) return;
  generate.rules.unlimited = value->is_int() && value->as_int() == -1;
  if (generate.rules.unlimited) {
    generate.max_tokens.reset();
  } else {
    generate.max_tokens = static_cast<std::uint32_t>(*fields.integer(name, 1, limits.max_tokens));
  }
}

void read_basics(const Fields& fields, const BodyLimits& limits, ApiRequest& asked) {
  GenerateRequest& generate = asked.generate;
  if (const std::string* model = fields.string("model", limits.label_bytes)) generate.model = *model;
  if (const std::string* adapter = fields.string("adapter", limits.label_bytes)) generate.adapter = *adapter;
  generate.n = static_cast<std::uint32_t>(fields.integer("n", 1, limits.choices).value_or(1));
  generate.cache.enabled = fields.boolean_or("cache_prompt", true);
  generate.cache.min_tokens =
      static_cast<std::uint32_t>(fields.integer("min_cache_tokens", 0, kMaxToken).value_or(0));
  if (const std::string* key = fields.string("prompt_cache_key", limits.label_bytes)) {
    generate.cache.conversation = *key;
  }
  if (const std::string* word = fields.string("prompt_cache_retention", limits.label_bytes)) {
    if (*word == "24h") {
      generate.cache.disk_retention = std::chrono::hours(24);
    } else if (*word != "in_memory" && *word != "in-memory") {
      refuse_field("prompt_cache_retention", "invalid_value", "must be \"in_memory\" or \"24h\"");
    }
  }
  if (const std::string* word = fields.string("priority", limits.label_bytes)) {
    asked.priority = priority_of(*word);
    if (!asked.priority) refuse_field("priority", "invalid_value", "must be \"low\", \"normal\" or \"high\"");
  }
  if (const std::string* salt = fields.string("cache_salt", limits.label_bytes)) asked.cache_salt = *salt;
  if (const auto max = fields.integer("truncate_prompt_tokens", -1, kMaxToken)) {
    if (*max == 0) refuse_field("truncate_prompt_tokens", "out_of_range", "must be -1 or at least 1");
    generate.prompt_tail_tokens = *max < 0 ? 0 : static_cast<std::uint32_t>(*max);
  }
  if (const auto own = fields.within("reprise")) {
    generate.report.timeline = own->boolean_or("timeline", false);
    generate.report.explained = own->boolean_or("explain", false);
  }
  asked.stream = fields.boolean_or("stream", false);
}

void read_reasoning_budget(const Fields& fields, const char* name, ApiRequest& asked) {
  const auto tokens = fields.integer(name, -1, kMaxCount);
  if (!tokens) return;
  asked.generate.rules.reasoning_budget = static_cast<std::int32_t>(*tokens);
  asked.reasoning_budget_field = fields.path_of(name);
}

void read_reasoning(const Fields& fields, ApiRequest& asked, Json& extra) {
  const auto reasoning = fields.within("reasoning");
  if (!reasoning) return;
  read_reasoning_budget(*reasoning, "max_tokens", asked);
  if (const auto enabled = reasoning->boolean("enabled")) extra["enable_thinking"] = *enabled;
  const std::string* effort = reasoning->string("effort", 64);
  if (effort != nullptr && *effort == "none") {
    extra["enable_thinking"] = false;
  } else if (effort != nullptr) {
    extra["reasoning_effort"] = *effort;
  }
}

ApiRequest read_common(const Fields& fields, const BodyLimits& limits, ApiFlavor flavor) {
  ApiRequest asked;
  GenerateRequest& generate = asked.generate;
  read_basics(fields, limits, asked);
  generate.sampling = read_sampling(fields, flavor);
  read_logit_bias(fields, limits, flavor, generate);
  generate.rules.constraint = read_constraint(fields);
  generate.rules.ignore_eos = fields.boolean_or("ignore_eos", false);
  if (const auto budget = fields.integer("kv_budget", 0, kMaxToken)) {
    generate.cache.kv_budget = static_cast<std::uint32_t>(*budget);
  }
  if (flavor != ApiFlavor::kAnthropic) {
    generate.rules.stop = read_stop(fields, "stop", limits);
    read_token_limit(fields, "n_predict", limits, generate);
  }
  read_token_limit(fields, "max_tokens", limits, generate);
  read_ends(fields, limits, generate);
  read_samplers(fields, limits, generate);
  read_any_reasoning_budget(fields, asked);
  if (flavor != ApiFlavor::kLlamaServer) return asked;
  asked.any_model = true;
  read_as_llama_server(fields, generate.sampling);
  generate.rules.ban_eos = generate.rules.ignore_eos;
  return asked;
}

void read_progress(const Fields& fields, ApiRequest& asked, bool& timings_per_token) {
  asked.generate.report.progress = fields.boolean_or("return_progress", false) && asked.stream;
  timings_per_token = fields.boolean_or("timings_per_token", false);
}

}  // namespace reprise::protocol
