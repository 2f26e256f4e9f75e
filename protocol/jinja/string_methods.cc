// Methods of str that give a string, a number or a truth; those that cut a string up are in
// string_split_methods.cc.
#include <algorithm>
#include <utility>

#include "protocol/jinja/error.h"
#include "protocol/jinja/format.h"
#include "protocol/jinja/format_spec.h"
#include "protocol/jinja/iterate.h"
#include "protocol/jinja/methods.h"
#include "protocol/jinja/string_split_methods.h"
#include "protocol/jinja/text.h"
#include "protocol/jinja/unicode.h"
#include "protocol/jinja/workspace.h"

namespace reprise::protocol::jinja {
namespace {

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

// The part of the string that [start, end) selects, as bytes.
struct Window {
  std::size_t from = 0;
  std::size_t to = 0;
  bool is_empty_past_end = false;  // start lies behind the end: not even "" is found there
};

Window window_of(Workspace& workspace, const Value& self, const Parameters& p, std::size_t first) {
  const Text& text = self.text();
  const auto length = static_cast<std::int64_t>(text.code_points);
  const auto place = [&](std::size_t i, std::int64_t open) {
    if (p.find(i) == nullptr || p.find(i)->is_none()) return open;
    const std::int64_t at = p.integer(i, 0);
    return at < 0 ? std::max<std::int64_t>(at + length, 0) : at;
  };
  const std::int64_t start = place(first, 0);
  const std::int64_t end = std::min(place(first + 1, length), length);
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
  if (align == '^') {  // Python puts the odd one on the left only for an odd width
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

// isalpha and its like: every character has the property, and there is one.
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

// islower and isupper: there is a cased character, and all of them are of that case.
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
  if (from.empty()) {  // before every character and at the end
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

}  // namespace reprise::protocol::jinja
