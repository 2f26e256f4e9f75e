#include "protocol/ollama/request.h"

#include "protocol/api/api_error.h"
#include "protocol/api/field_rules.h"
#include "protocol/api/fields.h"
#include "protocol/ollama/facts.h"
#include "protocol/openai/chat_messages.h"
#include "protocol/openai/request.h"

namespace reprise::protocol::ollama {
namespace {

void read_limit(const Fields& options, const BodyLimits& limits, GenerateRequest& generate) {
  const auto most = options.integer("num_predict", -2, limits.max_tokens);
  if (!most) return;
  if (*most == 0) refuse_field(options.path_of("num_predict"), "out_of_range", "must be -1 or at least 1");
  if (*most < 0) {
    generate.unlimited = true;
  } else {
    generate.max_tokens = static_cast<std::uint32_t>(*most);
  }
}

grammar::Constraint read_format(const Fields& fields) {
  const Json* format = fields.find("format");
  if (format == nullptr || (format->is_string() && format->as_string().empty())) return {};
  if (format->is_string() && format->as_string() == "json") {
    return {.kind = grammar::Constraint::Kind::kJsonObject, .field = "format"};
  }
  if (!format->is_object()) refuse_kind("format", "\"json\" or a JSON schema", *format);
  return {.kind = grammar::Constraint::Kind::kJsonSchema, .json = *format, .field = "format"};
}

OllamaRequest read_shared(const Fields& fields, const BodyLimits& limits, OllamaKind kind) {
  static const Json kNoOptions = Json::object();
  const Json* given = fields.object("options");
  const Fields options(given == nullptr ? kNoOptions : *given, "options", fields);
  OllamaRequest request{.asked = openai::read_common(options, limits, openai::Manners::kLlamaServer).asked,
                        .kind = kind};
  ApiRequest& asked = request.asked;
  asked.any_model = false;
  for (const char* name : {"model", "stream", "reprise"}) {  // not among the options, or without effect
    if (const Json* value = options.find(name)) options.mark_unread(options.path_of(name), *value);
  }
  const std::string* model = fields.string("model", limits.label_bytes);
  if (model == nullptr) refuse_field("model", "missing", "is required");
  asked.generate.model = without_tag(*model);
  asked.stream = fields.boolean_or("stream", true);
  read_limit(options, limits, asked.generate);
  if (asked.generate.n != 1) refuse_unsupported("options.n", "is not supported: there is always one reply");
  if (grammar::Constraint format = read_format(fields)) {
    if (asked.generate.constraint) {
      refuse_field("format", "invalid_value", "does not go together with " + asked.generate.constraint.field);
    }
    asked.generate.constraint = std::move(format);
  }
  return request;
}

/// "think": true, false, or how much.
void read_thinking(const Fields& fields, ChatPrompt& chat) {
  const Json* think = fields.find("think");
  if (think == nullptr) return;
  if (think->is_bool()) {
    chat.template_extra["enable_thinking"] = think->as_bool();
  } else if (think->is_string()) {
    chat.template_extra["enable_thinking"] = true;
    chat.template_extra["reasoning_effort"] = think->as_string();
  } else {
    refuse_kind("think", "a boolean or a string", *think);
  }
}

/// A message as OpenAI has it: names of fields differ, and arguments are text there.
Json translated(const Json& given, const std::string& path) {
  if (!given.is_object()) refuse_kind(path, "an object", given);
  const Fields fields(given, path);
  const Json::Array* images = fields.array("images");
  if (images != nullptr && !images->empty()) {
    refuse_unsupported(fields.path_of("images"), "is not supported: models here take text");
  }
  Json message = Json::object();
  for (const Json::Member& member : given.as_object()) {
    if (member.key == "images") continue;
    const std::string& name = member.key == "thinking"    ? "reasoning_content"
                              : member.key == "tool_name" ? "name"
                                                          : member.key;
    message[name] = member.value;
  }
  if (message.find("content") == nullptr) message["content"] = "";
  Json* calls = message.find("tool_calls");
  if (calls == nullptr || !calls->is_array()) return message;
  for (Json& call : calls->as_array()) {
    Json* function = call.is_object() ? call.find("function") : nullptr;
    Json* arguments = function != nullptr && function->is_object() ? function->find("arguments") : nullptr;
    if (call.is_object() && call.find("type") == nullptr) call["type"] = "function";
    if (arguments != nullptr && !arguments->is_string()) *arguments = arguments->dump();
  }
  return message;
}

OllamaRequest read_chat_fields(const Fields& fields, const BodyLimits& limits) {
  OllamaRequest request = read_shared(fields, limits, OllamaKind::kChat);
  const Json::Array* messages = fields.array("messages");
  request.is_load = messages == nullptr || messages->empty();
  if (request.is_load) return request;
  ChatPrompt chat{.messages = Json::array()};
  for (std::size_t i = 0; i < messages->size(); ++i) {
    chat.messages.push_back(translated((*messages)[i], item_of("messages", i)));
  }
  openai::check_messages(chat.messages.as_array(), limits);
  if (const Json::Array* tools = fields.array("tools"); tools != nullptr && !tools->empty()) {
    openai::check_tools(*tools, limits);
    chat.tools = Json(*tools);
    request.asked.tool_choice = {.mode = ToolChoice::Mode::kAuto};
  }
  read_thinking(fields, chat);
  request.asked.generate.prompt = std::move(chat);
  return request;
}

OllamaRequest read_generate_fields(const Fields& fields, const BodyLimits& limits) {
  OllamaRequest request = read_shared(fields, limits, OllamaKind::kGenerate);
  const std::string* prompt = fields.string("prompt", limits.prompt_bytes);
  const std::string* suffix = fields.string("suffix", limits.prompt_bytes);
  const std::string* system = fields.string("system", limits.prompt_bytes);
  request.is_load = (prompt == nullptr || prompt->empty()) && (suffix == nullptr || suffix->empty());
  if (request.is_load) return request;
  const std::string text = prompt == nullptr ? std::string() : *prompt;
  if (suffix != nullptr && !suffix->empty()) {
    request.asked.generate.prompt = InfillPrompt{.prefix = text, .suffix = *suffix, .field = "suffix"};
  } else if (fields.boolean_or("raw", false)) {
    request.asked.generate.prompt = text;
  } else {
    ChatPrompt chat{.messages = Json::array()};
    if (system != nullptr && !system->empty()) {
      chat.messages.push_back(Json{{"role", "system"}, {"content", *system}});
    }
    chat.messages.push_back(Json{{"role", "user"}, {"content", text}});
    read_thinking(fields, chat);
    request.asked.generate.prompt = std::move(chat);
  }
  return request;
}

}  // namespace

OllamaRequest read_chat(const Json& body, const BodyLimits& limits) {
  const Fields fields(body);
  OllamaRequest request = read_chat_fields(fields, limits);
  request.asked.unknown_fields = unknown_fields_of(fields);
  return request;
}

OllamaRequest read_generate(const Json& body, const BodyLimits& limits) {
  const Fields fields(body);
  OllamaRequest request = read_generate_fields(fields, limits);
  request.asked.unknown_fields = unknown_fields_of(fields);
  return request;
}

}  // namespace reprise::protocol::ollama
