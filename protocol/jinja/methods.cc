#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "protocol/jinja/access.h"
#include "protocol/jinja/builtins.h"
#include "protocol/jinja/error.h"
#include "protocol/jinja/operators.h"
#include "protocol/jinja/text.h"
#include "protocol/jinja/unicode.h"

namespace reprise::protocol::jinja {
namespace {

std::vector<std::string_view> split_at(Workspace& workspace, std::string_view text,
                                       std::string_view separator, std::int64_t max, bool from_right) {
  std::vector<std::string_view> parts;
  while (max < 0 || static_cast<std::int64_t>(parts.size()) < max) {
    const std::size_t at = from_right ? text.rfind(separator) : text.find(separator);
    if (at == text.npos) break;
    workspace.step();
    workspace.check_items(parts.size() + 2);
    if (from_right) {
      parts.push_back(text.substr(at + separator.size()));
      text = text.substr(0, at);
    } else {
      parts.push_back(text.substr(0, at));
      text.remove_prefix(at + separator.size());
    }
  }
  parts.push_back(text);
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

// Returns the length of the run of whitespace (or non-whitespace) at one end.
std::size_t run(std::string_view text, bool spaces, bool from_right) {
  if (!from_right) {
    std::size_t at = 0;
    while (at < text.size()) {
      std::size_t next = at;
      if (is_space(next_code_point(text, next)) != spaces) break;
      at = next;
    }
    return at;
  }
  std::size_t end = text.size();
  while (end > 0) {
    std::size_t start = end - 1;
    while (start > 0 && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) --start;
    std::size_t at = start;
    if (is_space(next_code_point(text, at)) != spaces) break;
    end = start;
  }
  return text.size() - end;
}

std::vector<std::string_view> split_words(Workspace& workspace, std::string_view text, std::int64_t max,
                                          bool from_right) {
  std::vector<std::string_view> parts;
  const auto cut = [&](std::size_t bytes) {
    const std::string_view piece = from_right ? text.substr(text.size() - bytes) : text.substr(0, bytes);
    from_right ? text.remove_suffix(bytes) : text.remove_prefix(bytes);
    return piece;
  };
  for (;;) {
    cut(run(text, true, from_right));
    if (text.empty()) break;
    workspace.step();
    workspace.check_items(parts.size() + 1);
    if (max >= 0 && static_cast<std::int64_t>(parts.size()) >= max) {  // do not split the rest
      parts.push_back(strip(text, nullptr, from_right ? Side::kRight : Side::kLeft));
      break;
    }
    parts.push_back(cut(run(text, false, from_right)));
  }
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

Value to_list(Workspace& workspace, const Value& self, const std::vector<std::string_view>& parts) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (const std::string_view part : parts)
    items.push_back(workspace.text(std::string(part), self.is_safe()));
  return workspace.list(std::move(items));
}

bool is_line_end(char32_t c) {
  return (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

Value split(Workspace& workspace, const Value& self, const Arguments& arguments, bool from_right) {
  const Parameters p(from_right ? "rsplit" : "split", arguments, {"sep", "maxsplit"});
  const std::int64_t max = p.integer(1, -1);
  workspace.work(self.as_string().size());
  if (p.find(0) == nullptr || p.find(0)->is_none()) {
    return to_list(workspace, self, split_words(workspace, self.as_string(), max, from_right));
  }
  if (p.need_text(0).empty()) fail("empty separator");
  return to_list(workspace, self, split_at(workspace, self.as_string(), p.need_text(0), max, from_right));
}

Value partition(Workspace& workspace, const Value& self, const Arguments& arguments, bool from_right) {
  const Parameters p(from_right ? "rpartition" : "partition", arguments, {"sep"});
  const std::string& separator = p.need_text(0);
  if (separator.empty()) fail("empty separator");
  const std::string& text = self.as_string();
  workspace.work(text.size());
  const std::size_t at = from_right ? text.rfind(separator) : text.find(separator);
  const Value empty = workspace.text("", self.is_safe());
  if (at == text.npos) {
    return workspace.tuple(from_right ? std::vector<Value>{empty, empty, self}
                                      : std::vector<Value>{self, empty, empty});
  }
  return workspace.tuple({workspace.text(text.substr(0, at), self.is_safe()), p.need(0),
                          workspace.text(text.substr(at + separator.size()), self.is_safe())});
}

Value split_lines_method(Workspace& workspace, const Value& self, const Arguments& arguments) {
  const Parameters p("splitlines", arguments, {"keepends"});
  workspace.work(self.as_string().size());
  const auto lines = split_lines(self.as_string(), p.truth(0, false));
  workspace.check_items(lines.size());
  return to_list(workspace, self, lines);
}

Value join_method(Workspace& workspace, const Value& self, const Arguments& arguments) {
  const Parameters p("join", arguments, {"iterable"});
  Cursor cursor(workspace, p.need(0));
  std::string out;
  Value item;
  for (std::size_t i = 0; cursor.next(item); ++i) {
    if (item.is_undefined()) fail(item.undefined_message());
    if (!item.is_string()) {
      fail({"sequence item ", std::to_string(i), ": expected str instance, ", type_name(item), " found"});
    }
    if (i > 0) out += self.as_string();
    out += item.as_string();
    workspace.check_text(out.size());
  }
  return workspace.text(std::move(out), self.is_safe());
}

Value like(Workspace& workspace, const Value& self, std::string text) {
  return workspace.text(std::move(text), self.is_safe());
}

void none(const char* name, const Arguments& arguments) {
  (void)Parameters(name, arguments, {});
}

Value strip_method(Workspace& workspace, const Value& self, const Arguments& arguments, Side side) {
  const Parameters p("strip", arguments, {"chars"});
  const std::string* chars = p.find(0) == nullptr || p.find(0)->is_none() ? nullptr : &p.need_text(0);
  workspace.work(self.as_string().size());
  const std::string_view stripped = strip(self.as_string(), chars, side);
  if (stripped.size() == self.as_string().size()) return self;
  return like(workspace, self, std::string(stripped));
}

// The part of a string between [start, end), in bytes.
struct Window {
  std::size_t from = 0;
  std::size_t to = 0;
  bool is_empty_past_end = false;  // start is beyond the end, so not even "" is found
};

Window window_of(Workspace& workspace, const Value& self, const Parameters& p, std::size_t first) {
  const Text& text = self.text();
  const auto length = static_cast<std::int64_t>(text.code_points);
  const auto bound = [&](std::size_t i, std::int64_t open) {
    if (p.find(i) == nullptr || p.find(i)->is_none()) return open;
    const std::int64_t at = p.integer(i, 0);
    return at < 0 ? std::max<std::int64_t>(at + length, 0) : at;
  };
  const std::int64_t start = bound(first, 0);
  const std::int64_t end = std::min(bound(first + 1, length), length);
  workspace.work(text.text.size());
  if (start > end) return {0, 0, true};
  const auto byte = [&](std::int64_t at) {
    return text.is_ascii() ? static_cast<std::size_t>(at)
                           : byte_offset(text.text, static_cast<std::size_t>(at));
  };
  return {byte(start), byte(end), false};
}

std::int64_t search(Workspace& workspace, const Value& self, const Arguments& arguments, const char* name,
                    bool from_right) {
  const Parameters p(name, arguments, {"sub", "start", "end"});
  const std::string& wanted = p.need_text(0);
  const Window window = window_of(workspace, self, p, 1);
  if (window.is_empty_past_end) return -1;
  const std::string_view part =
      std::string_view(self.as_string()).substr(window.from, window.to - window.from);
  const std::size_t at = from_right ? part.rfind(wanted) : part.find(wanted);
  if (at == part.npos) return -1;
  return static_cast<std::int64_t>(
      count_code_points(std::string_view(self.as_string()).substr(0, window.from + at)));
}

Value index_method(Workspace& workspace, const Value& self, const Arguments& arguments, bool from_right) {
  const std::int64_t at = search(workspace, self, arguments, "index", from_right);
  if (at < 0) fail("substring not found");
  return Value(at);
}

Value affix(Workspace& workspace, const Value& self, const Arguments& arguments, bool at_start) {
  const char* name = at_start ? "startswith" : "endswith";
  const Parameters p(name, arguments, {"prefix", "start", "end"});
  const Window window = window_of(workspace, self, p, 1);
  const std::string_view part =
      std::string_view(self.as_string()).substr(window.from, window.to - window.from);
  const auto matches = [&](const Value& value) {
    if (value.is_undefined()) fail(value.undefined_message());
    if (!value.is_string()) {
      fail({name, " first arg must be str or a tuple of str, not ", type_name(value)});
    }
    if (window.is_empty_past_end) return false;
    return at_start ? part.starts_with(value.as_string()) : part.ends_with(value.as_string());
  };
  const Value& wanted = p.need(0);
  if (!wanted.is_list() || !wanted.list().is_tuple()) return Value(matches(wanted));
  return Value(std::any_of(wanted.items().begin(), wanted.items().end(), matches));
}

Value remove_affix(Workspace& workspace, const Value& self, const Arguments& arguments, bool at_start) {
  const Parameters p(at_start ? "removeprefix" : "removesuffix", arguments, {"affix"});
  const std::string& affix = p.need_text(0);
  const std::string& text = self.as_string();
  if (affix.empty() || !(at_start ? text.starts_with(affix) : text.ends_with(affix))) return self;
  return like(workspace, self,
              at_start ? text.substr(affix.size()) : text.substr(0, text.size() - affix.size()));
}

Value replace_method(Workspace& workspace, const Value& self, const Arguments& arguments) {
  const Parameters p("replace", arguments, {"old", "new", "count"});
  return like(workspace, self,
              replace_all(workspace, self.as_string(), p.need_text(0), p.need_text(1), p.integer(2, -1)));
}

Value count_method(Workspace& workspace, const Value& self, const Arguments& arguments) {
  const Parameters p("count", arguments, {"sub", "start", "end"});
  const std::string& wanted = p.need_text(0);
  const Window window = window_of(workspace, self, p, 1);
  if (window.is_empty_past_end) return Value(std::int64_t{0});
  const std::string_view part =
      std::string_view(self.as_string()).substr(window.from, window.to - window.from);
  if (wanted.empty()) return Value(static_cast<std::int64_t>(count_code_points(part)) + 1);
  std::int64_t count = 0;
  for (std::size_t at = part.find(wanted); at != part.npos; at = part.find(wanted, at + wanted.size()))
    ++count;
  return Value(count);
}

Value title_method(Workspace& workspace, const Value& self, const Arguments& arguments) {
  none("title", arguments);
  std::string out;
  bool inside = false;
  for (std::size_t at = 0; at < self.as_string().size();) {
    const char32_t c = next_code_point(self.as_string(), at);
    inside ? append_lower(out, c) : append_title(out, c);
    inside = is_cased(c);
  }
  return like(workspace, self, std::move(out));
}

Value swapcase_method(Workspace& workspace, const Value& self, const Arguments& arguments) {
  none("swapcase", arguments);
  std::string out;
  for (std::size_t at = 0; at < self.as_string().size();) {
    const char32_t c = next_code_point(self.as_string(), at);
    is_upper(c) ? append_lower(out, c) : append_upper(out, c);
  }
  return like(workspace, self, std::move(out));
}

Value justify(Workspace& workspace, const Value& self, const Arguments& arguments, char align) {
  const Parameters p("just", arguments, {"width", "fillchar"});
  const std::u32string fill = to_code_points(p.text(1, " "));
  if (fill.size() != 1) fail("The fill character must be exactly one character long");
  const auto width = static_cast<std::size_t>(std::max<std::int64_t>(p.integer(0, 0), 0));
  workspace.check_text(width);
  if (align == '^') {  // As Python: an odd space goes to the left only if the width is odd.
    const std::size_t length = self.text().code_points;
    const std::size_t missing = width > length ? width - length : 0;
    FormatSpec left{fill[0], '>', '-', false, false, 0};
    left.width = length + missing / 2 + (missing & width & 1);
    FormatSpec right{fill[0], '<', '-', false, false, width};
    return like(workspace, self, pad(workspace, pad(workspace, self.as_string(), left, false), right, false));
  }
  const FormatSpec spec{fill[0], align, '-', false, false, width};
  return like(workspace, self, pad(workspace, self.as_string(), spec, false));
}

Value zfill_method(Workspace& workspace, const Value& self, const Arguments& arguments) {
  const Parameters p("zfill", arguments, {"width"});
  const auto width = static_cast<std::size_t>(std::max<std::int64_t>(p.integer(0, 0), 0));
  workspace.check_text(width);
  std::string text = self.as_string();
  if (self.text().code_points >= width) return self;
  const bool has_sign = !text.empty() && (text[0] == '+' || text[0] == '-');
  text.insert(has_sign ? 1 : 0, width - self.text().code_points, '0');
  return like(workspace, self, std::move(text));
}

Value expandtabs_method(Workspace& workspace, const Value& self, const Arguments& arguments) {
  const Parameters p("expandtabs", arguments, {"tabsize"});
  const std::int64_t size = std::clamp<std::int64_t>(p.integer(0, 8), 0, 1000);
  std::string out;
  std::int64_t column = 0;
  for (const char c : self.as_string()) {
    if (c == '\t') {
      const std::int64_t fill = size > 0 ? size - column % size : 0;
      out.append(static_cast<std::size_t>(fill), ' ');
      column += fill;
      workspace.check_text(out.size());
    } else {
      out += c;
      column = c == '\n' || c == '\r' ? 0 : column + ((static_cast<unsigned char>(c) & 0xC0) != 0x80);
    }
  }
  return like(workspace, self, std::move(out));
}

// isalpha and similar: at least one character, and all have the property.
template <bool (*property)(char32_t)>
Value all_are(Workspace& workspace, const Value& self, const Arguments& arguments) {
  none("str method", arguments);
  const std::string& text = self.as_string();
  workspace.work(text.size());
  for (std::size_t at = 0; at < text.size();) {
    if (!property(next_code_point(text, at))) return Value(false);
  }
  return Value(!text.empty());
}

// islower and isupper: at least one cased character, and all cased ones match.
template <bool (*wanted)(char32_t)>
Value case_is(Workspace& workspace, const Value& self, const Arguments& arguments) {
  none("str method", arguments);
  workspace.work(self.as_string().size());
  bool found = false;
  for (std::size_t at = 0; at < self.as_string().size();) {
    const char32_t c = next_code_point(self.as_string(), at);
    if (!is_cased(c)) continue;
    if (!wanted(c)) return Value(false);
    found = true;
  }
  return Value(found);
}

Value isascii_method(Workspace&, const Value& self, const Arguments& arguments) {
  none("isascii", arguments);
  return Value(self.text().is_ascii());
}

Value isprintable_method(Workspace& workspace, const Value& self, const Arguments& arguments) {
  return self.as_string().empty() ? Value(true) : all_are<is_printable>(workspace, self, arguments);
}

Value isidentifier_method(Workspace& workspace, const Value& self, const Arguments& arguments) {
  const std::string& text = self.as_string();
  if (text.empty() || (text[0] >= '0' && text[0] <= '9')) return Value(false);
  return all_are<is_word>(workspace, self, arguments);
}

Value istitle_method(Workspace& workspace, const Value& self, const Arguments& arguments) {
  none("istitle", arguments);
  workspace.work(self.as_string().size());
  bool inside = false;
  bool found = false;
  for (std::size_t at = 0; at < self.as_string().size();) {
    const char32_t c = next_code_point(self.as_string(), at);
    if (is_upper(c) || is_title(c)) {
      if (inside) return Value(false);
      inside = found = true;
    } else if (is_lower(c)) {
      if (!inside) return Value(false);
    } else {
      inside = false;
    }
  }
  return Value(found);
}

Value format_map_method(Workspace& workspace, const Value& self, const Arguments& arguments) {
  const Parameters p("format_map", arguments, {"mapping"});
  if (!p.need(0).is_dict()) fail("format_map() takes a dict");
  Arguments named;
  for (const Dict::Entry& entry : p.need(0).dict().entries()) {
    if (entry.key.is_string()) named.named.emplace_back(entry.key.as_string(), entry.value);
  }
  return format_braces(workspace, self, named);
}

constexpr std::pair<std::string_view, Method> kMethods[] = {
    {"capitalize",
     [](Workspace& w, const Value& s, const Arguments& a) {
       return none("capitalize", a), like(w, s, capitalize(s.as_string()));
     }},
    {"casefold",
     [](Workspace& w, const Value& s, const Arguments& a) {
       return none("casefold", a), like(w, s, replace_all(w, to_lower(s.as_string()), "ß", "ss", -1));
     }},
    {"center", [](Workspace& w, const Value& s, const Arguments& a) { return justify(w, s, a, '^'); }},
    {"count", count_method},
    {"endswith", [](Workspace& w, const Value& s, const Arguments& a) { return affix(w, s, a, false); }},
    {"expandtabs", expandtabs_method},
    {"find",
     [](Workspace& w, const Value& s, const Arguments& a) { return Value(search(w, s, a, "find", false)); }},
    {"format", format_braces},
    {"format_map", format_map_method},
    {"index", [](Workspace& w, const Value& s, const Arguments& a) { return index_method(w, s, a, false); }},
    {"isalnum", all_are<is_alnum>},
    {"isalpha", all_are<is_alpha>},
    {"isascii", isascii_method},
    {"isdecimal", all_are<is_decimal>},
    {"isdigit", all_are<is_digit>},
    {"isidentifier", isidentifier_method},
    {"islower", case_is<is_lower>},
    {"isnumeric", all_are<is_numeric>},
    {"isprintable", isprintable_method},
    {"isspace", all_are<is_space>},
    {"istitle", istitle_method},
    {"isupper", case_is<is_upper>},
    {"join", join_method},
    {"ljust", [](Workspace& w, const Value& s, const Arguments& a) { return justify(w, s, a, '<'); }},
    {"lower", [](Workspace& w, const Value& s,
                 const Arguments& a) { return none("lower", a), like(w, s, to_lower(s.as_string())); }},
    {"lstrip",
     [](Workspace& w, const Value& s, const Arguments& a) { return strip_method(w, s, a, Side::kLeft); }},
    {"partition", [](Workspace& w, const Value& s, const Arguments& a) { return partition(w, s, a, false); }},
    {"removeprefix",
     [](Workspace& w, const Value& s, const Arguments& a) { return remove_affix(w, s, a, true); }},
    {"removesuffix",
     [](Workspace& w, const Value& s, const Arguments& a) { return remove_affix(w, s, a, false); }},
    {"replace", replace_method},
    {"rfind",
     [](Workspace& w, const Value& s, const Arguments& a) { return Value(search(w, s, a, "rfind", true)); }},
    {"rindex", [](Workspace& w, const Value& s, const Arguments& a) { return index_method(w, s, a, true); }},
    {"rjust", [](Workspace& w, const Value& s, const Arguments& a) { return justify(w, s, a, '>'); }},
    {"rpartition", [](Workspace& w, const Value& s, const Arguments& a) { return partition(w, s, a, true); }},
    {"rsplit", [](Workspace& w, const Value& s, const Arguments& a) { return split(w, s, a, true); }},
    {"rstrip",
     [](Workspace& w, const Value& s, const Arguments& a) { return strip_method(w, s, a, Side::kRight); }},
    {"split", [](Workspace& w, const Value& s, const Arguments& a) { return split(w, s, a, false); }},
    {"splitlines", split_lines_method},
    {"startswith", [](Workspace& w, const Value& s, const Arguments& a) { return affix(w, s, a, true); }},
    {"strip",
     [](Workspace& w, const Value& s, const Arguments& a) { return strip_method(w, s, a, Side::kBoth); }},
    {"swapcase", swapcase_method},
    {"title", title_method},
    {"upper", [](Workspace& w, const Value& s,
                 const Arguments& a) { return none("upper", a), like(w, s, to_upper(s.as_string())); }},
    {"zfill", zfill_method},
};

bool is_among(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Value list_count(Workspace& workspace, const Value& self, const Arguments& arguments) {
  const Parameters p("count", arguments, {"value"});
  std::int64_t count = 0;
  for (const Value& item : self.items()) count += equals(workspace, item, p.need(0));
  return Value(count);
}

Value list_index(Workspace& workspace, const Value& self, const Arguments& arguments) {
  const Parameters p("index", arguments, {"value", "start", "stop"});
  const auto& items = self.items();
  const auto size = static_cast<std::int64_t>(items.size());
  const auto bound = [&](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size);
  };
  for (std::int64_t i = bound(p.integer(1, 0)), end = bound(p.integer(2, size)); i < end; ++i) {
    if (equals(workspace, items[static_cast<std::size_t>(i)], p.need(0))) return Value(i);
  }
  std::string shown;
  append_repr(workspace, shown, p.need(0));
  fail({shown, " is not in list"});
}

Value list_copy(Workspace&, const Value& self, const Arguments& arguments) {
  const Parameters p("copy", arguments, {});
  return self;  // lists are immutable
}

Value dict_get(Workspace& workspace, const Value& self, const Arguments& arguments) {
  const Parameters p("get", arguments, {"key", "default"});
  check_hashable(workspace, p.need(0));
  if (const Value* found = self.dict().find(p.need(0))) return *found;
  return p.find(1) != nullptr ? *p.find(1) : Value();
}

Value dict_keys(Workspace& workspace, const Value& self, const Arguments& arguments) {
  const Parameters p("keys", arguments, {});
  std::vector<Value> items;
  items.reserve(self.dict().size());
  for (const auto& entry : self.dict().entries()) items.push_back(entry.key);
  return workspace.list(std::move(items), List::Flavor::kKeys);
}

Value dict_values(Workspace& workspace, const Value& self, const Arguments& arguments) {
  const Parameters p("values", arguments, {});
  std::vector<Value> items;
  items.reserve(self.dict().size());
  for (const auto& entry : self.dict().entries()) items.push_back(entry.value);
  return workspace.list(std::move(items), List::Flavor::kValues);
}

Value dict_items(Workspace& workspace, const Value& self, const Arguments& arguments) {
  const Parameters p("items", arguments, {});
  std::vector<Value> items;
  items.reserve(self.dict().size());
  for (const auto& entry : self.dict().entries()) items.push_back(workspace.tuple({entry.key, entry.value}));
  return workspace.list(std::move(items), List::Flavor::kItems);
}

}  // namespace

Method find_string_method(std::string_view name) {
  for (const auto& [known, method] : kMethods) {
    if (known == name) return method;
  }
  return nullptr;
}

std::string capitalize(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const bool first = at == 0;
    const char32_t c = next_code_point(text, at);
    first ? append_title(out, c) : append_lower(out, c);
  }
  return out;
}

std::string_view strip(std::string_view text, const std::string* chars, Side side) {
  const std::u32string set = chars != nullptr ? to_code_points(*chars) : std::u32string();
  const auto goes = [&](char32_t c) { return chars != nullptr ? set.find(c) != set.npos : is_space(c); };
  const auto has = [&](Side wanted) { return (static_cast<int>(side) & static_cast<int>(wanted)) != 0; };
  while (has(Side::kLeft) && !text.empty()) {
    std::size_t at = 0;
    if (!goes(next_code_point(text, at))) break;
    text.remove_prefix(at);
  }
  while (has(Side::kRight) && !text.empty()) {
    std::size_t start = text.size() - 1;
    while (start > 0 && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) --start;
    std::size_t at = start;
    if (!goes(next_code_point(text, at))) break;
    text = text.substr(0, start);
  }
  return text;
}

std::string replace_all(Workspace& workspace, std::string_view text, std::string_view from,
                        std::string_view to, std::int64_t count) {
  workspace.work(text.size());
  std::string out;
  std::size_t at = 0;
  const auto more = [&] { return count < 0 || count-- > 0; };
  if (from.empty()) {  // insert before every character and at the end
    while (at <= text.size() && more()) {
      out += to;
      if (at == text.size()) return out;
      const std::size_t length = character_bytes(text[at]);
      out += text.substr(at, length);
      at += length;
      workspace.check_text(out.size());
    }
    return out += text.substr(std::min(at, text.size()));
  }
  for (std::size_t hit = text.find(from); hit != text.npos && more(); hit = text.find(from, at)) {
    out += text.substr(at, hit - at);
    out += to;
    at = hit + from.size();
    workspace.check_text(out.size());
  }
  return out += text.substr(at);
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  std::size_t start = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = at;
    const char32_t c = next_code_point(text, at);
    if (!is_line_end(c)) continue;
    if (c == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.push_back(text.substr(start, (keep_ends ? at : end) - start));
    start = at;
  }
  if (start < text.size()) lines.push_back(text.substr(start));
  return lines;
}

Method find_list_method(std::string_view name) {
  if (name == "count") return list_count;
  if (name == "index") return list_index;
  if (name == "copy") return list_copy;
  return nullptr;
}

Method find_dict_method(std::string_view name) {
  if (name == "get") return dict_get;
  if (name == "items") return dict_items;
  if (name == "keys") return dict_keys;
  if (name == "values") return dict_values;
  if (name == "copy") return list_copy;
  return nullptr;
}

bool changes_list(std::string_view name) {
  return is_among(name, {"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"});
}

bool changes_dict(std::string_view name) {
  return is_among(name, {"clear", "pop", "popitem", "setdefault", "update"});
}

}  // namespace reprise::protocol::jinja
