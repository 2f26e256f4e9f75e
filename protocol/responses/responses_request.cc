#include "protocol/responses/responses_request.h"

#include "protocol/api/field_rules.h"
#include "protocol/openai/everyday_fields.h"
#include "protocol/openai/request.h"
#include "protocol/responses/input_items.h"

namespace reprise::protocol::responses {
namespace {

constexpr std::size_t kWordBytes = 64;
constexpr std::uint32_t kSummaryTokens = 4096;  // of a compaction that says nothing else

grammar::Constraint read_format(const Fields& fields) {
  const auto text = fields.within("text");
  const auto format = text ? text->within("format") : std::nullopt;
  if (!format) return {};
  const Fields& wish = *format;
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
  bool found = false;
  for (const Json& item : *include) {
    if (item.is_string() && item.as_string() == what) {
      found = true;
    } else {
      fields.mark_unread("include: " + (item.is_string() ? item.as_string() : item.kind_name()), item);
    }
  }
  return found;
}

/// Messages of the turns before; null where there are none.
Json earlier_messages(const Fields& fields, const BodyLimits& limits, ResponseStore& store,
                      const ResponseOwner& owner) {
  const std::string* id = fields.string("previous_response_id", limits.label_bytes);
  if (id == nullptr) return {};
  const auto found = store.find(owner, *id);
  if (!found) {
    refuse_field(
        "previous_response_id", "previous_response_not_found",
        "there is no response " + in_quotes(*id) + ": it was not stored, or was removed to make space");
  }
  auto messages = Json::parse(found->messages);
  REPRISE_CHECK(messages.ok() && messages->is_array(), "the stored messages are no JSON array");
  return std::move(*messages);
}

/// The user's messages of a conversation, as items: those of the input as they came.
Json users_messages(const Json& earlier, const Json& input) {
  Json items = Json::array();
  const auto add_text = [&](const Json& text) {
    Json parts = Json::array();
    parts.push_back(Json{{"type", "input_text"}, {"text", text}});
    items.push_back(Json{{"type", "message"}, {"role", "user"}, {"content", std::move(parts)}});
  };
  const auto is_users = [](const Json& item) {
    const std::string* role = item.is_object() ? item.find_string("role") : nullptr;
    return role != nullptr && *role == "user";
  };
  for (const Json& message : earlier.is_array() ? earlier.as_array() : Json::Array()) {
    if (is_users(message)) add_text(*message.find("content"));
  }
  if (input.is_string()) add_text(input);
  for (const Json& item : input.is_array() ? input.as_array() : Json::Array()) {
    if (is_users(item)) items.push_back(item);
  }
  return items;
}

/// What the response says of the request.
Json frame_of(const Fields& fields, bool store) {
  Json frame = Json::object();
  const auto repeat = [&](const char* name, Json otherwise) {
    const Json* value = fields.whole().find(name);  // telling it again is not reading it
    frame[name] = value == nullptr || value->is_null() ? std::move(otherwise) : *value;
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
                                      const std::string& tenant, ResponseKind kind) {
  const Fields fields(body);
  ResponseRequest request;
  request.asked = openai::read_common(fields, limits, openai::Manners::kOpenAi).asked;
  ApiRequest& asked = request.asked;
  asked.one_call = !fields.boolean_or("parallel_tool_calls", true);
  if (asked.generate.n != 1) refuse_unsupported("n", "is not supported here: there is always one answer");
  if (const auto most = fields.integer("max_output_tokens", 1, limits.max_tokens)) {
    asked.generate.max_tokens = static_cast<std::uint32_t>(*most);
  }
  if (auto format = read_format(fields)) asked.generate.constraint = std::move(format);
  if (kind == ResponseKind::kCompaction && asked.stream)
    refuse_unsupported("stream", "is not supported here");
  request.kind = kind;
  request.store = kind == ResponseKind::kResponse && fields.boolean_or("store", true);
  request.seals_reasoning = includes(fields, "reasoning.encrypted_content");

  const Json* input = fields.find("input");
  if (input == nullptr) refuse_field("input", "missing", "is required");
  Json earlier = earlier_messages(fields, limits, store, {.tenant = tenant, .salt = asked.cache_salt});
  if (kind == ResponseKind::kCompaction) request.kept = users_messages(earlier, *input);
  ChatPrompt chat = read_input(*input, std::move(earlier), limits);
  if (kind == ResponseKind::kCompaction && !asks_for_compaction(*input)) ask_for_summary(chat.messages);
  if (kind == ResponseKind::kResponse && asks_for_compaction(*input)) {
    request.kind = ResponseKind::kCompactionItem;
    request.store = false;
  }
  const std::string* instructions = fields.string("instructions", limits.prompt_bytes);
  if (request.store) request.messages = chat.messages;
  chat = with_instructions(instructions == nullptr ? std::string() : *instructions, std::move(chat));
  ResponseTools tools = read_tools(fields, limits);
  asked.tool_choice = read_tool_choice(fields, tools);
  // With none the model is not told of the tools, so that it cannot call one.
  if (asked.tool_choice.mode != ToolChoice::Mode::kNone) {
    chat.tools = std::move(tools.functions);
    chat.text_tools = std::move(tools.texts);
    request.tools = std::move(tools.all);
  }
  static_cast<void>(fields.within("stream_options"));
  if (request.kind != ResponseKind::kResponse) {
    if (const Json* choice = fields.find("tool_choice")) fields.mark_unread("tool_choice", *choice);
    if (asked.generate.constraint) fields.mark_unread(asked.generate.constraint.field, body);
    // The prompt stays what the conversation's others are; calls in the summary are a part of its text.
    asked.tool_choice = {};
    asked.generate.constraint = {};
    if (!asked.generate.max_tokens) asked.generate.max_tokens = kSummaryTokens;
  }
  if (const Json* extra = fields.object("chat_template_kwargs")) chat.template_extra = *extra;
  openai::read_reasoning(fields, asked, chat.template_extra);
  asked.generate.prompt = std::move(chat);
  request.frame = frame_of(fields, request.store);
  asked.unknown_fields = unknown_fields_of(fields);
  return request;
}

}  // namespace reprise::protocol::responses
