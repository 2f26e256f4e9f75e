#include "protocol/responses/responses_request.h"

#include <algorithm>

#include "base/base64.h"
#include "base/utf8.h"
#include "protocol/api/api_error.h"
#include "protocol/api/chat_messages.h"
#include "protocol/api/common_fields.h"
#include "protocol/api/field_rules.h"
#include "protocol/api/fields.h"
#include "protocol/sampled_turns.h"

namespace reprise::protocol::responses {
namespace {

using grammar::TextRule;

constexpr std::size_t kWordBytes = 64;
constexpr std::size_t kNameBytes = 256;

// -- tools

/// Returns the name under which the model sees a namespace's tool.
std::string shown_name(std::string_view name_space, std::string_view name) {
  std::string shown(name_space);
  if (!shown.empty() && !shown.ends_with("__")) shown += "__";
  return shown.append(name);
}

std::string arguments_of(const std::string& input) {
  Json arguments = Json::object();
  arguments[grammar::kInputName] = input;
  return arguments.dump();
}

struct ResponseTools {
  Json functions{};  // in the form of chats; null: none
  std::vector<TextTool> texts{};
  std::vector<ResponseTool> all{};
};

class ToolReader {
 public:
  ToolReader(const Fields& body, const BodyLimits& limits) : body_(body), limits_(limits) {}

  void read(const Json::Array& tools, const std::string& path, const std::string& name_space) {
    for (std::size_t i = 0; i < tools.size(); ++i) {
      const std::string item = item_of(path, i);
      if (!tools[i].is_object()) refuse_kind(item, "an object", tools[i]);
      if (++count_ > limits_.tools) {
        refuse_field("tools", "too_many", "more than " + std::to_string(limits_.tools) + " tools");
      }
      read_tool(tools[i], item, name_space);
    }
  }
  ResponseTools take() { return std::move(tools_); }

 private:
  void read_tool(const Json& given, const std::string& path, const std::string& name_space) {
    const std::string* type = Fields(given, path).string("type", kNameBytes);
    if (type == nullptr) refuse_field(path + ".type", "missing", "is required");
    const bool takes_text = *type == "custom";
    const bool has_tools = *type == "namespace" && name_space.empty();
    if (*type != "function" && !takes_text && !has_tools) {
      return body_.mark_unread(path + ": " + *type, given);  // a tool that OpenAI's server would run
    }
    const Fields tool(given, path, body_);
    static_cast<void>(tool.find("type"));
    const std::string* name = tool.string("name", kNameBytes);
    if (name == nullptr || name->empty()) refuse_field(tool.path_of("name"), "missing", "is required");
    if (has_tools) {
      if (const Json::Array* inner = tool.array("tools")) read(*inner, tool.path_of("tools"), *name);
      return;
    }
    const std::string shown = shown_name(name_space, *name);
    Json function{{"name", shown}};
    if (const std::string* words = tool.string("description", limits_.prompt_bytes)) {
      function["description"] = *words;
    }
    if (takes_text) {
      const TextRule rule = read_format(tool);
      function["parameters"] = parameters_of(rule);
      tools_.texts.push_back({.name = shown, .input = rule});
    } else {
      if (const Json* parameters = tool.object("parameters")) function["parameters"] = *parameters;
      if (tool.boolean_or("strict", false)) function["strict"] = true;
    }
    tools_.functions.push_back(Json{{"type", "function"}, {"function", std::move(function)}});
    tools_.all.push_back({.shown = shown, .name = *name, .name_space = name_space, .takes_text = takes_text});
  }

  TextRule read_format(const Fields& tool) const {
    const auto format = tool.within("format");
    if (!format) return {};
    const Fields& option = *format;
    const std::string* type = option.string("type", kWordBytes);
    if (type != nullptr && *type == "text") return {};
    if (type == nullptr || *type != "grammar") {
      refuse_unsupported(option.path_of("type"), "only 'text' and 'grammar' are supported");
    }
    const std::string* syntax = option.string("syntax", kWordBytes);
    const std::string* definition = option.string("definition", limits_.prompt_bytes);
    if (definition == nullptr || definition->empty()) {
      refuse_field(option.path_of("definition"), "missing", "is required");
    }
    if (syntax != nullptr && *syntax == "lark") return {.kind = TextRule::Kind::kLark, .text = *definition};
    if (syntax != nullptr && *syntax == "regex") return {.kind = TextRule::Kind::kRegex, .text = *definition};
    refuse_unsupported(option.path_of("syntax"), "only 'lark' and 'regex' are supported");
  }

  static Json parameters_of(const TextRule& rule) {
    std::string words = "The whole input, as plain text";
    if (rule.kind == TextRule::Kind::kLark) words += " that fits this Lark grammar:\n" + rule.text;
    if (rule.kind == TextRule::Kind::kRegex) words += " that matches this regular expression: " + rule.text;
    Json input{{"type", "string"}, {"description", std::move(words)}};
    Json properties = Json::object();
    properties[grammar::kInputName] = std::move(input);
    Json required = Json::array();
    required.push_back(grammar::kInputName);
    return Json{{"type", "object"},
                {"properties", std::move(properties)},
                {"required", std::move(required)},
                {"additionalProperties", false}};
  }

  const Fields& body_;
  const BodyLimits& limits_;
  ResponseTools tools_;
  std::size_t count_ = 0;
};

ResponseTools read_tools(const Fields& fields, const BodyLimits& limits) {
  ToolReader reader(fields, limits);
  if (const Json::Array* tools = fields.array("tools")) reader.read(*tools, "tools", {});
  return reader.take();
}

ToolChoice read_tool_choice(const Fields& fields, const ResponseTools& tools) {
  const bool have_tools = !tools.all.empty();
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
    if (!have_tools) {
      refuse_field("tool_choice", "invalid_value", "'required' needs functions or custom tools");
    }
    return {.mode = ToolChoice::Mode::kRequired};
  }
  if (!given->is_object()) refuse_kind("tool_choice", "a string or an object", *given);
  const Fields option(*given, "tool_choice", fields);
  const std::string* type = option.string("type", kWordBytes);
  if (type == nullptr || (*type != "function" && *type != "custom")) {
    refuse_unsupported("tool_choice.type", "only 'function' and 'custom' are supported");
  }
  const std::string* name = option.string("name", kNameBytes);
  if (name == nullptr) refuse_field("tool_choice.name", "missing", "is required");
  const std::string* name_space = option.string("namespace", kNameBytes);
  const std::string shown = shown_name(name_space == nullptr ? std::string() : *name_space, *name);
  const bool takes_text = *type == "custom";
  const bool known = std::any_of(tools.all.begin(), tools.all.end(), [&](const ResponseTool& tool) {
    return tool.shown == shown && tool.takes_text == takes_text;
  });
  if (known) return {.mode = ToolChoice::Mode::kNamed, .name = shown};
  refuse_field("tool_choice.name", "invalid_value",
               in_quotes(*name) + " is not among the " + (takes_text ? "custom tools" : "functions"));
}

// -- the input

constexpr std::string_view kSeal = "reprise-2:";  // followed by the turn's ID, ':' and the text in base64
constexpr const char* kTrigger = "compaction_trigger";

constexpr const char* kAskForSummary =
    "The conversation so far is about to be replaced by a summary, which is all that you will know of it. "
    "Write that "
    "summary now, as plain text, and call no tool. Say what the user wants, with all conditions and "
    "preferences; what "
    "was done and found out, with the names of files, functions and commands, and exact values where they "
    "matter; what "
    "was decided and why; what failed; and what is left to do, beginning with the next step.";
constexpr const char* kSummaryFollows =
    "The earlier part of this conversation was replaced by this summary of it:\n\n";

Json summary_request() {
  return Json{{"role", "user"}, {"content", kAskForSummary}};
}

class InputReader {
 public:
  InputReader(Json before, const BodyLimits& limits)
      : limits_(limits), budget_(limits, "input"), messages_(std::move(before)) {}

  void read(const Json& input) {
    if (input.is_string()) {
      budget_.count(input.as_string());
      push(Json{{"role", "user"}, {"content", input.as_string()}});
    } else if (input.is_array()) {
      const Json::Array& items = input.as_array();
      const std::size_t asked = new_item(items);
      for (std::size_t i = 0; i < items.size(); ++i) {
        last_ = i + 1 == items.size();
        read_item(items[i], item_of("input", i), i == asked);
      }
    } else {
      refuse_kind("input", "a string or an array of items", input);
    }
  }
  ChatPrompt take() { return {.messages = std::move(messages_), .blocks = std::move(blocks_)}; }

 private:
  /// Returns the index of the user's last message, or the number of items if there is none or call results
  /// follow it.
  static std::size_t new_item(const Json::Array& items) {
    for (std::size_t i = items.size(); i > 0; --i) {
      const std::string* role = items[i - 1].find_string("role");
      const std::string* type = items[i - 1].find_string("type");
      if (role != nullptr && *role == "user") return i - 1;
      if (type != nullptr && type->ends_with("_call_output")) break;
    }
    return items.size();
  }

  void read_item(const Json& item, const std::string& path, bool is_new) {
    if (!item.is_object()) refuse_kind(path, "an object", item);
    const Fields fields(item, path);
    const std::string* type = fields.string("type", kNameBytes);
    if (type == nullptr || *type == "message") {
      read_message(fields, is_new);
    } else if (*type == "function_call" || *type == "custom_tool_call") {
      read_call(fields, *type == "custom_tool_call");
    } else if (*type == "function_call_output" || *type == "custom_tool_call_output") {
      read_output(fields);
    } else if (*type == "reasoning") {
      read_reasoning(fields);
    } else if (*type == "compaction" || *type == "compaction_summary") {
      read_compaction(fields);
    } else if (*type == kTrigger && last_) {
      said_ = false;
      push(summary_request());
    } else if (*type == kTrigger) {
      refuse_field(fields.path_of("type"), "invalid_value", "is allowed only for the last item");
    } else {
      refuse_unsupported(
          fields.path_of("type"),
          in_quotes(*type) +
              " is not supported, only message, reasoning, function_call, function_call_output, "
              "custom_tool_call, custom_tool_call_output, compaction and compaction_trigger are");
    }
  }

  void read_message(const Fields& fields, bool is_new) {
    const std::string* role = fields.string("role", kNameBytes);
    if (role == nullptr) refuse_field(fields.path_of("role"), "missing", "is required");
    if (*role != "user" && *role != "assistant" && *role != "system" && *role != "developer") {
      refuse_field(fields.path_of("role"), "invalid_value",
                   in_quotes(*role) + " is not one of user, assistant, system, developer");
    }
    const Json* content = fields.find("content");
    if (content == nullptr) refuse_field(fields.path_of("content"), "missing", "is required");
    const bool may_omit = *role == "assistant" || (*role == "user" && !is_new);
    std::string text = text_of(*content, fields.path_of("content"), may_omit);
    if (*role != "assistant") {
      said_ = false;
      push(Json{{"role", *role}, {"content", std::move(text)}});
      return;
    }
    // Text after a call belongs to the same turn; text after text is another message.
    Json* turn = open_turn();
    const Json* before = turn == nullptr ? nullptr : turn->find("content");
    const bool has_text = before != nullptr && before->is_string() && !before->as_string().empty();
    if (turn == nullptr || (has_text && turn->find("tool_calls") == nullptr)) turn = &begin_turn();
    append((*turn)["content"], text);
    blocks_.clear();
  }

  void read_reasoning(const Fields& fields) {
    std::string text;
    if (const Json* content = fields.find("content")) {
      text = text_of(*content, fields.path_of("content"), false);
    }
    const std::string* sealed = fields.string("encrypted_content", limits_.prompt_bytes);
    const bool is_ours = sealed != nullptr && sealed->starts_with(kSeal);
    if (text.empty() && !is_ours) return;  // sealed by another server, or none
    if (text.empty()) text = open_sealed(fields, *sealed);
    const std::string turn_name =
        is_ours ? sealed->substr(kSeal.size(), sealed->find(':', kSeal.size()) - kSeal.size()) : "";
    Json* turn = open_turn();
    if (turn == nullptr || turn->find("content")->is_string()) turn = &begin_turn();
    append((*turn)["reasoning_content"], text);
    if (!turn_name.empty() && turn_name.size() <= kNameBytes) (*turn)[kTurnMember] = turn_name;
    blocks_.clear();
  }

  // Another server's summary cannot be read, and the conversation is incomplete without it.
  void read_compaction(const Fields& fields) {
    const std::string* sealed = fields.string("encrypted_content", limits_.prompt_bytes);
    if (sealed == nullptr) refuse_field(fields.path_of("encrypted_content"), "missing", "is required");
    said_ = false;
    push(Json{{"role", "user"}, {"content", kSummaryFollows + open_sealed(fields, *sealed)}});
  }

  std::string open_sealed(const Fields& fields, const std::string& sealed) {
    const std::size_t colon = sealed.starts_with(kSeal) ? sealed.find(':', kSeal.size()) : std::string::npos;
    auto opened =
        colon == std::string::npos ? std::nullopt : from_base64(std::string_view(sealed).substr(colon + 1));
    if (!opened || !is_utf8(*opened)) {
      refuse_field(fields.path_of("encrypted_content"), "invalid_value", "was not issued by this server");
    }
    budget_.count(*opened);
    return std::move(*opened);
  }

  void read_call(const Fields& fields, bool takes_text) {
    const std::string& id = required(fields, "call_id");
    const std::string& name = required(fields, "name");
    const std::string* name_space = fields.string("namespace", kNameBytes);
    const char* member = takes_text ? "input" : "arguments";
    const std::string* given = fields.string(member, limits_.prompt_bytes);
    if (given == nullptr) refuse_field(fields.path_of(member), "missing", "is required");
    budget_.count(*given);
    Json* turn = open_turn();
    if (turn == nullptr) turn = &begin_turn();
    Json function{{"name", shown_name(name_space == nullptr ? std::string() : *name_space, name)},
                  {"arguments", takes_text ? arguments_of(*given) : *given}};
    (*turn)["tool_calls"].push_back(
        Json{{"id", id}, {"type", "function"}, {"function", std::move(function)}});
    blocks_.clear();
  }

  void read_output(const Fields& fields) {
    const std::string& id = required(fields, "call_id");
    const Json* output = fields.find("output");
    if (output == nullptr) refuse_field(fields.path_of("output"), "missing", "is required");
    said_ = false;
    push(Json{{"role", "tool"},
              {"tool_call_id", id},
              {"content", text_of(*output, fields.path_of("output"), true)}});
  }

  static const std::string& required(const Fields& fields, const char* name) {
    const std::string* value = fields.string(name, kNameBytes);
    if (value == nullptr) refuse_field(fields.path_of(name), "missing", "is required");
    return *value;
  }

  /// Returns a text, or the parts that hold text, joined by line breaks. `may_omit`: other parts are replaced
  /// by omitted_part().
  std::string text_of(const Json& content, const std::string& path, bool may_omit) {
    if (content.is_string()) {
      budget_.count(content.as_string());
      return content.as_string();
    }
    if (!content.is_array()) refuse_kind(path, "a string or an array of parts", content);
    std::string text;
    for (std::size_t i = 0; i < content.size(); ++i) {
      // The caller appends the message afterwards.
      if (i > 0)
        blocks_.push_back({.index = static_cast<std::uint32_t>(messages_.size()), .at = text.size()});
      const Json& part = content.as_array()[i];
      if (!part.is_object()) refuse_kind(item_of(path, i), "an object", part);
      const Fields fields(part, item_of(path, i));
      const std::string* type = fields.string("type", kNameBytes);
      if (type == nullptr) refuse_field(fields.path_of("type"), "missing", "is required");
      if (i > 0) text += '\n';
      const bool is_text =
          *type == "input_text" || *type == "output_text" || *type == "text" || *type == "reasoning_text";
      if (!is_text && *type != "refusal") {
        if (may_omit) {
          text += omitted_part(*type);
          continue;
        }
        refuse_unsupported(fields.path_of("type"), in_quotes(*type) + " is not supported, only text is");
      }
      const std::string* words = fields.string(is_text ? "text" : "refusal", limits_.prompt_bytes);
      if (words == nullptr)
        refuse_field(fields.path_of(is_text ? "text" : "refusal"), "missing", "is required");
      budget_.count(*words);
      text += *words;
    }
    return text;
  }

  static void append(Json& into, const std::string& text) {
    if (into.is_null()) into = std::string();
    into.as_string() += text;
  }
  /// Returns the assistant message that the last items belong to, or null if the last item was another.
  Json* open_turn() { return said_ ? &messages_.as_array().back() : nullptr; }
  Json& begin_turn() {
    push(Json{{"role", "assistant"}, {"content", nullptr}});
    said_ = true;
    return messages_.as_array().back();
  }
  void push(Json message) {
    messages_.push_back(std::move(message));
    if (messages_.size() > limits_.messages) {
      refuse_field("input", "too_many",
                   "more than " + std::to_string(limits_.messages) + " messages and results");
    }
  }

  const BodyLimits& limits_;
  TextBudget budget_;
  Json messages_;
  std::vector<ChatBreakpoint> blocks_;
  bool said_ = false;  // the last message is the assistant's and came from these items
  bool last_ = false;
};

bool is_system(const std::string& role) {
  return role == "system" || role == "developer";
}

// -- the request

constexpr std::uint32_t kSummaryTokens = 4096;  // default for a compaction

grammar::Constraint read_format(const Fields& fields) {
  const auto text = fields.within("text");
  const auto format = text ? text->within("format") : std::nullopt;
  if (!format) return {};
  const Fields& option = *format;
  const std::string* type = option.string("type", kWordBytes);
  using Kind = grammar::Constraint::Kind;
  if (type != nullptr && *type == "text") return {};
  if (type != nullptr && *type == "json_object") return {.kind = Kind::kJsonObject, .field = "text.format"};
  if (type == nullptr || *type != "json_schema") {
    refuse_unsupported("text.format.type", "only text, json_object and json_schema are supported");
  }
  const Json* schema = option.object("schema");
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

/// Returns the user's messages of a conversation as items; those of the input unchanged.
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

/// Returns the fields of the request that the response repeats.
Json frame_of(const Fields& fields, bool store) {
  Json frame = Json::object();
  const auto repeat = [&](const char* name, Json otherwise) {
    const Json* value = fields.whole().find(name);  // bypasses Fields: repeating a value is not reading it
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

ChatPrompt read_input(const Json& input, Json before, const BodyLimits& limits) {
  const std::size_t known = before.size();
  InputReader reader(before.is_array() ? std::move(before) : Json::array(), limits);
  reader.read(input);
  ChatPrompt chat = reader.take();
  if (chat.messages.size() == known) refuse_field("input", "invalid_value", "has no content");
  return chat;
}

ChatPrompt with_instructions(const std::string& instructions, ChatPrompt chat) {
  Json out = Json::array();
  std::string system = instructions;
  Json::Array& given = chat.messages.as_array();
  std::size_t first = 0;
  for (; first < given.size() && is_system(*given[first].find_string("role")); ++first) {
    if (!system.empty()) system += "\n\n";
    system += given[first].find("content")->as_string();
  }
  if (!system.empty()) out.push_back(Json{{"role", "system"}, {"content", std::move(system)}});
  const std::size_t merged = out.size();
  for (std::size_t i = first; i < given.size(); ++i) out.push_back(std::move(given[i]));
  chat.messages = std::move(out);
  std::erase_if(chat.blocks, [&](const ChatBreakpoint& block) { return block.index < first; });
  for (ChatBreakpoint& block : chat.blocks)
    block.index = static_cast<std::uint32_t>(block.index - first + merged);
  return chat;
}

bool asks_for_compaction(const Json& input) {
  if (!input.is_array() || input.size() == 0) return false;
  const Json& last = input.as_array().back();
  const std::string* type = last.is_object() ? last.find_string("type") : nullptr;
  return type != nullptr && *type == kTrigger;
}

void ask_for_summary(Json& messages) {
  messages.push_back(summary_request());
}

std::string sealed_text(const std::string& text, const std::string& turn) {
  return std::string(kSeal) + turn + ':' + to_base64(text);
}

ResponseRequest read_response_request(const Json& body, const BodyLimits& limits, ResponseStore& store,
                                      const std::string& tenant, ResponseKind kind) {
  const Fields fields(body);
  ResponseRequest request;
  request.asked = read_common(fields, limits, ApiFlavor::kOpenAi);
  ApiRequest& asked = request.asked;
  asked.one_call = !fields.boolean_or("parallel_tool_calls", true);
  if (asked.generate.n != 1) refuse_unsupported("n", "is not supported here: there is always one answer");
  if (const auto max = fields.integer("max_output_tokens", 1, limits.max_tokens)) {
    asked.generate.max_tokens = static_cast<std::uint32_t>(*max);
  }
  if (auto format = read_format(fields)) asked.generate.rules.constraint = std::move(format);
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
  // With none the template gets no tools, so that the model cannot call one.
  if (asked.tool_choice.mode != ToolChoice::Mode::kNone) {
    chat.tools = std::move(tools.functions);
    chat.text_tools = std::move(tools.texts);
    request.tools = std::move(tools.all);
  }
  static_cast<void>(fields.within("stream_options"));
  if (request.kind != ResponseKind::kResponse) {
    if (const Json* choice = fields.find("tool_choice")) fields.mark_unread("tool_choice", *choice);
    if (asked.generate.rules.constraint) fields.mark_unread(asked.generate.rules.constraint.field, body);
    // The prompt stays equal to the conversation's, so that its states are reused; calls in the summary are
    // plain text.
    asked.tool_choice = {};
    asked.generate.rules.constraint = {};
    if (!asked.generate.max_tokens) asked.generate.max_tokens = kSummaryTokens;
  }
  if (const Json* extra = fields.object("chat_template_kwargs")) chat.template_extra = *extra;
  read_reasoning(fields, asked, chat.template_extra);
  asked.generate.prompt = std::move(chat);
  request.frame = frame_of(fields, request.store);
  asked.unknown_fields = unknown_fields_of(fields);
  return request;
}

}  // namespace reprise::protocol::responses
