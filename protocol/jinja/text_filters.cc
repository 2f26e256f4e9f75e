// Filters of text and numbers.
#include <algorithm>
#include <cmath>

#include "base/json_text.h"
#include "protocol/jinja/access.h"
#include "protocol/jinja/builtins.h"
#include "protocol/jinja/error.h"
#include "protocol/jinja/operators.h"
#include "protocol/jinja/text.h"
#include "protocol/jinja/unicode.h"

namespace reprise::protocol::jinja {
namespace {

class Writer {
 public:
  Writer(Workspace& workspace, std::string& out, const JsonStyle& style)
      : workspace_(workspace), out_(out), style_(style) {}

  void value(const Value& value, std::size_t level) {
    workspace_.step();
    workspace_.check_text(out_.size());
    switch (value.kind()) {
      case ValueKind::kNone:
        out_ += "null";
        return;
      case ValueKind::kBool:
        out_ += value.as_bool() ? "true" : "false";
        return;
      case ValueKind::kInt:
        append_integer(out_, value.as_int());
        return;
      case ValueKind::kFloat:
        append_json_double(out_, value.as_double(), style_.python_numbers);
        return;
      case ValueKind::kString:
        workspace_.work(value.as_string().size());
        append_json_string(out_, value.as_string(), style_.ensure_ascii);
        return;
      case ValueKind::kList:
        if (value.list().is_tuple() || value.list().flavor == List::Flavor::kList) {
          return array(value.items(), level);
        }
        break;
      case ValueKind::kDict:
        return object(value.dict(), level);
      case ValueKind::kUndefined:
        fail({"Object of type Undefined is not JSON serializable: ", value.undefined_message()});
      default:
        break;
    }
    fail({"Object of type ", type_name(value), " is not JSON serializable"});
  }

 private:
  void array(const std::vector<Value>& items, std::size_t level) {
    const Workspace::Level deeper(workspace_);
    out_ += '[';
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      new_line(level + 1);
      value(items[i], level + 1);
    }
    if (!items.empty()) new_line(level);
    out_ += ']';
  }

  void object(const Dict& dict, std::size_t level) {
    const Workspace::Level deeper(workspace_);
    std::vector<const Dict::Entry*> order;
    for (const Dict::Entry& entry : dict.entries()) order.push_back(&entry);
    if (style_.sort_keys) {
      for (std::size_t i = 1; i < order.size(); ++i) (void)less(workspace_, order[i - 1]->key, order[i]->key);
      std::stable_sort(order.begin(), order.end(),
                       [](const auto* a, const auto* b) { return key_order(a->key, b->key) < 0; });
    }
    out_ += '{';
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      new_line(level + 1);
      key(order[i]->key);
      out_ += style_.key_separator;
      value(order[i]->value, level + 1);
    }
    if (!order.empty()) new_line(level);
    out_ += '}';
  }

  void key(const Value& key) {
    if (key.is_string()) return value(key, 0);
    if (!key.is_none() && !key.is_number()) {
      fail({"keys must be str, int, float, bool or None, not ", type_name(key)});
    }
    out_ += '"';
    value(key, 0);
    out_ += '"';
  }

  void new_line(std::size_t level) {
    if (!style_.indent) return;
    out_ += '\n';
    workspace_.check_text(out_.size() + level * style_.indent->size());
    for (std::size_t i = 0; i < level; ++i) out_ += *style_.indent;
  }

  Workspace& workspace_;
  std::string& out_;
  const JsonStyle& style_;
};

// As Python's json.dumps: tuples are arrays, keys that are numbers, booleans or None become strings. Fails
// for what JSON cannot say, undefined values among it.
std::string to_json(Workspace& workspace, const Value& value, const JsonStyle& style) {
  std::string out;
  Writer(workspace, out, style).value(value, 0);
  return out;
}

Value call_method(Workspace& workspace, const Value& input, std::string_view method,
                  const Arguments& arguments) {
  return find_string_method(method)(workspace, as_text(workspace, input), arguments);
}

Value trim(Workspace& workspace, const Value& input, const Arguments& arguments) {
  return call_method(workspace, input, "strip", arguments);
}

Value title(Workspace& workspace, const Value& input, const Arguments& arguments) {
  const Parameters p("title", arguments, {});
  const Value text = as_text(workspace, input);
  std::string out;
  bool begins = true;
  for (std::size_t at = 0; at < text.as_string().size();) {
    const char32_t c = next_code_point(text.as_string(), at);
    const bool separates = c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || is_space(c);
    if (separates) {
      append_utf8(out, c);
    } else {
      begins ? append_upper(out, c) : append_lower(out, c);
    }
    begins = separates;
  }
  return workspace.text(std::move(out), text.is_safe());
}

Value replace(Workspace& workspace, const Value& input, const Arguments& arguments) {
  const Parameters p("replace", arguments, {"old", "new", "count"});
  const std::int64_t count = p.find(2) == nullptr || p.find(2)->is_none() ? -1 : p.integer(2, -1);
  return workspace.text(replace_all(workspace, to_str(workspace, input), to_str(workspace, p.need(0)),
                                    to_str(workspace, p.need(1)), count));
}

Value indent(Workspace& workspace, const Value& input, const Arguments& arguments) {
  const Parameters p("indent", arguments, {"width", "first", "blank"});
  std::string space;
  if (p.find(0) != nullptr && p.find(0)->is_string()) {
    space = p.need_text(0);
  } else {
    const std::int64_t width = std::max<std::int64_t>(p.integer(0, 4), 0);
    workspace.check_text(static_cast<std::size_t>(width));
    space.assign(static_cast<std::size_t>(width), ' ');
  }
  const bool blank = p.truth(2, false);
  if (input.is_undefined()) fail(input.undefined_message());
  if (!input.is_string()) fail({"indent works on strings, not on ", type_name(input)});
  const std::string text = input.as_string() + "\n";
  std::string out;
  bool is_first = true;
  for (const std::string_view line : split_lines(text, false)) {
    if (!is_first) out += '\n';
    if (is_first ? p.truth(1, false) : blank || !line.empty()) out += space;
    out += line;
    is_first = false;
    workspace.check_text(out.size());
  }
  return workspace.text(std::move(out), input.is_safe());
}

Value join(Workspace& workspace, const Value& input, const Arguments& arguments) {
  const Parameters p("join", arguments, {"d", "attribute"});
  const std::string separator = p.find(0) == nullptr ? "" : to_str(workspace, *p.find(0));
  Value source = input;
  if (p.find(1) != nullptr && !p.find(1)->is_none()) {
    source = find_filter("map")(workspace, input, Arguments{{}, {{"attribute", *p.find(1)}}});
  }
  Cursor cursor(workspace, source);
  std::string out;
  Value item;
  for (bool first = true; cursor.next(item); first = false) {
    if (!first) out += separator;
    append_str(workspace, out, item);
    workspace.check_text(out.size());
  }
  return workspace.text(std::move(out));
}

Value escape(Workspace& workspace, const Value& input, const Arguments& arguments) {
  const Parameters p("escape", arguments, {});
  if (input.is_safe()) return input;
  return workspace.text(escape_html(to_str(workspace, input)), true);
}

Value force_escape(Workspace& workspace, const Value& input, const Arguments& arguments) {
  const Parameters p("forceescape", arguments, {});
  return workspace.text(escape_html(to_str(workspace, input)), true);
}

Value mark_safe(Workspace& workspace, const Value& input, const Arguments& arguments) {
  const Parameters p("safe", arguments, {});
  return input.is_safe() ? input : workspace.text(to_str(workspace, input), true);
}

Value string(Workspace& workspace, const Value& input, const Arguments& arguments) {
  const Parameters p("string", arguments, {});
  return as_text(workspace, input);
}

Value wordcount(Workspace& workspace, const Value& input, const Arguments& arguments) {
  const Parameters p("wordcount", arguments, {});
  const std::string text = to_str(workspace, input);
  std::int64_t count = 0;
  bool inside = false;
  for (std::size_t at = 0; at < text.size();) {
    const bool word = is_word(next_code_point(text, at));
    count += word && !inside;
    inside = word;
  }
  return Value(count);
}

Value truncate(Workspace& workspace, const Value& input, const Arguments& arguments) {
  const Parameters p("truncate", arguments, {"length", "killwords", "end", "leeway"});
  const std::string end(p.text(2, "..."));
  const std::int64_t length = p.integer(0, 255);
  const std::int64_t leeway = p.find(3) == nullptr || p.find(3)->is_none() ? 5 : p.integer(3, 5);
  const auto end_length = static_cast<std::int64_t>(count_code_points(end));
  if (length < end_length) fail("truncate: the length is shorter than the end");
  if (leeway < 0) fail("truncate: the leeway is negative");
  const auto size = length_of(input);
  if (!size) fail({"object of type '", type_name(input), "' has no len()"});
  if (static_cast<std::int64_t>(*size) - leeway <= length) return input;
  if (!input.is_string()) fail({"truncate cannot cut a ", type_name(input)});
  const std::string& whole = input.as_string();
  std::string kept = whole.substr(0, byte_offset(whole, static_cast<std::size_t>(length - end_length)));
  if (!p.truth(1, false)) {
    const std::size_t space = kept.rfind(' ');
    if (space != kept.npos) kept.resize(space);
  }
  return workspace.text(kept + end, input.is_safe());
}

Value center(Workspace& workspace, const Value& input, const Arguments& arguments) {
  const Parameters p("center", arguments, {"width"});
  return call_method(workspace, input, "center", Arguments{{Value(p.integer(0, 80))}, {}});
}

Value format(Workspace& workspace, const Value& input, const Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    fail("can't handle positional and keyword arguments at the same time");
  }
  if (arguments.named.empty()) {
    return format_percent(workspace, as_text(workspace, input), workspace.tuple(arguments.positional));
  }
  auto dict = std::make_shared<Dict>();
  for (const auto& [name, value] : arguments.named) dict->set(workspace.text(name), value);
  return format_percent(workspace, as_text(workspace, input), workspace.dict(std::move(dict)));
}

std::string quote_url(std::string_view text, bool keeps_slash) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '.' || c == '-' || c == '~' || (keeps_slash && c == '/');
    if (plain) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += '%';
      out += "0123456789ABCDEF"[byte >> 4];
      out += "0123456789ABCDEF"[byte & 15];
    }
  }
  return out;
}

Value urlencode(Workspace& workspace, const Value& input, const Arguments& arguments) {
  const Parameters p("urlencode", arguments, {});
  if (input.is_string() || !is_iterable(input)) {
    return workspace.text(quote_url(to_str(workspace, input), true));
  }
  std::string out;
  const auto add = [&](const Value& key, const Value& value) {
    if (!out.empty()) out += '&';
    const auto quoted = [&](const Value& v) {
      return replace_all(workspace, quote_url(to_str(workspace, v), false), "%20", "+", -1);
    };
    out.append(quoted(key)).append("=").append(quoted(value));
    workspace.check_text(out.size());
  };
  if (input.is_dict()) {
    for (const Dict::Entry& entry : input.dict().entries()) add(entry.key, entry.value);
  } else {
    for (const Value& pair : to_vector(workspace, input)) {
      if (!pair.is_list() || pair.items().size() != 2) fail("urlencode: expected pairs");
      add(pair.items()[0], pair.items()[1]);
    }
  }
  return workspace.text(std::move(out));
}

Value tojson(Workspace& workspace, const Value& input, const Arguments& arguments) {
  const Parameters p("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style = JsonStyle::python();
  style.ensure_ascii = p.truth(0, false);
  style.sort_keys = p.truth(3, false);
  if (const Value* indent = p.find(1); indent != nullptr && !indent->is_none()) {
    if (indent->is_string()) {
      style.indent = indent->as_string();
    } else {
      const std::int64_t width = std::max<std::int64_t>(p.integer(1, 0), 0);
      workspace.check_text(static_cast<std::size_t>(width));
      style.indent.emplace(static_cast<std::size_t>(width), ' ');
    }
    style.item_separator.pop_back();  // without the space
  }
  if (const Value* separators = p.find(2); separators != nullptr && !separators->is_none()) {
    if (!separators->is_list() || separators->items().size() != 2 || !separators->items()[0].is_string() ||
        !separators->items()[1].is_string()) {
      fail("tojson: separators must be two strings");
    }
    style.item_separator = separators->items()[0].as_string();
    style.key_separator = separators->items()[1].as_string();
  }
  return workspace.text(to_json(workspace, input, style));
}

Value absolute(Workspace&, const Value& input, const Arguments& arguments) {
  const Parameters p("abs", arguments, {});
  if (input.is_undefined()) fail(input.undefined_message());
  if (input.is_float()) return Value(std::fabs(input.as_double()));
  if (!input.is_integral()) fail({"bad operand type for abs(): '", type_name(input), "'"});
  return input.as_int() < 0 ? negate(input) : Value(input.as_int());
}

Value to_int(Workspace& workspace, const Value& input, const Arguments& arguments) {
  const Parameters p("int", arguments, {"default", "base"});
  const Value fallback = p.find(0) != nullptr ? *p.find(0) : Value(std::int64_t{0});
  if (input.is_undefined()) fail(input.undefined_message());
  if (input.is_integral()) return Value(input.as_int());
  std::optional<double> number;
  if (input.is_float()) {
    number = input.as_double();
  } else if (input.is_string()) {
    workspace.work(input.as_string().size());
    if (const auto whole = parse_integer(input.as_string(), p.integer(1, 10))) return Value(*whole);
    number = parse_float(input.as_string());
  }
  const auto whole = number ? truncate_to_integer(*number) : std::nullopt;
  return whole ? Value(*whole) : fallback;
}

Value to_float(Workspace& workspace, const Value& input, const Arguments& arguments) {
  const Parameters p("float", arguments, {"default"});
  if (input.is_undefined()) fail(input.undefined_message());
  if (input.is_number()) return Value(input.as_double());
  if (input.is_string()) {
    workspace.work(input.as_string().size());
    if (const auto number = parse_float(input.as_string())) return Value(*number);
  }
  return p.find(0) != nullptr ? *p.find(0) : Value(0.0);
}

Value round_number(Workspace&, const Value& input, const Arguments& arguments) {
  const Parameters p("round", arguments, {"precision", "method"});
  const std::int64_t precision = p.integer(0, 0);
  const std::string_view method = p.text(1, "common");
  if (method != "common" && method != "ceil" && method != "floor")
    fail("method must be common, ceil or floor");
  if (input.is_undefined()) fail(input.undefined_message());
  if (!input.is_number()) fail({"round works on numbers, not on ", type_name(input)});
  if (method == "common") {
    if (input.is_float()) return Value(round_to(input.as_double(), precision));
    if (precision >= 0) return Value(input.as_int());
    const auto rounded = truncate_to_integer(round_to(input.as_double(), precision));
    return Value(rounded.value_or(0));
  }
  const double unit = std::pow(10.0, static_cast<double>(precision));
  const double scaled = input.as_double() * unit;
  return Value((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit);
}

Value file_size(Workspace& workspace, const Value& input, const Arguments& arguments) {
  const Parameters p("filesizeformat", arguments, {"binary"});
  const bool binary = p.truth(0, false);
  if (input.is_string()) workspace.work(input.as_string().size());
  const std::optional<double> bytes = input.is_number()   ? std::optional(input.as_double())
                                      : input.is_string() ? parse_float(input.as_string())
                                                          : std::nullopt;
  if (!bytes) fail({"filesizeformat works on numbers, not on ", type_name(input)});
  const double base = binary ? 1024 : 1000;
  if (*bytes == 1) return workspace.text("1 Byte");
  std::string out;
  if (*bytes < base) {
    append_integer(out, static_cast<std::int64_t>(*bytes));
    return workspace.text(out + " Bytes");
  }
  constexpr const char* kDecimal[] = {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"};
  constexpr const char* kBinary[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"};
  double unit = base;
  int i = 0;
  while (i < 7 && *bytes >= unit * base) {
    unit *= base;
    ++i;
  }
  char digits[64];
  std::snprintf(digits, sizeof digits, "%.1f %s", *bytes / unit, binary ? kBinary[i] : kDecimal[i]);
  return workspace.text(digits);
}

constexpr NamedFilter kTextFilters[] = {
    {"capitalize",
     [](Workspace& w, const Value& v, const Arguments& a) { return call_method(w, v, "capitalize", a); }},
    {"center", center},
    {"e", escape},
    {"escape", escape},
    {"forceescape", force_escape},
    {"format", format},
    {"indent", indent},
    {"join", join},
    {"lower", [](Workspace& w, const Value& v, const Arguments& a) { return call_method(w, v, "lower", a); }},
    {"replace", replace},
    {"safe", mark_safe},
    {"string", string},
    {"title", title},
    {"tojson", tojson},
    {"trim", trim},
    {"truncate", truncate},
    {"upper", [](Workspace& w, const Value& v, const Arguments& a) { return call_method(w, v, "upper", a); }},
    {"urlencode", urlencode},
    {"wordcount", wordcount},
    {"abs", absolute},
    {"filesizeformat", file_size},
    {"float", to_float},
    {"int", to_int},
    {"round", round_number},
};
}  // namespace

std::span<const NamedFilter> text_filters() {
  return kTextFilters;
}

}  // namespace reprise::protocol::jinja
