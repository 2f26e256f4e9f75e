#include "protocol/anthropic/messages_request.h"

#include "protocol/anthropic/chat_blocks.h"
#include "protocol/api/field_rules.h"
#include "protocol/openai/continuation.h"
#include "protocol/openai/everyday_fields.h"
#include "protocol/openai/request.h"

namespace reprise::protocol::anthropic {
namespace {

constexpr std::size_t kWordBytes = 64;

ToolChoice read_tool_choice(const Fields& fields, const Json& tools, bool& one_call) {
  const bool have_tools = tools.size() > 0;
  ToolChoice choice{.mode = have_tools ? ToolChoice::Mode::kAuto : ToolChoice::Mode::kNone};
  const auto given = fields.within("tool_choice");
  if (!given) return choice;
  const Fields& wish = *given;
  one_call = wish.boolean_or("disable_parallel_tool_use", false);
  const std::string* type = wish.string("type", kWordBytes);
  if (type == nullptr) refuse_field(wish.path_of("type"), "missing", "is required");
  if (*type == "none") return {};
  if (*type == "auto") return choice;
  if (*type == "any") {
    if (!have_tools) refuse_field("tool_choice", "invalid_value", "'any' needs tools");
    return {.mode = ToolChoice::Mode::kRequired};
  }
  if (*type != "tool") {
    refuse_field(wish.path_of("type"), "invalid_value",
                 in_quotes(*type) + " is not one of auto, any, tool, none");
  }
  const std::string* name = wish.string("name", 256);
  if (name == nullptr) refuse_field(wish.path_of("name"), "missing", "is required");
  for (const Json& tool : have_tools ? tools.as_array() : Json::Array()) {
    if (*tool.find_object("function")->find_string("name") == *name) {
      return {.mode = ToolChoice::Mode::kNamed, .name = *name};
    }
  }
  refuse_field(wish.path_of("name"), "invalid_value", in_quotes(*name) + " is not among the tools");
}

/// What templates are told of thinking, and its budget.
void read_thinking(const Fields& fields, ApiRequest& asked, Json& extra) {
  const auto thinking = fields.within("thinking");
  if (!thinking) return;
  const std::string* type = thinking->string("type", kWordBytes);
  if (type == nullptr || (*type != "enabled" && *type != "disabled" && *type != "adaptive")) {
    refuse_field("thinking.type", "invalid_value", "must be \"enabled\", \"adaptive\" or \"disabled\"");
  }
  extra["enable_thinking"] = *type != "disabled";
  openai::read_reasoning_budget(*thinking, "budget_tokens", asked);
}

/// output_config: the effort goes to the template, the format is a constraint. output_format is its older name.
grammar::Constraint read_output(const Fields& fields, Json& extra) {
  const auto config = fields.within("output_config");
  if (config) {
    if (const std::string* effort = config->string("effort", kWordBytes)) extra["reasoning_effort"] = *effort;
  }
  const auto newer = config ? config->within("format") : std::nullopt;
  const auto older = newer ? std::nullopt : fields.within("output_format");
  if (!newer && !older) return {};
  const Fields& wish = newer ? *newer : *older;
  const std::string* type = wish.string("type", kWordBytes);
  if (type == nullptr || *type != "json_schema")
    refuse_unsupported(wish.path_of("type"), "only 'json_schema' is supported");
  const Json* schema = wish.object("schema");
  if (schema == nullptr) refuse_field(wish.path_of("schema"), "missing", "is required");
  return {.kind = grammar::Constraint::Kind::kJsonSchema, .json = *schema, .field = wish.path_of("schema")};
}

/// The chat, and with what of its tools it may be answered.
ChatPrompt read_prompt(const Fields& fields, const BodyLimits& limits, ApiRequest& asked) {
  ChatPrompt chat = read_chat(fields, limits);
  asked.tool_choice = read_tool_choice(fields, chat.tools, asked.one_call);
  // With none the model is not told of the tools, so that it cannot call one.
  if (asked.tool_choice.mode == ToolChoice::Mode::kNone) {
    chat.tools = {};
    std::erase_if(chat.breakpoints, [](const auto& one) { return one.in == ChatBreakpoint::In::kTool; });
  }
  if (const Json* extra = fields.object("chat_template_kwargs")) chat.template_extra = *extra;
  read_thinking(fields, asked, chat.template_extra);
  // A last message of the assistant's is the beginning of the reply, as llama-server has it, too.
  openai::read_continuation(fields, openai::Manners::kLlamaServer, chat);
  const Json* last = chat.messages.size() == 0 ? nullptr : &chat.messages.as_array().back();
  if (last == nullptr || *last->find_string("role") == "assistant") {
    refuse_field("messages", "invalid_value",
                 "must not end with tool calls without results, or with no message to reply to");
  }
  return chat;
}

}  // namespace

ApiRequest read_messages_request(const Json& body, const BodyLimits& limits) {
  const Fields fields(body);
  ApiRequest asked = openai::read_common(fields, limits, openai::Manners::kAnthropic).asked;
  GenerateRequest& generate = asked.generate;
  if (!generate.max_tokens) refuse_field("max_tokens", "missing", "is required");
  if (generate.n != 1) refuse_unsupported("n", "is not supported here: there is always one answer");
  generate.stop = openai::read_stop(fields, "stop_sequences", limits);
  ChatPrompt chat = read_prompt(fields, limits, asked);
  if (auto wanted = read_output(fields, chat.template_extra)) generate.constraint = std::move(wanted);
  generate.prompt = std::move(chat);
  asked.unknown_fields = unknown_fields_of(fields);
  return asked;
}

RenderRequest read_count_request(const Json& body, const BodyLimits& limits,
                                 std::vector<std::string>& unknown) {
  const Fields fields(body);
  RenderRequest request;
  const std::string* model = fields.string("model", limits.label_bytes);
  if (model != nullptr) request.model = *model;
  ApiRequest asked;
  request.chat = read_prompt(fields, limits, asked);
  static_cast<void>(read_output(fields, request.chat.template_extra));
  unknown = unknown_fields_of(fields);
  return request;
}

}  // namespace reprise::protocol::anthropic
