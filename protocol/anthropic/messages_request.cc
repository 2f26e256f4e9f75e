#include "protocol/anthropic/messages_request.h"

#include "protocol/anthropic/chat_blocks.h"
#include "protocol/api/known_fields.h"
#include "protocol/openai/continuation.h"
#include "protocol/openai/everyday_fields.h"
#include "protocol/openai/request.h"

namespace reprise::protocol::anthropic {
namespace {

constexpr std::size_t kWordBytes = 64;

/// Fields of Anthropic's API that would change the answer.
void refuse_foreign_fields(const Fields& fields) {
  for (const char* name : {"mcp_servers", "container"}) {
    const Json* value = fields.find(name);
    if (value != nullptr && !(value->is_array() && value->size() == 0)) {
      refuse_unsupported(name, "is not supported by this server");
    }
  }
}

ToolChoice read_tool_choice(const Fields& fields, const Json& tools) {
  const bool have_tools = tools.size() > 0;
  ToolChoice choice{.mode = have_tools ? ToolChoice::Mode::kAuto : ToolChoice::Mode::kNone};
  const Json* given = fields.object("tool_choice");
  if (given == nullptr) return choice;
  const Fields wish(*given, "tool_choice");
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

/// What templates are told of thinking.
void read_thinking(const Fields& fields, Json& extra) {
  const Json* thinking = fields.object("thinking");
  if (thinking == nullptr) return;
  const Fields wish(*thinking, "thinking");
  const std::string* type = wish.string("type", kWordBytes);
  if (type == nullptr || (*type != "enabled" && *type != "disabled" && *type != "adaptive")) {
    refuse_field(wish.path_of("type"), "invalid_value", "must be \"enabled\", \"adaptive\" or \"disabled\"");
  }
  extra["enable_thinking"] = *type != "disabled";
}

/// output_config: the effort goes to the template, the format is a constraint. output_format is its older name.
grammar::Constraint read_output(const Fields& fields, Json& extra) {
  const Json* config = fields.object("output_config");
  const Json* format = fields.object("output_format");
  std::string path = "output_format";
  if (config != nullptr) {
    const Fields wish(*config, "output_config");
    if (const std::string* effort = wish.string("effort", kWordBytes)) extra["reasoning_effort"] = *effort;
    if (const Json* inner = wish.object("format")) {
      format = inner;
      path = wish.path_of("format");
    }
  }
  if (format == nullptr) return {};
  const Fields wish(*format, path);
  const std::string* type = wish.string("type", kWordBytes);
  if (type == nullptr || *type != "json_schema")
    refuse_unsupported(wish.path_of("type"), "only 'json_schema' is supported");
  const Json* schema = wish.object("schema");
  if (schema == nullptr) refuse_field(wish.path_of("schema"), "missing", "is required");
  return {.kind = grammar::Constraint::Kind::kJsonSchema, .json = *schema, .field = wish.path_of("schema")};
}

/// The chat, and with what of its tools it may be answered.
ChatPrompt read_prompt(const Fields& fields, const BodyLimits& limits, ToolChoice& choice) {
  ChatPrompt chat = read_chat(fields, limits);
  choice = read_tool_choice(fields, chat.tools);
  // With none the model is not told of the tools, so that it cannot call one.
  if (choice.mode == ToolChoice::Mode::kNone) {
    chat.tools = {};
    std::erase_if(chat.breakpoints, [](const auto& one) { return one.in == ChatBreakpoint::In::kTool; });
  }
  if (const Json* extra = fields.object("chat_template_kwargs")) chat.template_extra = *extra;
  read_thinking(fields, chat.template_extra);
  // A last message of the assistant's is the beginning of the reply, as llama-server has it, too.
  openai::read_continuation(fields, openai::Manners::kLlamaServer, chat);
  const Json* last = chat.messages.size() == 0 ? nullptr : &chat.messages.as_array().back();
  if (last == nullptr || *last->find_string("role") == "assistant") {
    refuse_field("messages", "invalid_value", "end with calls that have no result, or have nobody to answer");
  }
  return chat;
}

}  // namespace

ApiRequest read_messages_request(const Json& body, const BodyLimits& limits) {
  const Fields fields(body);
  refuse_foreign_fields(fields);
  ApiRequest asked = openai::read_common(fields, limits, openai::Manners::kOpenAi).asked;
  GenerateRequest& generate = asked.generate;
  if (!generate.max_tokens) refuse_field("max_tokens", "missing", "is required");
  if (generate.n != 1) refuse_unsupported("n", "is not supported here: there is one answer");
  generate.stop = openai::read_stop(fields, "stop_sequences", limits);
  ChatPrompt chat = read_prompt(fields, limits, asked.tool_choice);
  if (const Json* wish = fields.object("tool_choice")) {
    asked.one_call = Fields(*wish, "tool_choice").boolean_or("disable_parallel_tool_use", false);
  }
  if (auto wanted = read_output(fields, chat.template_extra)) generate.constraint = std::move(wanted);
  generate.prompt = std::move(chat);
  if (const Json* thinking = fields.object("thinking")) {
    openai::read_reasoning_budget(Fields(*thinking, "thinking"), "budget_tokens", asked);
  }
  note_unknown_fields(body, FieldsOf::kMessages, asked.unknown_fields);
  return asked;
}

RenderRequest read_count_request(const Json& body, const BodyLimits& limits) {
  const Fields fields(body);
  refuse_foreign_fields(fields);
  RenderRequest request;
  const std::string* model = fields.string("model", limits.label_bytes);
  if (model != nullptr) request.model = *model;
  ToolChoice choice;
  request.chat = read_prompt(fields, limits, choice);
  static_cast<void>(read_output(fields, request.chat.template_extra));
  return request;
}

}  // namespace reprise::protocol::anthropic
