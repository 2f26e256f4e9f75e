#include "protocol/api/completions_request.h"

#include <array>
#include <ctime>

#include "protocol/api/chat_messages.h"
#include "protocol/api/field_rules.h"

namespace reprise::protocol {
namespace {

constexpr std::uint32_t kDefaultCompletionTokens = 16;  // OpenAI's default

void read_reply_options(const Fields& fields, TextRequest& request) {
  request.reply.return_token_ids = fields.boolean_or("return_token_ids", false);
  if (const auto options = fields.within("stream_options")) {
    if (!request.asked.stream) {
      refuse_field("stream_options", "invalid_value", "only goes with \"stream\": true");
    }
    request.reply.include_usage = options->boolean_or("include_usage", false);
  }
}

// -- chats

/// Reads the messages after which a snapshot is kept.
std::vector<ChatBreakpoint> read_checkpoints(const Fields& fields, const Json::Array& messages) {
  constexpr std::size_t kMaxCheckpoints = 16;  // each costs one more rendering of the chat
  std::vector<ChatBreakpoint> breakpoints;
  const Json::Array* given = fields.array("checkpoints");
  if (given == nullptr) return breakpoints;
  if (given->size() > kMaxCheckpoints) {
    refuse_field("checkpoints", "too_many", "has more than " + std::to_string(kMaxCheckpoints));
  }
  for (std::size_t i = 0; i < given->size(); ++i) {
    const Json& one = (*given)[i];
    const std::string path = item_of("checkpoints", i);
    if (!one.is_int()) refuse_kind(path, "the index of a message", one);
    if (one.as_int() < 0 || static_cast<std::uint64_t>(one.as_int()) >= messages.size()) {
      refuse_field(path, "out_of_range",
                   show_number(static_cast<double>(one.as_int())) + " is the index of no message");
    }
    ChatBreakpoint breakpoint{.index = static_cast<std::uint32_t>(one.as_int()),
                              .ttl = std::chrono::seconds(0)};
    const Json& message = messages[breakpoint.index];
    const std::string* content = message.find_string("content");
    const Json::Array* calls = message.find_array("tool_calls");
    if (calls != nullptr && !calls->empty()) {
      breakpoint.in = ChatBreakpoint::In::kCall;
      breakpoint.at = calls->size() - 1;
    } else if (content != nullptr) {
      breakpoint.at = content->size();
    }
    breakpoints.push_back(breakpoint);
  }
  return breakpoints;
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
  const Fields option(*given, "tool_choice", fields);
  const std::string* type = option.string("type", 64);
  if (type == nullptr || *type != "function") {
    refuse_unsupported("tool_choice.type", "only 'function' is supported");
  }
  const auto function = option.within("function");
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

/// Passes the date to templates under llama-server's variable names.
void tell_date(ApiFlavor flavor, ChatPrompt& chat) {
  if (flavor != ApiFlavor::kLlamaServer) return;
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  const auto tell = [&](const char* name, const char* format) {
    if (chat.template_extra.is_object() && chat.template_extra.find(name) != nullptr) return;
    std::array<char, 64> text{};
    const std::size_t length = std::strftime(text.data(), text.size(), format, &parts);
    chat.template_extra[name] = std::string(text.data(), length);
  };
  tell("date_string", "%d %b %Y");
  tell("datetime", "%b %d %Y");
}

TextRequest read_chat_text(const Fields& fields, const BodyLimits& limits, ApiFlavor flavor) {
  TextRequest request{.asked = read_common(fields, limits, flavor)};
  request.reply.n = request.asked.generate.n;
  request.reply.flavor = flavor;
  read_token_limit(fields, "max_completion_tokens", limits, request.asked.generate);
  request.asked.one_call = !fields.boolean_or("parallel_tool_calls", true);
  read_reply_options(fields, request);
  if (flavor == ApiFlavor::kLlamaServer) {
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
  // With tool_choice none the template gets no tools, so that the model cannot call one.
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
  read_continuation(fields, flavor, chat);
  tell_date(flavor, chat);
  request.asked.generate.prompt = std::move(chat);
  return request;
}

// -- completions

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

/// Reads echo, suffix and best_of of completions. Requires: the prompts have been read.
void read_completion_options(const Fields& fields, const BodyLimits& limits, TextRequest& request) {
  GenerateRequest& generate = request.asked.generate;
  ReplyOptions& reply = request.reply;
  if (const std::string* suffix = fields.string("suffix", limits.prompt_bytes); suffix && !suffix->empty()) {
    const auto fill = [&](Prompt& prompt) {
      const auto* text = std::get_if<std::string>(&prompt);
      if (text == nullptr) refuse_field("suffix", "invalid_value", "only goes with prompts that are text");
      prompt = InfillPrompt{.prefix = *text, .suffix = *suffix, .field = "suffix"};
    };
    fill(generate.prompt);
    for (Prompt& prompt : request.asked.further_prompts) fill(prompt);
  }
  if (fields.boolean_or("echo", false)) {
    if (reply.logprobs) refuse_unsupported("echo", "is not supported together with logprobs");
    reply.echo = true;
    generate.report.settled = true;
    const auto keep = [&](const Prompt& prompt) {
      const auto* text = std::get_if<std::string>(&prompt);
      reply.prompt_texts.push_back(text == nullptr ? std::string() : *text);
    };
    keep(generate.prompt);
    for (const Prompt& prompt : request.asked.further_prompts) keep(prompt);
  }
  if (const auto best_of = fields.integer("best_of", 1, limits.choices)) {
    if (*best_of < generate.n) refuse_field("best_of", "invalid_value", "is less than n");
    if (*best_of == generate.n) return;
    if (request.asked.stream)
      refuse_field("best_of", "invalid_value", "does not go together with \"stream\": true");
    reply.shown = generate.n;
    reply.n = generate.n = static_cast<std::uint32_t>(*best_of);
    if (!generate.sampling.logprobs) generate.sampling.logprobs = 0;
  }
}

TextRequest read_completion_text(const Fields& fields, const BodyLimits& limits) {
  TextRequest request{.asked = read_common(fields, limits, ApiFlavor::kOpenAi)};
  request.reply.n = request.asked.generate.n;
  read_reply_options(fields, request);
  request.reply.kind = TextKind::kCompletion;
  GenerateRequest& generate = request.asked.generate;
  if (!generate.max_tokens && !generate.rules.unlimited) generate.max_tokens = kDefaultCompletionTokens;
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
  read_completion_options(fields, limits, request);
  Json no_template;
  read_reasoning(fields, request.asked, no_template);
  return request;
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

TextRequest read_text_fields(TextKind kind, const Fields& fields, const BodyLimits& limits,
                             ApiFlavor flavor) {
  return kind == TextKind::kChat ? read_chat_text(fields, limits, flavor)
                                 : read_completion_text(fields, limits);
}

TextRequest read_text_request(TextKind kind, const Json& body, const BodyLimits& limits, ApiFlavor flavor) {
  const Fields fields(body);
  TextRequest request = read_text_fields(kind, fields, limits, flavor);
  request.asked.unknown_fields = unknown_fields_of(fields);
  return request;
}

Outcome<TextRequest, Error> parse_request(TextKind kind, std::string_view body, const BodyLimits& limits,
                                          ApiFlavor flavor) {
  const BodyHolds holds = kind == TextKind::kChat ? BodyHolds::kText : BodyHolds::kTokenIds;
  try {
    return read_text_request(kind, parse_body(body, limits, holds), limits, flavor);
  } catch (const BadRequest& refused) {
    return refused.error();
  }
}

}  // namespace reprise::protocol
