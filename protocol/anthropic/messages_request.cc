#include "protocol/anthropic/messages_request.h"

#include <chrono>
#include <optional>

#include "protocol/api/api_error.h"
#include "protocol/api/chat_messages.h"
#include "protocol/api/common_fields.h"
#include "protocol/api/field_rules.h"
#include "protocol/sampled_turns.h"

namespace reprise::protocol::anthropic {
namespace {

using std::chrono::seconds;

constexpr std::size_t kWordBytes = 64;
constexpr std::size_t kNameBytes = 256;
constexpr std::size_t kMaxBreakpoints = 4;
constexpr std::string_view kBillingHeader = "x-anthropic-billing-header";

/// Returns the TTL that cache_control requests, or nullopt if it is absent.
std::optional<seconds> read_cache_control(const Fields& fields) {
  const auto control = fields.within("cache_control");
  if (!control) return std::nullopt;
  const Fields& option = *control;
  const std::string* type = option.string("type", kNameBytes);
  if (type == nullptr || *type != "ephemeral") {
    refuse_field(option.path_of("type"), "invalid_value", "must be \"ephemeral\"");
  }
  const std::string* ttl = option.string("ttl", kNameBytes);
  if (ttl == nullptr || *ttl == "5m") return seconds(300);
  if (*ttl != "1h") refuse_field(option.path_of("ttl"), "invalid_value", "must be \"5m\" or \"1h\"");
  return seconds(3600);
}

/// Removes the billing header, if it is the first line.
std::string_view without_billing(std::string_view text) {
  if (!text.starts_with(kBillingHeader)) return text;
  const std::size_t line = text.find('\n');
  return line == std::string_view::npos ? std::string_view() : text.substr(line + 1);
}

/// A text made of blocks, with the offsets after blocks to be cached.
struct BlockText {
  struct Cut {
    std::size_t at;
    seconds ttl;
  };
  std::string text{};
  std::vector<Cut> cuts{};
  std::vector<std::size_t> borders{};  // block boundaries
  bool begun = false;

  void add(std::string_view more, std::string_view between) {
    if (begun) {
      borders.push_back(text.size());
      text += between;
    }
    begun = true;
    text += more;
  }
  void cut(std::optional<seconds> ttl) {
    if (ttl) cuts.push_back({text.size(), *ttl});
  }
};

class ChatReader {
 public:
  explicit ChatReader(const BodyLimits& limits) : limits_(limits), budget_(limits, "messages") {}

  void read_system(const Json& system) {
    BlockText words;
    if (system.is_string()) {
      count(system.as_string());
      words.add(without_billing(system.as_string()), "");
    } else if (system.is_array()) {
      for (std::size_t i = 0; i < system.size(); ++i) {
        const std::string path = item_of("system", i);
        const Fields block = block_of(system.as_array()[i], path);
        if (type_of(block) != "text") refuse_block(block, "text");
        const std::string& text = text_of(block);
        const std::string_view kept = without_billing(text);
        if (!kept.empty() || text.empty()) words.add(kept, "\n");
        words.cut(read_cache_control(block));
      }
    } else {
      refuse_kind("system", "a string or an array of blocks", system);
    }
    if (words.text.empty()) return;
    push(Json{{"role", "system"}, {"content", words.text}}, words);
    chat_.blocks.clear();
  }

  /// `is_new`: the user's last message.
  void read_message(const Json& message, const std::string& path, bool is_new) {
    if (!message.is_object()) refuse_kind(path, "an object", message);
    const Fields fields(message, path);
    const std::string* role = fields.string("role", kNameBytes);
    if (role == nullptr) refuse_field(fields.path_of("role"), "missing", "is required");
    const Json* content = fields.find("content");
    if (content == nullptr) refuse_field(fields.path_of("content"), "missing", "is required");
    if (!content->is_string() && !content->is_array()) {
      refuse_kind(fields.path_of("content"), "a string or an array of blocks", *content);
    }
    if (*role == "assistant") return read_assistant(*content, fields.path_of("content"));
    if (*role != "user" && *role != "system") {
      refuse_field(fields.path_of("role"), "invalid_value",
                   in_quotes(*role) + " is not one of user, assistant");
    }
    read_user(*role, *content, fields.path_of("content"), *role == "user" && !is_new);
  }

  void read_tool(const Json& tool, const std::string& path, const Fields& body) {
    if (!tool.is_object()) refuse_kind(path, "an object", tool);
    const Fields fields(tool, path, body);
    const std::string* type = fields.string("type", kNameBytes);
    if (type != nullptr && *type != "custom") {
      refuse_unsupported(
          fields.path_of("type"),
          in_quotes(*type) +
              " is a tool that Anthropic's servers run; only tools with an input_schema are supported");
    }
    const std::string* name = fields.string("name", kNameBytes);
    if (name == nullptr || name->empty()) refuse_field(fields.path_of("name"), "missing", "is required");
    const Json* schema = fields.object("input_schema");
    if (schema == nullptr) refuse_field(fields.path_of("input_schema"), "missing", "is required");
    Json function{{"name", *name}};
    if (const std::string* words = fields.string("description", limits_.prompt_bytes))
      function["description"] = *words;
    function["parameters"] = *schema;
    if (fields.boolean_or("strict", false)) function["strict"] = true;
    if (const auto ttl = read_cache_control(fields)) {
      add_breakpoint({.in = ChatBreakpoint::In::kTool,
                      .index = static_cast<std::uint32_t>(chat_.tools.size()),
                      .ttl = *ttl});
    }
    chat_.tools.push_back(Json{{"type", "function"}, {"function", std::move(function)}});
  }

  /// Adds the breakpoint of a top-level cache_control, after the last block.
  void keep_all(seconds ttl) {
    const Json& last = chat_.messages.as_array().back();
    const std::string* content = last.find_string("content");
    add_breakpoint({.index = static_cast<std::uint32_t>(chat_.messages.size() - 1),
                    .at = content == nullptr ? 0 : content->size(),
                    .ttl = ttl});
  }

  bool is_empty() const { return chat_.messages.size() == 0; }
  ChatPrompt take() { return std::move(chat_); }

 private:
  void read_user(const std::string& role, const Json& content, const std::string& path, bool may_omit) {
    BlockText words;
    if (content.is_string()) {
      count(content.as_string());
      words.add(content.as_string(), "");
    } else {
      for (std::size_t i = 0; i < content.size(); ++i) {
        const Fields block = block_of(content.as_array()[i], item_of(path, i));
        const std::string type = type_of(block);
        if (type == "tool_result" && role == "user") {
          flush_user(role, words);
          read_result(block);
          continue;
        }
        if (type != "text" && !may_omit) refuse_block(block, "text and tool_result");
        words.add(type == "text" ? text_of(block) : omitted_part(type), "\n");
        words.cut(read_cache_control(block));
      }
    }
    flush_user(role, words);
  }

  void flush_user(const std::string& role, BlockText& words) {
    if (!words.begun) return;
    Json* last = chat_.messages.size() == 0 ? nullptr : &chat_.messages.as_array().back();
    const std::string* last_role = last == nullptr ? nullptr : last->find_string("role");
    if (last_role != nullptr && *last_role == role) {
      std::string& content = last->find("content")->as_string();
      words.borders.insert(words.borders.begin(), 0);
      content += '\n';
      for (BlockText::Cut& cut : words.cuts) cut.at += content.size();
      for (std::size_t& border : words.borders) border += content.size();
      --words.borders.front();
      content += words.text;
      add_breakpoints(words);
    } else {
      push(Json{{"role", role}, {"content", words.text}}, words);
    }
    words = {};
  }

  void read_result(const Fields& block) {
    const std::string* id = block.string("tool_use_id", kNameBytes);
    if (id == nullptr) refuse_field(block.path_of("tool_use_id"), "missing", "is required");
    static_cast<void>(
        block.boolean_or("is_error", false));  // without effect: the result's text has the error
    BlockText words;
    if (const Json* content = block.find("content")) {
      if (content->is_string()) {
        count(content->as_string());
        words.add(content->as_string(), "");
      } else if (content->is_array()) {
        for (std::size_t i = 0; i < content->size(); ++i) {
          const Fields part = block_of(content->as_array()[i], item_of(block.path_of("content"), i));
          const std::string type = type_of(part);
          words.add(type == "text" ? text_of(part) : omitted_part(type), "\n");
          words.cut(read_cache_control(part));
        }
      } else {
        refuse_kind(block.path_of("content"), "a string or an array of blocks", *content);
      }
    }
    words.cut(read_cache_control(block));
    push(Json{{"role", "tool"}, {"tool_call_id", *id}, {"content", words.text}}, words);
  }

  void read_assistant(const Json& content, const std::string& path) {
    BlockText words;
    std::string reasoning;
    std::string turn;
    Json calls = Json::array();
    std::vector<ChatBreakpoint> after_calls;
    const auto index = static_cast<std::uint32_t>(chat_.messages.size());
    if (content.is_string()) {
      count(content.as_string());
      words.add(content.as_string(), "");
    } else {
      for (std::size_t i = 0; i < content.size(); ++i) {
        const Fields block = block_of(content.as_array()[i], item_of(path, i));
        const std::string type = type_of(block);
        if (type == "text") {
          words.add(text_of(block), "");  // blocks of a reply are consecutive pieces of its text
          words.cut(read_cache_control(block));
        } else if (type == "thinking") {
          const std::string* thought = block.string("thinking", limits_.prompt_bytes);
          if (thought == nullptr) refuse_field(block.path_of("thinking"), "missing", "is required");
          count(*thought);
          reasoning += *thought;
          const std::string* signature = block.string("signature", kNameBytes);
          if (signature != nullptr && signature->starts_with(kSignature))
            turn = signature->substr(kSignature.size());
        } else if (type == "tool_use") {
          if (const auto ttl = read_cache_control(block)) {
            after_calls.push_back(
                {.in = ChatBreakpoint::In::kCall, .index = index, .at = calls.size(), .ttl = *ttl});
          }
          calls.push_back(call_of(block));
        } else if (type != "redacted_thinking") {
          words.add(omitted_part(type), "");
        }
      }
    }
    Json message{{"role", "assistant"}};
    message["content"] = words.text.empty() && calls.size() > 0 ? Json() : Json(words.text);
    if (!reasoning.empty()) message["reasoning_content"] = std::move(reasoning);
    if (!turn.empty()) message[kTurnMember] = std::move(turn);
    if (calls.size() > 0) message["tool_calls"] = std::move(calls);
    push(std::move(message), words);
    for (const ChatBreakpoint& one : after_calls) add_breakpoint(one);
    chat_.blocks.clear();
  }

  Json call_of(const Fields& block) {
    const std::string* id = block.string("id", kNameBytes);
    if (id == nullptr) refuse_field(block.path_of("id"), "missing", "is required");
    const std::string* name = block.string("name", kNameBytes);
    if (name == nullptr) refuse_field(block.path_of("name"), "missing", "is required");
    const Json* input = block.object("input");
    Json function{{"name", *name}, {"arguments", input == nullptr ? Json::object() : *input}};
    return Json{{"id", *id}, {"type", "function"}, {"function", std::move(function)}};
  }

  static Fields block_of(const Json& block, const std::string& path) {
    if (!block.is_object()) refuse_kind(path, "an object", block);
    return Fields(block, path);
  }
  static std::string type_of(const Fields& block) {
    const std::string* type = block.string("type", kNameBytes);
    if (type == nullptr) refuse_field(block.path_of("type"), "missing", "is required");
    return *type;
  }
  [[noreturn]] static void refuse_block(const Fields& block, const std::string& known) {
    refuse_unsupported(block.path_of("type"),
                       in_quotes(type_of(block)) + " is not supported here, only " + known);
  }
  const std::string& text_of(const Fields& block) {
    const std::string* text = block.string("text", limits_.prompt_bytes);
    if (text == nullptr) refuse_field(block.path_of("text"), "missing", "is required");
    count(*text);
    return *text;
  }
  void count(std::string_view text) { budget_.count(text); }

  void push(Json message, const BlockText& words) {
    chat_.messages.push_back(std::move(message));
    if (chat_.messages.size() > limits_.messages) {
      refuse_field("messages", "too_many",
                   "more than " + std::to_string(limits_.messages) + " messages and results");
    }
    add_breakpoints(words);
  }
  void add_breakpoints(const BlockText& words) {
    const auto index = static_cast<std::uint32_t>(chat_.messages.size() - 1);
    for (const std::size_t border : words.borders) chat_.blocks.push_back({.index = index, .at = border});
    for (const BlockText::Cut& cut : words.cuts)
      add_breakpoint({.index = index, .at = cut.at, .ttl = cut.ttl});
  }
  void add_breakpoint(ChatBreakpoint breakpoint) {
    if (chat_.breakpoints.size() == kMaxBreakpoints) {
      refuse_field("cache_control", "too_many",
                   "at most " + std::to_string(kMaxBreakpoints) + " blocks can have cache_control");
    }
    chat_.breakpoints.push_back(breakpoint);
  }

  const BodyLimits& limits_;
  TextBudget budget_;
  ChatPrompt chat_{.messages = Json::array()};
};

ChatPrompt read_chat(const Fields& fields, const BodyLimits& limits) {
  const Json::Array* messages = fields.array("messages");
  if (messages == nullptr) refuse_field("messages", "missing", "is required");
  if (messages->empty()) refuse_field("messages", "invalid_value", "must not be empty");
  ChatReader reader(limits);
  if (const Json::Array* tools = fields.array("tools")) {
    if (tools->size() > limits.tools) {
      refuse_field("tools", "too_many",
                   std::to_string(tools->size()) + " tools, more than " + std::to_string(limits.tools));
    }
    for (std::size_t i = 0; i < tools->size(); ++i)
      reader.read_tool((*tools)[i], item_of("tools", i), fields);
  }
  if (const Json* system = fields.find("system")) reader.read_system(*system);
  std::size_t asked = messages->size();  // after the user's last message
  const auto is_users = [](const Json& message) {
    const std::string* role = message.find_string("role");
    return role != nullptr && *role == "user";
  };
  while (asked > 0 && !is_users((*messages)[asked - 1])) --asked;
  for (std::size_t i = 0; i < messages->size(); ++i)
    reader.read_message((*messages)[i], item_of("messages", i), i + 1 == asked);
  if (reader.is_empty()) refuse_field("messages", "invalid_value", "have no content");
  if (const auto ttl = read_cache_control(fields)) reader.keep_all(*ttl);
  return reader.take();
}

ToolChoice read_tool_choice(const Fields& fields, const Json& tools, bool& one_call) {
  const bool have_tools = tools.size() > 0;
  ToolChoice choice{.mode = have_tools ? ToolChoice::Mode::kAuto : ToolChoice::Mode::kNone};
  const auto given = fields.within("tool_choice");
  if (!given) return choice;
  const Fields& option = *given;
  one_call = option.boolean_or("disable_parallel_tool_use", false);
  const std::string* type = option.string("type", kWordBytes);
  if (type == nullptr) refuse_field(option.path_of("type"), "missing", "is required");
  if (*type == "none") return {};
  if (*type == "auto") return choice;
  if (*type == "any") {
    if (!have_tools) refuse_field("tool_choice", "invalid_value", "'any' needs tools");
    return {.mode = ToolChoice::Mode::kRequired};
  }
  if (*type != "tool") {
    refuse_field(option.path_of("type"), "invalid_value",
                 in_quotes(*type) + " is not one of auto, any, tool, none");
  }
  const std::string* name = option.string("name", 256);
  if (name == nullptr) refuse_field(option.path_of("name"), "missing", "is required");
  for (const Json& tool : have_tools ? tools.as_array() : Json::Array()) {
    if (*tool.find_object("function")->find_string("name") == *name) {
      return {.mode = ToolChoice::Mode::kNamed, .name = *name};
    }
  }
  refuse_field(option.path_of("name"), "invalid_value", in_quotes(*name) + " is not among the tools");
}

/// Reads the thinking mode, for the template, and the thinking budget.
void read_thinking(const Fields& fields, ApiRequest& asked, Json& extra) {
  const auto thinking = fields.within("thinking");
  if (!thinking) return;
  const std::string* type = thinking->string("type", kWordBytes);
  if (type == nullptr || (*type != "enabled" && *type != "disabled" && *type != "adaptive")) {
    refuse_field("thinking.type", "invalid_value", "must be \"enabled\", \"adaptive\" or \"disabled\"");
  }
  extra["enable_thinking"] = *type != "disabled";
  read_reasoning_budget(*thinking, "budget_tokens", asked);
}

/// Reads output_config: the effort for the template, the format as a constraint. output_format is its older
/// name.
grammar::Constraint read_output(const Fields& fields, Json& extra) {
  const auto config = fields.within("output_config");
  if (config) {
    if (const std::string* effort = config->string("effort", kWordBytes)) extra["reasoning_effort"] = *effort;
  }
  const auto newer = config ? config->within("format") : std::nullopt;
  const auto older = newer ? std::nullopt : fields.within("output_format");
  if (!newer && !older) return {};
  const Fields& option = newer ? *newer : *older;
  const std::string* type = option.string("type", kWordBytes);
  if (type == nullptr || *type != "json_schema")
    refuse_unsupported(option.path_of("type"), "only 'json_schema' is supported");
  const Json* schema = option.object("schema");
  if (schema == nullptr) refuse_field(option.path_of("schema"), "missing", "is required");
  return {.kind = grammar::Constraint::Kind::kJsonSchema, .json = *schema, .field = option.path_of("schema")};
}

ChatPrompt read_prompt(const Fields& fields, const BodyLimits& limits, ApiRequest& asked) {
  ChatPrompt chat = read_chat(fields, limits);
  asked.tool_choice = read_tool_choice(fields, chat.tools, asked.one_call);
  // With none the template gets no tools, so that the model cannot call one.
  if (asked.tool_choice.mode == ToolChoice::Mode::kNone) {
    chat.tools = {};
    std::erase_if(chat.breakpoints, [](const auto& one) { return one.in == ChatBreakpoint::In::kTool; });
  }
  if (const Json* extra = fields.object("chat_template_kwargs")) chat.template_extra = *extra;
  read_thinking(fields, asked, chat.template_extra);
  // A final assistant message is the beginning of the reply, as in llama-server.
  read_continuation(fields, ApiFlavor::kLlamaServer, chat);
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
  ApiRequest asked = read_common(fields, limits, ApiFlavor::kAnthropic);
  GenerateRequest& generate = asked.generate;
  if (!generate.max_tokens) refuse_field("max_tokens", "missing", "is required");
  if (generate.n != 1) refuse_unsupported("n", "is not supported here: there is always one answer");
  generate.rules.stop = read_stop(fields, "stop_sequences", limits);
  ChatPrompt chat = read_prompt(fields, limits, asked);
  if (auto wanted = read_output(fields, chat.template_extra)) generate.rules.constraint = std::move(wanted);
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
