#include "protocol/responses/input_items.h"

#include <algorithm>

#include "base/base64.h"
#include "base/utf8.h"
#include "protocol/api/api_error.h"
#include "protocol/api/fields.h"
#include "protocol/api/omitted_part.h"
#include "protocol/api/text_budget.h"
#include "protocol/responses/response_tools.h"
#include "protocol/sampled_turns.h"

namespace reprise::protocol::responses {
namespace {

constexpr std::size_t kNameBytes = 256;
constexpr std::string_view kSeal = "reprise-2:";  // then the turn's id, a colon and the text in base64
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
  /// The index of the user's last message, unless results of calls follow it; the number of items where there is none.
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
    // Text behind a call is of the same turn; behind another text it is another message.
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
    if (text.empty() && !is_ours) return;  // another server's, or none
    if (text.empty()) text = open_sealed(fields, *sealed);
    const std::string turn_name =
        is_ours ? sealed->substr(kSeal.size(), sealed->find(':', kSeal.size()) - kSeal.size()) : "";
    Json* turn = open_turn();
    if (turn == nullptr || turn->find("content")->is_string()) turn = &begin_turn();
    append((*turn)["reasoning_content"], text);
    if (!turn_name.empty() && turn_name.size() <= kNameBytes) (*turn)[kTurnMember] = turn_name;
    blocks_.clear();
  }

  // A summary of another server cannot be read, and without it the conversation is not whole.
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

  /// A text, or parts that hold text, with a line break between two. `may_omit`: other parts are named in their place.
  std::string text_of(const Json& content, const std::string& path, bool may_omit) {
    if (content.is_string()) {
      budget_.count(content.as_string());
      return content.as_string();
    }
    if (!content.is_array()) refuse_kind(path, "a string or an array of parts", content);
    std::string text;
    for (std::size_t i = 0; i < content.size(); ++i) {
      // The message that this is for comes last.
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
  /// The assistant's message that the last items were of; null where something else came last.
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
  bool said_ = false;  // the last message is the assistant's, and of these items
  bool last_ = false;  // the item is the last one
};

bool is_system(const std::string& role) {
  return role == "system" || role == "developer";
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

}  // namespace reprise::protocol::responses
