#include "protocol/reply/reply_format.h"

#include <algorithm>
#include <array>
#include <utility>

#include "protocol/reply/call_text.h"

namespace reprise::protocol {
namespace {

using Calls = ReplyFormat::Calls;
using Header = ReplyFormat::Header;

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Returns the leading newlines of template source, as characters or as \n in a string literal.
std::string leading_newlines(std::string_view source, std::size_t& length) {
  std::string newlines;
  length = 0;
  while (true) {
    const std::string_view rest = source.substr(length);
    if (rest.starts_with("\n")) {
      length += 1;
    } else if (rest.starts_with("\\n")) {
      length += 2;
    } else {
      return newlines;
    }
    newlines += '\n';
  }
}

// Finds the empty thinking block that the template writes to disable thinking.
std::string find_thinking_nothing(std::string_view source, const ReplyFormat& format) {
  for (std::size_t at = source.find(format.think_open); at != std::string_view::npos;
       at = source.find(format.think_open, at + 1)) {
    std::string_view rest = source.substr(at + format.think_open.size());
    std::size_t length = 0;
    const std::string between = leading_newlines(rest, length);
    rest.remove_prefix(length);
    if (!rest.starts_with(format.think_close)) continue;
    rest.remove_prefix(format.think_close.size());
    return format.think_open + between + format.think_close + leading_newlines(rest, length);
  }
  return {};
}

void detect_reasoning(std::string_view source, ReplyFormat& format) {
  constexpr std::array<std::pair<const char*, const char*>, 6> kPairs = {{
      {"<think>", "</think>"},
      {"<seed:think>", "</seed:think>"},
      {"<longcat_think>", "</longcat_think>"},
      {"[THINK]", "[/THINK]"},
      {"<|START_THINKING|>", "<|END_THINKING|>"},
      {"<reasoning>", "</reasoning>"},
  }};
  for (const auto& [open, close] : kPairs) {
    if (!contains(source, open) && !contains(source, close)) continue;
    format.think_open = open;
    format.think_close = close;
    format.think_nothing = find_thinking_nothing(source, format);
    return;
  }
}

void set_calls(ReplyFormat& format, Calls calls, std::string_view open, std::string_view close) {
  format.calls = calls;
  format.call_open = open;
  format.call_close = close;
}

void set_items(ReplyFormat& format, std::string_view open, std::string_view separator, std::string_view close,
               Header header) {
  format.item_open = open;
  format.name_separator = separator;
  format.item_close = close;
  format.header = header;
}

// Tests marks of a single family first, shared marks last.
void detect_calls(std::string_view source, ReplyFormat& format) {
  const auto shows = [source](std::string_view part) { return contains(source, part); };
  if (shows("<|tool_calls_section_begin|>")) {
    set_calls(format, Calls::kNamed, "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>");
    set_items(format, "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>",
              Header::kKimi);
  } else if (shows("<｜tool▁calls▁begin｜>")) {
    set_calls(format, Calls::kNamed, "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>");
    set_items(format, "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>",
              shows("```json") ? Header::kTyped : Header::kPlain);
  } else if (shows("<arg_key>") || shows("<longcat_arg_key>")) {
    // Shares marks with other families but has an unsupported argument syntax.
  } else if (shows("<seed:tool_call>")) {
    set_calls(format, Calls::kXml, "<seed:tool_call>", "</seed:tool_call>");
  } else if (shows("<longcat_tool_call>")) {
    set_calls(format, Calls::kJson, "<longcat_tool_call>", "</longcat_tool_call>");
  } else if (shows("<tool_call>")) {
    set_calls(format, shows("<function=") ? Calls::kXml : Calls::kJson, "<tool_call>", "</tool_call>");
  } else if (shows("<TOOLCALL>")) {
    set_calls(format, Calls::kJson, "<TOOLCALL>", "</TOOLCALL>");
    format.list = true;
  } else if (shows("<tool_calls>")) {
    set_calls(format, Calls::kJson, "<tool_calls>", "</tool_calls>");
    format.list = true;
  } else if (shows("[TOOL_CALLS]")) {
    format.short_ids = true;
    if (shows("[ARGS]")) {
      set_calls(format, Calls::kNamed, "[TOOL_CALLS]", "");
      set_items(format, "", "[ARGS]", "", Header::kPlain);
    } else {
      set_calls(format, Calls::kJson, "[TOOL_CALLS]", "");
      format.list = true;
    }
  } else if (shows("<|tool_call|>")) {
    set_calls(format, Calls::kJson, "<|tool_call|>", "");
    format.list = true;
  } else if (shows("<|tool_call_start|>") || shows("<|tool_list_start|>") ||
             (shows("List of tools: [") && shows("keep_past_thinking"))) {
    set_calls(format, Calls::kPython, "<|tool_call_start|>", "<|tool_call_end|>");
  } else if (shows("\"parameters\": ") && (shows("<|python_tag|>") || shows("\"name\": function name"))) {
    set_calls(format, Calls::kBareJson, "<|python_tag|>", "");
    format.arguments_key = "parameters";
  }
}

bool detect_null_content(std::string_view source) {
  for (const char* content : {"'content']", "\"content\"]", ".content", " content"}) {
    for (const char* test : {" is none", " is not none"}) {
      if (contains(source, std::string(content) + test)) return true;
    }
  }
  return false;
}

// Returns the offset of an unclosed thinking block; npos: none.
std::size_t find_open_thinking(const ReplyFormat& format, std::string_view tail) {
  if (!format.has_reasoning()) return std::string_view::npos;
  const std::size_t at = tail.rfind(format.think_open);
  if (at == std::string_view::npos) return at;
  const std::string_view after_open = tail.substr(at + format.think_open.size());
  return std::all_of(after_open.begin(), after_open.end(), is_json_space) ? at : std::string_view::npos;
}

std::string json_opening(const ReplyFormat& format, std::string_view name) {
  std::string text = "{\"name\": \"";
  // No space after the colon: models have a single token for colon and brace.
  if (!name.empty()) text += std::string(name) + "\", \"" + format.arguments_key + "\":";
  return text;
}

std::string named_opening(const ReplyFormat& format, std::string_view name) {
  std::string text = format.call_open + format.item_open;
  if (format.header == Header::kTyped) text += "function" + format.name_separator;
  if (format.header == Header::kKimi) text += "functions.";
  if (name.empty()) return text;
  text += name;
  if (format.header == Header::kTyped) return text + "\n```json\n";
  if (format.header == Header::kKimi) text += ":0";
  return text + format.name_separator;
}

}  // namespace

ReplyFormat detect_reply_format(std::string_view chat_template_source) {
  ReplyFormat format;
  detect_reasoning(chat_template_source, format);
  detect_calls(chat_template_source, format);
  format.null_content = detect_null_content(chat_template_source);
  return format;
}

bool opens_thinking(const ReplyFormat& format, std::string_view prompt_tail) {
  return find_open_thinking(format, prompt_tail) != std::string_view::npos;
}

std::string reasoning_end(const ReplyFormat& format, std::string_view text) {
  const std::string end = format.think_close + format.after_think_close;
  if (const std::size_t at = find_open_thinking(format, text); at != std::string_view::npos) {
    const std::string_view opened = text.substr(at);
    if (format.think_nothing.starts_with(opened)) return format.think_nothing.substr(opened.size());
    return format.before_think_close + end;
  }
  for (std::size_t begun = format.think_close.size() - 1; begun > 0; --begun) {
    if (text.ends_with(std::string_view(format.think_close).substr(0, begun))) return end.substr(begun);
  }
  return text.ends_with(format.before_think_close) ? end : format.before_think_close + end;
}

std::optional<std::string> tool_opening(const ReplyFormat& format, std::string_view tool_name,
                                        std::string_view prompt_tail) {
  const bool writable = std::all_of(tool_name.begin(), tool_name.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c == '-' || c == '.';
  });
  if (!writable) return std::nullopt;
  const std::string start = opens_thinking(format, prompt_tail) ? reasoning_end(format, prompt_tail) : "";
  switch (format.calls) {
    case Calls::kNone:
      return std::nullopt;
    case Calls::kJson:
      return start + format.call_open + (format.list ? "[" : "\n") + json_opening(format, tool_name);
    case Calls::kBareJson:
      return start + json_opening(format, tool_name);
    case Calls::kXml:
      return start + format.call_open +
             "\n<function=" + (tool_name.empty() ? std::string() : std::string(tool_name) + ">\n");
    case Calls::kNamed:
      return start + named_opening(format, tool_name);
    case Calls::kPython:
      return start + format.call_open + "[" +
             (tool_name.empty() ? std::string() : std::string(tool_name) + "(");
  }
  return std::nullopt;
}

}  // namespace reprise::protocol
