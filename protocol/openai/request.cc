#include "protocol/openai/request.h"

#include <limits>
#include <random>

#include "protocol/api/body.h"
#include "protocol/api/field_rules.h"
#include "protocol/api/fields.h"
#include "protocol/openai/chat_messages.h"
#include "protocol/openai/constraint_fields.h"
#include "protocol/openai/continuation.h"
#include "protocol/openai/everyday_fields.h"
#include "protocol/openai/logit_bias.h"

namespace reprise::protocol::openai {
namespace {

constexpr std::int64_t kMostInt = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMostToken = std::numeric_limits<TokenId>::max();
constexpr std::uint32_t kDefaultCompletionTokens = 16;  // what OpenAI's completions give

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

namespace {

SamplingWishes read_sampling(const Fields& fields, Manners manners) {
  SamplingWishes sampling;
  // As their APIs have it: beyond 2 OpenAI refuses, llama-server computes.
  sampling.temperature = fields.number("temperature", 0, manners == Manners::kLlamaServer ? 100 : 2);
  sampling.top_k = fields.integer("top_k", -1, kMostToken);
  if (sampling.top_k == -1) sampling.top_k = 0;  // both mean all, to different servers
  sampling.top_p = fields.number("top_p", 0, 1);
  sampling.min_p = fields.number("min_p", 0, 1);
  sampling.repetition_penalty = fields.number("repetition_penalty", 0.01, 100);
  if (!sampling.repetition_penalty) sampling.repetition_penalty = fields.number("repeat_penalty", 0.01, 100);
  sampling.repetition_last_n = fields.integer("repeat_last_n", -1, kMostToken);
  sampling.presence_penalty = fields.number("presence_penalty", -2, 2);
  sampling.frequency_penalty = fields.number("frequency_penalty", -2, 2);
  if (const auto seed = fields.integer("seed", -kMostInt - 1, kMostInt)) {
    sampling.seed = static_cast<std::uint64_t>(*seed & kMostInt);  // replies name it, so it has no sign
  }
  return sampling;
}

/// Values that llama-server's clients send to say nothing, or that mean something else to it.
void read_as_llama_server(const Fields& fields, SamplingWishes& sampling) {
  if (fields.integer("seed", -kMostInt - 1, kMostInt) == -1) sampling.seed = std::random_device{}();
  if (fields.integer("repeat_last_n", -1, kMostToken) == 0) sampling.repetition_penalty = 1;  // of no tokens
}

/// -1 is all that fits.
void read_limit(const Fields& fields, const char* name, const BodyLimits& limits, GenerateRequest& generate) {
  const Json* value = fields.find(name);
  if (value == nullptr) return;
  generate.unlimited = value->is_int() && value->as_int() == -1;
  if (generate.unlimited) {
    generate.max_tokens.reset();
  } else {
    generate.max_tokens = static_cast<std::uint32_t>(*fields.integer(name, 1, limits.max_tokens));
  }
}

}  // namespace

void read_basics(const Fields& fields, const BodyLimits& limits, ApiRequest& asked) {
  GenerateRequest& generate = asked.generate;
  if (const std::string* model = fields.string("model", limits.label_bytes)) generate.model = *model;
  if (const std::string* adapter = fields.string("adapter", limits.label_bytes)) generate.adapter = *adapter;
  generate.n = static_cast<std::uint32_t>(fields.integer("n", 1, limits.choices).value_or(1));
  generate.cache_prompt = fields.boolean_or("cache_prompt", true);
  generate.min_cache_tokens =
      static_cast<std::uint32_t>(fields.integer("min_cache_tokens", 0, kMostToken).value_or(0));
  if (const std::string* key = fields.string("prompt_cache_key", limits.label_bytes)) {
    generate.conversation = *key;
  }
  if (const std::string* word = fields.string("prompt_cache_retention", limits.label_bytes)) {
    if (*word == "24h") {
      generate.disk_retention = std::chrono::hours(24);
    } else if (*word != "in_memory" && *word != "in-memory") {
      refuse_field("prompt_cache_retention", "invalid_value", "must be \"in_memory\" or \"24h\"");
    }
  }
  if (const std::string* word = fields.string("priority", limits.label_bytes)) {
    asked.priority = priority_of(*word);
    if (!asked.priority) refuse_field("priority", "invalid_value", "must be \"low\", \"normal\" or \"high\"");
  }
  if (const std::string* salt = fields.string("cache_salt", limits.label_bytes)) asked.cache_salt = *salt;
  if (const auto most = fields.integer("truncate_prompt_tokens", -1, kMostToken)) {
    if (*most == 0) refuse_field("truncate_prompt_tokens", "out_of_range", "must be -1 or at least 1");
    generate.prompt_tail_tokens = *most < 0 ? 0 : static_cast<std::uint32_t>(*most);
  }
  if (const auto own = fields.within("reprise")) {
    generate.want_timeline = own->boolean_or("timeline", false);
    generate.want_explained = own->boolean_or("explain", false);
  }
  asked.stream = fields.boolean_or("stream", false);
}

TextRequest read_common(const Fields& fields, const BodyLimits& limits, Manners manners) {
  TextRequest request;
  ApiRequest& asked = request.asked;
  GenerateRequest& generate = asked.generate;
  read_basics(fields, limits, asked);
  generate.sampling = read_sampling(fields, manners);
  read_logit_bias(fields, limits, manners, generate);
  generate.constraint = read_constraint(fields);
  generate.ignore_eos = fields.boolean_or("ignore_eos", false);
  if (const auto budget = fields.integer("kv_budget", 0, kMostToken)) {
    generate.kv_budget = static_cast<std::uint32_t>(*budget);
  }
  if (manners != Manners::kAnthropic) {
    generate.stop = read_stop(fields, "stop", limits);
    read_limit(fields, "n_predict", limits, generate);
  }
  read_limit(fields, "max_tokens", limits, generate);
  read_ends(fields, limits, generate);
  read_samplers(fields, limits, generate);
  read_reasoning_budget(fields, asked);
  request.reply.n = generate.n;
  if (manners != Manners::kLlamaServer) return request;
  request.reply.manners = manners;
  asked.any_model = true;
  read_as_llama_server(fields, generate.sampling);
  generate.ban_eos = generate.ignore_eos;
  return request;
}

namespace {

/// Messages behind which a snapshot is to be kept.
std::vector<ChatBreakpoint> read_checkpoints(const Fields& fields, const Json::Array& messages) {
  constexpr std::size_t kMostCheckpoints = 16;  // the chat is rendered once more for each
  std::vector<ChatBreakpoint> places;
  const Json::Array* given = fields.array("checkpoints");
  if (given == nullptr) return places;
  if (given->size() > kMostCheckpoints) {
    refuse_field("checkpoints", "too_many", "has more than " + std::to_string(kMostCheckpoints));
  }
  for (std::size_t i = 0; i < given->size(); ++i) {
    const Json& one = (*given)[i];
    const std::string path = item_of("checkpoints", i);
    if (!one.is_int()) refuse_kind(path, "the index of a message", one);
    if (one.as_int() < 0 || static_cast<std::uint64_t>(one.as_int()) >= messages.size()) {
      refuse_field(path, "out_of_range",
                   show_number(static_cast<double>(one.as_int())) + " is the index of no message");
    }
    ChatBreakpoint place{.index = static_cast<std::uint32_t>(one.as_int()), .ttl = std::chrono::seconds(0)};
    const Json& message = messages[place.index];
    const std::string* content = message.find_string("content");
    const Json::Array* calls = message.find_array("tool_calls");
    if (calls != nullptr && !calls->empty()) {
      place.in = ChatBreakpoint::In::kCall;
      place.at = calls->size() - 1;
    } else if (content != nullptr) {
      place.at = content->size();
    }
    places.push_back(place);
  }
  return places;
}

ToolChoice read_tool_choice(const Fields& fields, const Json::Array* tools) {
  const bool have_tools = tools != nullptr && !tools->empty();
  ToolChoice choice{.mode = have_tools ? ToolChoice::Mode::kAuto : ToolChoice::Mode::kNone};
  const Json* given = fields.find("tool_choice");
  if (given == nullptr) return choice;
  if (given->is_string()) {
    const std::string& word = given->as_string();
    if (word == "none") return {};
    if (word == "auto") return choice;
    if (word != "required") {
      refuse_field("tool_choice", "invalid_value", in_quotes(word) + " is not one of none, auto, required");
    }
    if (!have_tools) refuse_field("tool_choice", "invalid_value", "'required' needs tools");
    return {.mode = ToolChoice::Mode::kRequired};
  }
  if (!given->is_object()) refuse_kind("tool_choice", "a string or an object", *given);
  const Fields wish(*given, "tool_choice", fields);
  const std::string* type = wish.string("type", 64);
  if (type == nullptr || *type != "function") {
    refuse_unsupported("tool_choice.type", "only 'function' is supported");
  }
  const auto function = wish.within("function");
  const std::string* name = function ? function->string("name", 256) : nullptr;
  if (name == nullptr) refuse_field("tool_choice.function.name", "missing", "is required");
  for (const Json& tool : have_tools ? *tools : Json::Array()) {
    const Json* known = tool.find_object("function");
    const std::string* known_name = known == nullptr ? nullptr : known->find_string("name");
    if (known_name != nullptr && *known_name == *name) {
      return {.mode = ToolChoice::Mode::kNamed, .name = *name};
    }
  }
  refuse_field("tool_choice.function.name", "invalid_value", in_quotes(*name) + " is not among the tools");
}

/// How the reply to a chat or a completion looks.
void read_reply_options(const Fields& fields, TextRequest& request) {
  request.reply.return_token_ids = fields.boolean_or("return_token_ids", false);
  if (const auto options = fields.within("stream_options")) {
    if (!request.asked.stream) {
      refuse_field("stream_options", "invalid_value", "only goes with \"stream\": true");
    }
    request.reply.include_usage = options->boolean_or("include_usage", false);
  }
}

Prompt read_prompt(const Json& prompt, const std::string& path, const BodyLimits& limits) {
  if (prompt.is_string()) {
    if (prompt.as_string().size() > limits.prompt_bytes) {
      refuse_field(path, "too_long", "has more than " + std::to_string(limits.prompt_bytes) + " bytes");
    }
    return prompt.as_string();
  }
  if (!prompt.is_array()) refuse_kind(path, "a string or an array of token ids", prompt);
  if (prompt.as_array().empty()) refuse_field(path, "invalid_value", "must not be empty");
  return read_token_list(prompt.as_array(), path, limits);
}

}  // namespace

std::vector<Prompt> read_prompts(const Json& given, const std::string& field, const BodyLimits& limits) {
  std::vector<Prompt> prompts;
  const bool several = given.is_array() && given.size() > 0 &&
                       (given.as_array()[0].is_string() || given.as_array()[0].is_array());
  if (!several) {
    prompts.push_back(read_prompt(given, field, limits));
    return prompts;
  }
  if (given.size() > limits.prompts) {
    refuse_field(field, "too_many",
                 std::to_string(given.size()) + " prompts, more than " + std::to_string(limits.prompts));
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    prompts.push_back(read_prompt(given.as_array()[i], item_of(field, i), limits));
  }
  return prompts;
}

void read_progress(const Fields& fields, ApiRequest& asked, bool& timings_per_token) {
  asked.generate.want_progress = fields.boolean_or("return_progress", false) && asked.stream;
  timings_per_token = fields.boolean_or("timings_per_token", false);
}

TextRequest read_chat(const Fields& fields, const BodyLimits& limits, Manners manners) {
  TextRequest request = read_common(fields, limits, manners);
  read_limit(fields, "max_completion_tokens", limits, request.asked.generate);
  request.asked.one_call = !fields.boolean_or("parallel_tool_calls", true);
  read_reply_options(fields, request);
  if (manners == Manners::kLlamaServer) {
    read_progress(fields, request.asked, request.reply.timings_per_token);
    request.reply.verbose = fields.boolean_or("verbose", false);
  }

  const Json::Array* messages = fields.array("messages");
  if (messages == nullptr) refuse_field("messages", "missing", "is required");
  ChatPrompt chat{.messages = Json(*messages)};
  check_messages(chat.messages.as_array(), limits);
  const Json::Array* tools = fields.array("tools");
  if (tools != nullptr) check_tools(*tools, limits);
  request.reply.kind = TextKind::kChat;
  request.asked.tool_choice = read_tool_choice(fields, tools);

  const auto top = fields.integer("top_logprobs", 0, limits.top_logprobs);
  request.reply.logprobs = fields.boolean_or("logprobs", false);
  if (top && !request.reply.logprobs) {
    refuse_field("top_logprobs", "invalid_value", "only goes with \"logprobs\": true");
  }
  if (request.reply.logprobs) request.asked.generate.sampling.logprobs = static_cast<int>(top.value_or(0));

  chat.breakpoints = read_checkpoints(fields, *messages);
  // With tool_choice none the model is not told of the tools, so that it cannot call one.
  if (request.asked.tool_choice.mode != ToolChoice::Mode::kNone) chat.tools = Json(*tools);
  if (const Json* extra = fields.object("chat_template_kwargs")) chat.template_extra = *extra;
  read_reasoning(fields, request.asked, chat.template_extra);
  if (const std::string* effort = fields.string("reasoning_effort", 64)) {
    chat.template_extra["reasoning_effort"] = *effort;
    if (*effort == "none" && chat.template_extra.find("enable_thinking") == nullptr) {
      chat.template_extra["enable_thinking"] = false;
    }
  }
  chat.add_generation_prompt = fields.boolean_or("add_generation_prompt", true);
  read_continuation(fields, manners, chat);
  tell_date(manners, chat);
  request.asked.generate.prompt = std::move(chat);
  return request;
}

TextRequest read_completion(const Fields& fields, const BodyLimits& limits) {
  TextRequest request = read_common(fields, limits, Manners::kOpenAi);
  read_reply_options(fields, request);
  request.reply.kind = TextKind::kCompletion;
  GenerateRequest& generate = request.asked.generate;
  if (!generate.max_tokens && !generate.unlimited) generate.max_tokens = kDefaultCompletionTokens;
  if (fields.find("checkpoints") != nullptr) {
    refuse_field("checkpoints", "invalid_value", "only goes with messages");
  }
  const Json* prompt = fields.find("prompt");
  if (prompt == nullptr) refuse_field("prompt", "missing", "is required");
  std::vector<Prompt> prompts = read_prompts(*prompt, "prompt", limits);
  request.reply.prompts = static_cast<std::uint32_t>(prompts.size());
  request.asked.generate.prompt = std::move(prompts.front());
  prompts.erase(prompts.begin());
  request.asked.further_prompts = std::move(prompts);
  if (const auto top = fields.integer("logprobs", 0, limits.top_logprobs)) {
    request.reply.logprobs = true;
    request.asked.generate.sampling.logprobs = static_cast<int>(*top);
  }
  read_completion_wishes(fields, limits, request);
  Json no_template;
  read_reasoning(fields, request.asked, no_template);
  return request;
}

TextRequest read_chat_request(const Json& body, const BodyLimits& limits, Manners manners) {
  const Fields fields(body);
  TextRequest request = read_chat(fields, limits, manners);
  request.asked.unknown_fields = unknown_fields_of(fields);
  return request;
}

TextRequest read_completion_request(const Json& body, const BodyLimits& limits) {
  const Fields fields(body);
  TextRequest request = read_completion(fields, limits);
  request.asked.unknown_fields = unknown_fields_of(fields);
  return request;
}

Outcome<TextRequest, ApiError> parse_request(TextKind kind, std::string_view body, const BodyLimits& limits,
                                             Manners manners) {
  try {
    if (kind == TextKind::kChat) {
      return read_chat_request(parse_body(body, limits, BodyHolds::kText), limits, manners);
    }
    return read_completion_request(parse_body(body, limits, BodyHolds::kTokenIds), limits);
  } catch (const BadRequest& refused) {
    return refused.error();
  }
}

}  // namespace reprise::protocol::openai
