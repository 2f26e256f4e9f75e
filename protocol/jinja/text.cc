#include "protocol/jinja/text.h"

#include <cmath>
#include <cstdio>
#include <optional>

#include "base/json_text.h"
#include "protocol/jinja/access.h"
#include "protocol/jinja/builtins.h"
#include "protocol/jinja/error.h"
#include "protocol/jinja/unicode.h"

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

namespace {

constexpr int kMaxPrecision = 1000;

bool is_align(char32_t c) {
  return c == '<' || c == '>' || c == '^' || c == '=';
}

std::size_t read_number(std::string_view text, std::size_t& at) {
  std::size_t number = 0;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
    number = number * 10 + static_cast<std::size_t>(text[at++] - '0');
    if (number > 1'000'000'000) fail("Too many decimal digits in format string");
  }
  return number;
}

std::string digits_in_base(std::uint64_t value, unsigned base, bool upper) {
  const char* const digits = upper ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string out;
  do {
    out.insert(out.begin(), digits[value % base]);
    value /= base;
  } while (value > 0);
  return out;
}

// Inserts a separator between groups of the integer digits.
std::string grouped(std::string text, char separator, std::size_t group) {
  std::size_t end = 0;
  while (end < text.size() && std::isxdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
  for (std::size_t at = end; at > group;) {
    at -= group;
    text.insert(at, 1, separator);
  }
  return text;
}

std::string with_sign(bool negative, char sign, std::string text) {
  if (negative) return "-" + text;
  return sign == '-' ? text : std::string(1, sign) + text;
}

// Python keeps ".0" on an integral float if no type is given.
std::string general_digits(double value, int precision, bool alternate, bool upper, bool keep_point) {
  char buffer[kMaxPrecision + 400];
  const char* form = alternate ? (upper ? "%#.*G" : "%#.*g") : (upper ? "%.*G" : "%.*g");
  const int count = std::snprintf(buffer, sizeof buffer, form, precision, value);
  std::string out(buffer, static_cast<std::size_t>(count));
  if (keep_point && out.find_first_of(".eEn") == out.npos) out += ".0";
  return out;
}

}  // namespace

FormatSpec parse_format_spec(Workspace& workspace, std::string_view text) {
  FormatSpec spec;
  spec.is_empty = text.empty();
  std::size_t at = 0;
  if (!text.empty()) {
    std::size_t past = 0;
    const char32_t first = next_code_point(text, past);
    if (past < text.size() && is_align(static_cast<unsigned char>(text[past]))) {
      spec.fill = first;
      spec.align = text[past];
      at = past + 1;
    } else if (is_align(first)) {
      spec.align = text[0];
      at = 1;
    }
  }
  const auto peek = [&] { return at < text.size() ? text[at] : '\0'; };
  if (peek() == '+' || peek() == '-' || peek() == ' ') {
    spec.sign = text[at++];
    spec.sign_given = true;
  }
  if (peek() == '#') spec.alternate = (++at, true);
  if (peek() == '0') {
    ++at;
    spec.zero = true;
    if (spec.align == 0) {
      spec.fill = '0';
      spec.align = '=';
    }
  }
  spec.width = read_number(text, at);
  workspace.check_text(spec.width);
  if (peek() == ',' || peek() == '_') spec.grouping = text[at++];
  if (peek() == '.') {
    const std::size_t start = ++at;
    const std::size_t precision = read_number(text, at);
    if (at == start) fail("Format specifier missing precision");
    workspace.check_text(precision);
    spec.precision = static_cast<int>(precision);
  }
  if (at < text.size()) spec.type = text[at++];
  if (at < text.size()) fail("Invalid format specifier");
  return spec;
}

std::string format_integer(std::int64_t value, const FormatSpec& spec) {
  const bool negative = value < 0;
  const std::uint64_t size =
      negative ? ~static_cast<std::uint64_t>(value) + 1 : static_cast<std::uint64_t>(value);
  const unsigned base = spec.type == 'x' || spec.type == 'X' ? 16
                        : spec.type == 'o'                   ? 8
                        : spec.type == 'b'                   ? 2
                                                             : 10;
  std::string digits = digits_in_base(size, base, spec.type == 'X');
  if (spec.grouping != 0) digits = grouped(std::move(digits), spec.grouping, base == 10 ? 3 : 4);
  if (spec.alternate && base != 10) digits.insert(0, std::string("0") + spec.type);
  return with_sign(negative, spec.sign, std::move(digits));
}

std::string format_double(double value, const FormatSpec& spec) {
  const bool negative = std::signbit(value) && !std::isnan(value);
  double size = std::fabs(value);
  if (spec.precision.value_or(0) > kMaxPrecision) fail("precision too big");
  std::string digits;
  const bool upper = spec.type == 'E' || spec.type == 'F' || spec.type == 'G';
  if (!std::isfinite(size)) {
    digits = std::isnan(size) ? (upper ? "NAN" : "nan") : (upper ? "INF" : "inf");
  } else if (spec.type == 'g' || spec.type == 'G' || spec.type == 'n') {
    digits = general_digits(size, spec.precision.value_or(6), spec.alternate, upper, false);
  } else if (spec.type == 0) {
    if (spec.precision) {
      digits = general_digits(size, *spec.precision, spec.alternate, false, true);
    } else {
      append_python_double(digits, size);
    }
  } else {
    char buffer[kMaxPrecision + 400];
    const bool percent = spec.type == '%';
    const char* form = spec.type == 'e' ? "%.*e" : spec.type == 'E' ? "%.*E" : "%.*f";
    if (percent) size *= 100;
    const int count = std::snprintf(buffer, sizeof buffer, form, spec.precision.value_or(6), size);
    digits.assign(buffer, static_cast<std::size_t>(count));
    if (percent) digits += '%';
  }
  if (spec.grouping != 0 && std::isfinite(size)) digits = grouped(std::move(digits), spec.grouping, 3);
  return with_sign(negative, spec.sign, std::move(digits));
}

std::string pad(Workspace& workspace, std::string text, const FormatSpec& spec, bool is_number) {
  const std::size_t length = count_code_points(text);
  if (length >= spec.width) return text;
  const std::size_t missing = spec.width - length;
  workspace.check_text(text.size() + missing * 4);
  const char align = spec.align != 0 ? spec.align : is_number ? '>' : '<';
  std::string fill;
  append_utf8(fill, spec.fill);
  const auto repeat = [&](std::size_t count) {
    std::string out;
    for (std::size_t i = 0; i < count; ++i) out += fill;
    return out;
  };
  if (align == '<') return text + repeat(missing);
  if (align == '^') return repeat(missing / 2) + text + repeat(missing - missing / 2);
  if (align == '=') {
    std::size_t prefix = !text.empty() && (text[0] == '-' || text[0] == '+' || text[0] == ' ') ? 1 : 0;
    if (spec.alternate && text.size() > prefix + 1 && text[prefix] == '0' &&
        std::isalpha(static_cast<unsigned char>(text[prefix + 1])) != 0) {
      prefix += 2;
    }
    return text.substr(0, prefix) + repeat(missing) + text.substr(prefix);
  }
  return repeat(missing) + text;
}

std::string format_value(Workspace& workspace, const Value& value, const FormatSpec& spec) {
  const auto refuse = [&] {
    fail({"Unknown format code '", std::string_view(&spec.type, 1), "' for object of type '",
          type_name(value), "'"});
  };
  const std::string_view type(&spec.type, spec.type == 0 ? 0 : 1);
  if (spec.is_empty) return to_str(workspace, value);
  if (value.is_integral()) {
    if (type.find_first_of("eEfFgG%") != type.npos) {
      return pad(workspace, format_double(value.as_double(), spec), spec, true);
    }
    if (type.find_first_not_of("dxXobn") != type.npos) refuse();
    if (spec.precision) fail("Precision not allowed in integer format specifier");
    return pad(workspace, format_integer(value.as_int(), spec), spec, true);
  }
  if (value.is_float()) {
    if (type.find_first_not_of("eEfFgGn%") != type.npos) refuse();
    return pad(workspace, format_double(value.as_double(), spec), spec, true);
  }
  if (!value.is_string()) {
    fail({"unsupported format string passed to ", type_name(value), ".__format__"});
  }
  if (type.find_first_not_of("s") != type.npos) refuse();
  if (spec.sign_given) fail("Sign not allowed in string format specifier");
  if (spec.grouping != 0) fail("Cannot specify a grouping with 's'.");
  std::string text = to_str(workspace, value);
  if (spec.precision) text.resize(byte_offset(text, static_cast<std::size_t>(*spec.precision)));
  FormatSpec plain = spec;
  if (spec.align == '=') {
    if (!spec.zero) fail("'=' alignment not allowed in string format specifier");
    plain.align = '<';
  }
  return pad(workspace, std::move(text), plain, false);
}

namespace {

// The arguments of one % operation, taken in order or by name.
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
