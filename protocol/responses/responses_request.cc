#include "protocol/responses/responses_request.h"

#include "protocol/api/known_fields.h"
#include "protocol/openai/everyday_fields.h"
#include "protocol/openai/request.h"
#include "protocol/responses/input_items.h"

namespace reprise::protocol::responses {
namespace {

constexpr std::size_t kWordBytes = 64;
constexpr std::size_t kToolNameBytes = 256;

void refuse_foreign_fields(const Fields& fields) {
  if (fields.boolean_or("background", false))
    refuse_unsupported("background", "is not supported by this server");
  for (const char* name : {"conversation", "prompt"}) {
    if (fields.find(name) != nullptr) refuse_unsupported(name, "is not supported by this server");
  }
  if (const std::string* word = fields.string("truncation", kWordBytes);
      word != nullptr && *word != "disabled") {
    refuse_unsupported("truncation", "only 'disabled' is supported");
  }
  if (fields.integer("top_logprobs", 0, 20).value_or(0) > 0) {
    refuse_unsupported("top_logprobs", "is not supported here; chat completions have it");
  }
}

/// As chats have them; what is no function is left out.
Json read_tools(const Fields& fields, const BodyLimits& limits) {
  Json out;
  const Json::Array* tools = fields.array("tools");
  if (tools == nullptr) return out;
  if (tools->size() > limits.tools) {
    refuse_field("tools", "too_many",
                 std::to_string(tools->size()) + " tools, more than " + std::to_string(limits.tools));
  }
  for (std::size_t i = 0; i < tools->size(); ++i) {
    const std::string path = item_of("tools", i);
    if (!(*tools)[i].is_object()) refuse_kind(path, "an object", (*tools)[i]);
    const Fields tool((*tools)[i], path);
    const std::string* type = tool.string("type", kToolNameBytes);
    if (type == nullptr) refuse_field(tool.path_of("type"), "missing", "is required");
    if (*type != "function") continue;
    const std::string* name = tool.string("name", kToolNameBytes);
    if (name == nullptr || name->empty()) refuse_field(tool.path_of("name"), "missing", "is required");
    Json function{{"name", *name}};
    if (const std::string* words = tool.string("description", limits.prompt_bytes))
      function["description"] = *words;
    if (const Json* parameters = tool.object("parameters")) function["parameters"] = *parameters;
    if (tool.boolean_or("strict", false)) function["strict"] = true;
    out.push_back(Json{{"type", "function"}, {"function", std::move(function)}});
  }
  return out;
}

ToolChoice read_tool_choice(const Fields& fields, const Json& tools) {
  const bool have_tools = tools.size() > 0;
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
    if (!have_tools)
      refuse_field("tool_choice", "invalid_value", "'required' needs functions among the tools");
    return {.mode = ToolChoice::Mode::kRequired};
  }
  if (!given->is_object()) refuse_kind("tool_choice", "a string or an object", *given);
  const Fields wish(*given, "tool_choice");
  const std::string* type = wish.string("type", kWordBytes);
  if (type == nullptr || *type != "function")
    refuse_unsupported("tool_choice.type", "only 'function' is supported");
  const std::string* name = wish.string("name", kToolNameBytes);
  if (name == nullptr) refuse_field("tool_choice.name", "missing", "is required");
  for (const Json& tool : have_tools ? tools.as_array() : Json::Array()) {
    if (*tool.find_object("function")->find_string("name") == *name) {
      return {.mode = ToolChoice::Mode::kNamed, .name = *name};
    }
  }
  refuse_field("tool_choice.name", "invalid_value", in_quotes(*name) + " is not among the functions");
}

grammar::Constraint read_format(const Fields& fields) {
  const Json* text = fields.object("text");
  const Json* format = text == nullptr ? nullptr : Fields(*text, "text").object("format");
  if (format == nullptr) return {};
  const Fields wish(*format, "text.format");
  const std::string* type = wish.string("type", kWordBytes);
  using Kind = grammar::Constraint::Kind;
  if (type != nullptr && *type == "text") return {};
  if (type != nullptr && *type == "json_object") return {.kind = Kind::kJsonObject, .field = "text.format"};
  if (type == nullptr || *type != "json_schema") {
    refuse_unsupported("text.format.type", "only text, json_object and json_schema are supported");
  }
  const Json* schema = wish.object("schema");
  if (schema == nullptr) refuse_field("text.format.schema", "missing", "is required");
  return {.kind = Kind::kJsonSchema, .json = *schema, .field = "text.format.schema"};
}

bool includes(const Fields& fields, std::string_view what) {
  const Json::Array* include = fields.array("include");
  if (include == nullptr) return false;
  for (const Json& item : *include) {
    if (item.is_string() && item.as_string() == what) return true;
  }
  return false;
}

/// Messages of the turns before; null where there are none.
Json earlier_messages(const Fields& fields, const BodyLimits& limits, ResponseStore& store,
                      std::string_view tenant) {
  const std::string* id = fields.string("previous_response_id", limits.label_bytes);
  if (id == nullptr) return {};
  const auto found = store.find(tenant, *id);
  if (!found) {
    refuse_field("previous_response_id", "previous_response_not_found",
                 "there is no response " + in_quotes(*id) + ": it was not stored, or had to give way");
  }
  auto messages = Json::parse(found->messages);
  REPRISE_CHECK(messages.ok() && messages->is_array(), "what was stored is what is read");
  return std::move(*messages);
}

/// What the response says of the request.
Json frame_of(const Fields& fields, bool store) {
  Json frame = Json::object();
  const auto repeat = [&](const char* name, Json otherwise) {
    const Json* value = fields.find(name);
    frame[name] = value == nullptr ? std::move(otherwise) : *value;
  };
  repeat("instructions", nullptr);
  repeat("max_output_tokens", nullptr);
  repeat("max_tool_calls", nullptr);
  repeat("metadata", Json::object());
  repeat("parallel_tool_calls", true);
  repeat("previous_response_id", nullptr);
  repeat("prompt_cache_key", nullptr);
  repeat("reasoning", Json{{"effort", nullptr}, {"summary", nullptr}});
  repeat("safety_identifier", nullptr);
  repeat("temperature", nullptr);
  repeat("text", Json{{"format", Json{{"type", "text"}}}});
  repeat("tool_choice", "auto");
  repeat("tools", Json::array());
  repeat("top_p", nullptr);
  repeat("truncation", "disabled");
  repeat("user", nullptr);
  frame["background"] = false;
  frame["store"] = store;
  return frame;
}

}  // namespace

ResponseRequest read_response_request(const Json& body, const BodyLimits& limits, ResponseStore& store,
                                      std::string_view tenant) {
  const Fields fields(body);
  refuse_foreign_fields(fields);
  ResponseRequest request;
  request.asked = openai::read_common(fields, limits, openai::Manners::kOpenAi).asked;
  ApiRequest& asked = request.asked;
  // Clients that know OpenAI's models alone mean the one that is served.
  asked.any_model = asked.generate.model.starts_with("gpt-") || asked.generate.model.starts_with("codex");
  if (asked.generate.n != 1) refuse_unsupported("n", "is not supported here: there is one answer");
  if (const auto most = fields.integer("max_output_tokens", 1, limits.max_tokens)) {
    asked.generate.max_tokens = static_cast<std::uint32_t>(*most);
  }
  if (auto format = read_format(fields)) asked.generate.constraint = std::move(format);
  request.store = fields.boolean_or("store", true);
  request.seals_reasoning = includes(fields, "reasoning.encrypted_content");

  const Json* input = fields.find("input");
  if (input == nullptr) refuse_field("input", "missing", "is required");
  ChatPrompt chat = read_input(*input, earlier_messages(fields, limits, store, tenant), limits);
  const std::string* instructions = fields.string("instructions", limits.prompt_bytes);
  if (request.store) request.messages = chat.messages;
  chat = with_instructions(instructions == nullptr ? std::string() : *instructions, std::move(chat));
  Json tools = read_tools(fields, limits);
  asked.tool_choice = read_tool_choice(fields, tools);
  // With none the model is not told of the tools, so that it cannot call one.
  if (asked.tool_choice.mode != ToolChoice::Mode::kNone) chat.tools = std::move(tools);
  if (const Json* extra = fields.object("chat_template_kwargs")) chat.template_extra = *extra;
  openai::read_reasoning(fields, asked, chat.template_extra);
  asked.generate.prompt = std::move(chat);
  request.frame = frame_of(fields, request.store);
  note_unknown_fields(body, FieldsOf::kResponses, asked.unknown_fields);
  return request;
}

}  // namespace reprise::protocol::responses
