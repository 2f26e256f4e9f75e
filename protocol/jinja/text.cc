#include "protocol/jinja/text.h"

#include "base/json_text.h"
#include "protocol/jinja/unicode.h"
#include "protocol/jinja/workspace.h"

namespace reprise::protocol::jinja {
namespace {

void append_items(Workspace& workspace, std::string& out, const std::vector<Value>& items) {
  const Workspace::Level level(workspace);
  bool first = true;
  for (const Value& item : items) {
    if (!first) out += ", ";
    first = false;
    append_repr(workspace, out, item);
  }
}

void append_range(std::string& out, const std::vector<Value>& items) {
  const std::int64_t step = items.size() > 1 ? items[1].as_int() - items[0].as_int() : 1;
  out += "range(";
  append_integer(out, items.empty() ? 0 : items.front().as_int());
  out += ", ";
  append_integer(out, items.empty() ? 0 : items.back().as_int() + step);
  if (step != 1) {
    out += ", ";
    append_integer(out, step);
  }
  out += ')';
}

void append_list_repr(Workspace& workspace, std::string& out, const List& list) {
  switch (list.flavor) {
    case List::Flavor::kList:
      out += '[';
      append_items(workspace, out, list.items);
      out += ']';
      break;
    case List::Flavor::kTuple:
    case List::Flavor::kGroup:
      out += '(';
      append_items(workspace, out, list.items);
      out += list.items.size() == 1 ? ",)" : ")";
      break;
    case List::Flavor::kRange:
      append_range(out, list.items);
      break;
    default:
      out += list.flavor == List::Flavor::kKeys     ? "dict_keys(["
             : list.flavor == List::Flavor::kValues ? "dict_values(["
                                                    : "dict_items([";
      append_items(workspace, out, list.items);
      out += "])";
  }
}

void append_dict_repr(Workspace& workspace, std::string& out, const Dict& dict) {
  const Workspace::Level level(workspace);
  out += '{';
  bool first = true;
  for (const Dict::Entry& entry : dict.entries()) {
    if (!first) out += ", ";
    first = false;
    append_repr(workspace, out, entry.key);
    out += ": ";
    append_repr(workspace, out, entry.value);
  }
  out += '}';
}

void append_hex(std::string& out, char32_t value, int digits) {
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) out += "0123456789abcdef"[value >> shift & 15];
}

}  // namespace

std::string type_name(const Value& value) {
  switch (value.kind()) {
    case ValueKind::kNone:
      return "NoneType";
    case ValueKind::kUndefined:
      return "Undefined";
    case ValueKind::kBool:
      return "bool";
    case ValueKind::kInt:
      return "int";
    case ValueKind::kFloat:
      return "float";
    case ValueKind::kString:
      return value.is_safe() ? "Markup" : "str";
    case ValueKind::kList:
      switch (value.list().flavor) {
        case List::Flavor::kList:
          return "list";
        case List::Flavor::kTuple:
          return "tuple";
        case List::Flavor::kGroup:
          return "_GroupTuple";
        case List::Flavor::kKeys:
          return "dict_keys";
        case List::Flavor::kValues:
          return "dict_values";
        case List::Flavor::kItems:
          return "dict_items";
        case List::Flavor::kRange:
          return "range";
      }
      return "list";
    case ValueKind::kDict:
      return "dict";
    case ValueKind::kObject:
      return value.object().type_name();
  }
  return "object";
}

std::string describe(const Value& value) {
  if (value.is_none()) return "None";
  return type_name(value) + " object";
}

void append_str(Workspace& workspace, std::string& out, const Value& value) {
  if (value.is_string()) {
    workspace.work(value.as_string().size());
    out += value.as_string();
  } else if (!value.is_undefined()) {
    append_repr(workspace, out, value);
  }
}

std::string to_str(Workspace& workspace, const Value& value) {
  std::string out;
  append_str(workspace, out, value);
  return out;
}

Value as_text(Workspace& workspace, const Value& value) {
  return value.is_string() ? value : workspace.text(to_str(workspace, value));
}

void append_repr(Workspace& workspace, std::string& out, const Value& value) {
  workspace.work(out.size() % 64);
  workspace.check_text(out.size());
  switch (value.kind()) {
    case ValueKind::kNone:
      out += "None";
      break;
    case ValueKind::kUndefined:
      out += "Undefined";
      break;
    case ValueKind::kBool:
      out += value.as_bool() ? "True" : "False";
      break;
    case ValueKind::kInt:
      append_integer(out, value.as_int());
      break;
    case ValueKind::kFloat:
      append_python_double(out, value.as_double());
      break;
    case ValueKind::kString:
      workspace.work(value.as_string().size());
      if (value.is_safe()) out += "Markup(";
      append_string_repr(out, value.as_string());
      if (value.is_safe()) out += ')';
      break;
    case ValueKind::kList:
      append_list_repr(workspace, out, value.list());
      break;
    case ValueKind::kDict:
      append_dict_repr(workspace, out, value.dict());
      break;
    case ValueKind::kObject: {
      const Workspace::Level level(workspace);
      out += value.object().repr(workspace);
    }
  }
}

void append_string_repr(std::string& out, std::string_view text) {
  const bool has_single = text.find('\'') != text.npos;
  const bool has_double = text.find('"') != text.npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  out += quote;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t start = at;
    const char32_t c = next_code_point(text, at);
    if (c == static_cast<unsigned char>(quote) || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n' || c == '\r' || c == '\t') {
      out += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    } else if (is_printable(c)) {
      out += text.substr(start, at - start);
    } else if (c < 0x100) {
      out += "\\x";
      append_hex(out, c, 2);
    } else if (c < 0x10000) {
      out += "\\u";
      append_hex(out, c, 4);
    } else {
      out += "\\U";
      append_hex(out, c, 8);
    }
  }
  out += quote;
}

std::string string_repr(std::string_view text) {
  std::string out;
  append_string_repr(out, text);
  return out;
}

std::string shown_part(std::string_view text) {
  constexpr std::size_t kMaxShownBytes = 200;
  if (text.size() <= kMaxShownBytes) return std::string(text);
  std::size_t end = kMaxShownBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "...";
}

std::string escape_html(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&#34;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace reprise::protocol::jinja
