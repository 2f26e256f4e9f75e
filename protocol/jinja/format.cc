#include "protocol/jinja/format.h"

#include <cmath>
#include <optional>

#include "protocol/jinja/attributes.h"
#include "protocol/jinja/error.h"
#include "protocol/jinja/format_spec.h"
#include "protocol/jinja/text.h"
#include "protocol/jinja/unicode.h"
#include "protocol/jinja/workspace.h"

namespace reprise::protocol::jinja {
namespace {

// The arguments of one % operation, taken one after the other or by name.
class PercentArguments {
 public:
  explicit PercentArguments(const Value& argument) : argument_(argument) {}

  const Value& next() {
    if (argument_.is_list() && argument_.list().is_tuple()) {
      if (taken_ >= argument_.items().size()) fail("not enough arguments for format string");
      return argument_.items()[taken_++];
    }
    if (taken_++ > 0) fail("not enough arguments for format string");
    return argument_;
  }

  const Value& named(std::string_view name) {
    if (!argument_.is_dict()) fail("format requires a mapping");
    const Value* found = argument_.dict().find(name);
    if (found == nullptr) fail({"the format has no argument named '", name, "'"});
    by_name_ = true;
    return *found;
  }

  void check_all_taken() const {
    if (by_name_ || argument_.is_dict()) return;
    const std::size_t count =
        argument_.is_list() && argument_.list().is_tuple() ? argument_.items().size() : 1;
    if (taken_ < count && !(argument_.is_list() && !argument_.list().is_tuple())) {
      fail("not all arguments converted during string formatting");
    }
  }

 private:
  const Value& argument_;
  std::size_t taken_ = 0;
  bool by_name_ = false;
};

std::string percent_number(Workspace& workspace, const Value& value, const FormatSpec& spec) {
  if (value.is_undefined()) fail(value.undefined_message());
  if (!value.is_number()) {
    fail(
        {"%", std::string_view(&spec.type, 1), " format: a real number is required, not ", type_name(value)});
  }
  FormatSpec number = spec;
  if (std::string_view("diu").find(spec.type) != std::string_view::npos) number.type = 'd';
  std::string text;
  if (std::string_view("dxXo").find(number.type) != std::string_view::npos) {
    std::int64_t whole = 0;
    if (value.is_float()) {
      if (number.type != 'd') {
        fail({"%", std::string_view(&spec.type, 1), " format: an integer is required, not float"});
      }
      if (!(std::fabs(value.as_double()) < 9.2e18)) fail("an integer does not fit 64 bits");
      whole = static_cast<std::int64_t>(value.as_double());
    } else {
      whole = value.as_int();
    }
    text = format_integer(whole, number);
  } else {
    text = format_double(value.as_double(), number);
  }
  return pad(workspace, std::move(text), spec, true);
}

std::string percent_field(Workspace& workspace, const Value& value, const FormatSpec& spec, bool escapes) {
  switch (spec.type) {
    case 's':
    case 'r':
    case 'a': {
      std::string text;
      if (spec.type == 's') {
        append_str(workspace, text, value);
        if (escapes && !value.is_safe()) text = escape_html(text);
      } else {
        append_repr(workspace, text, value);
      }
      if (spec.precision) text.resize(byte_offset(text, static_cast<std::size_t>(*spec.precision)));
      FormatSpec right = spec;
      if (right.align == 0 || right.align == '=') right.align = '>';
      right.fill = ' ';
      return pad(workspace, std::move(text), right, false);
    }
    case 'c': {
      if (value.is_string() && value.text().code_points == 1) return value.as_string();
      if (!value.is_integral() || value.as_int() < 0 || value.as_int() > 0x10FFFF ||
          (value.as_int() >= 0xD800 && value.as_int() <= 0xDFFF)) {
        fail("%c requires int or char");
      }
      std::string text;
      append_utf8(text, static_cast<char32_t>(value.as_int()));
      return text;
    }
    default:
      if (std::string_view("diuxXoeEfFgG").find(spec.type) == std::string_view::npos) {
        fail({"unsupported format character '", std::string_view(&spec.type, 1), "'"});
      }
      return percent_number(workspace, value, spec);
  }
}

std::size_t percent_size(std::string_view text, std::size_t& at, PercentArguments& arguments,
                         FormatSpec& spec) {
  if (at < text.size() && text[at] == '*') {
    ++at;
    const Value& value = arguments.next();
    if (!value.is_integral()) fail("* wants int");
    if (value.as_int() < 0) spec.align = '<';
    const std::int64_t size = value.as_int() < -1'000'000'000 ? 1'000'000'000 : std::abs(value.as_int());
    return static_cast<std::size_t>(size);
  }
  std::size_t size = 0;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
    size = size * 10 + static_cast<std::size_t>(text[at++] - '0');
    if (size > 1'000'000'000) fail("width too big");
  }
  return size;
}

class BraceFormatter {
 public:
  BraceFormatter(Workspace& workspace, const Arguments& arguments)
      : workspace_(workspace), arguments_(arguments) {}

  std::string format(std::string_view text, int nested) {
    if (nested > 2) fail("Max string recursion exceeded");
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
      const char c = text[at++];
      if ((c == '{' || c == '}') && at < text.size() && text[at] == c) {
        out += c;
        ++at;
      } else if (c == '}') {
        fail("Single '}' encountered in format string");
      } else if (c == '{') {
        out += field(text, at, nested);
      } else {
        out += c;
      }
      workspace_.check_text(out.size());
    }
    return out;
  }

 private:
  std::string field(std::string_view text, std::size_t& at, int nested) {
    const std::size_t start = at;
    int open = 1;
    while (at < text.size() && open > 0) {
      open += text[at] == '{' ? 1 : text[at] == '}' ? -1 : 0;
      ++at;
    }
    if (open > 0) fail("expected '}' before end of string");
    std::string_view inside = text.substr(start, at - 1 - start);
    const std::size_t name_end = inside.find_first_of(":!");
    std::string_view name = inside.substr(0, name_end);
    char conversion = 0;
    std::string_view spec_text;
    if (name_end != inside.npos) {
      inside.remove_prefix(name_end);
      if (inside[0] == '!') {
        if (inside.size() < 2) fail("end of string while looking for conversion specifier");
        conversion = inside[1];
        inside.remove_prefix(2);
        if (!inside.empty() && inside[0] != ':') fail("expected ':' after conversion specifier");
      }
      if (!inside.empty()) spec_text = inside.substr(1);
    }
    Value value = lookup(name);
    if (conversion == 'r' || conversion == 'a') {
      std::string repr;
      append_repr(workspace_, repr, value);
      value = workspace_.text(std::move(repr));
    } else if (conversion == 's') {
      value = as_text(workspace_, value);
    } else if (conversion != 0) {
      fail("Unknown conversion specifier");
    }
    const std::string spec = format(spec_text, nested + 1);
    return format_value(workspace_, value, parse_format_spec(workspace_, spec));
  }

  Value lookup(std::string_view name) {
    const std::size_t first_end = std::min(name.find_first_of(".["), name.size());
    Value value = argument(name.substr(0, first_end));
    for (std::size_t at = first_end; at < name.size();) {
      if (name[at] == '.') {
        const std::size_t end = std::min(name.find_first_of(".[", at + 1), name.size());
        value = get_attribute(workspace_, value, name.substr(at + 1, end - at - 1));
        at = end;
      } else {
        const std::size_t end = name.find(']', at);
        if (end == name.npos) fail("Missing ']' in format string");
        const std::string_view key = name.substr(at + 1, end - at - 1);
        const bool is_number =
            !key.empty() && key.size() < 18 && key.find_first_not_of("0123456789") == key.npos;
        value = get_item(workspace_, value,
                         is_number ? Value(std::int64_t{std::stoll(std::string(key))})
                                   : workspace_.text(std::string(key)));
        at = end + 1;
      }
    }
    return value;
  }

  Value argument(std::string_view name) {
    if (name.empty() || name.find_first_not_of("0123456789") == name.npos) {
      const std::size_t i = name.empty()      ? next_++
                            : name.size() < 9 ? std::stoul(std::string(name))
                                              : arguments_.positional.size();
      if (i >= arguments_.positional.size()) fail("Replacement index out of range for positional args tuple");
      return arguments_.positional[i];
    }
    for (const auto& [key, value] : arguments_.named) {
      if (key == name) return value;
    }
    fail({"the format has no argument named '", name, "'"});
  }

  Workspace& workspace_;
  const Arguments& arguments_;
  std::size_t next_ = 0;
};

}  // namespace

Value format_percent(Workspace& workspace, const Value& format, const Value& argument) {
  const std::string_view text = format.as_string();
  PercentArguments arguments(argument);
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t percent = std::min(text.find('%', at), text.size());
    out += text.substr(at, percent - at);
    at = percent;
    if (at == text.size()) break;
    workspace.step();
    ++at;
    const Value* value = nullptr;
    if (at < text.size() && text[at] == '(') {
      const std::size_t end = text.find(')', at);
      if (end == text.npos) fail("incomplete format key");
      value = &arguments.named(text.substr(at + 1, end - at - 1));
      at = end + 1;
    }
    FormatSpec spec;
    for (; at < text.size() && std::string_view("-+ #0").find(text[at]) != std::string_view::npos; ++at) {
      if (text[at] == '-') spec.align = '<';
      if (text[at] == '+' || (text[at] == ' ' && spec.sign != '+')) spec.sign = text[at];
      if (text[at] == '#') spec.alternate = true;
      if (text[at] == '0') spec.zero = true;
    }
    spec.width = percent_size(text, at, arguments, spec);
    if (at < text.size() && text[at] == '.') {
      ++at;
      FormatSpec ignored;
      spec.precision = static_cast<int>(percent_size(text, at, arguments, ignored));
    }
    while (at < text.size() && (text[at] == 'l' || text[at] == 'h' || text[at] == 'L')) ++at;
    if (at >= text.size()) fail("incomplete format");
    spec.type = text[at++];
    if (spec.zero && spec.align != '<') {
      spec.fill = '0';
      spec.align = '=';
    }
    if (spec.type == '%') {
      out += '%';
      continue;
    }
    workspace.check_text(spec.width);
    out += percent_field(workspace, value != nullptr ? *value : arguments.next(), spec, format.is_safe());
    workspace.check_text(out.size());
  }
  arguments.check_all_taken();
  return workspace.text(std::move(out), format.is_safe());
}

Value format_braces(Workspace& workspace, const Value& format, const Arguments& arguments) {
  workspace.work(format.as_string().size());
  return workspace.text(BraceFormatter(workspace, arguments).format(format.as_string(), 0), format.is_safe());
}

}  // namespace reprise::protocol::jinja
