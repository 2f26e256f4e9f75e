#include "protocol/jinja/string_split_methods.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "protocol/jinja/error.h"
#include "protocol/jinja/iterate.h"
#include "protocol/jinja/methods.h"
#include "protocol/jinja/text.h"
#include "protocol/jinja/unicode.h"
#include "protocol/jinja/workspace.h"

namespace reprise::protocol::jinja {
namespace {

std::vector<std::string_view> split_at(Workspace& workspace, std::string_view text,
                                       std::string_view separator, std::int64_t most, bool from_right) {
  std::vector<std::string_view> parts;
  while (most < 0 || static_cast<std::int64_t>(parts.size()) < most) {
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

// Length of the run of characters at one end that are white space, or that are not.
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

std::vector<std::string_view> split_words(Workspace& workspace, std::string_view text, std::int64_t most,
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
    if (most >= 0 && static_cast<std::int64_t>(parts.size()) >= most) {  // the rest stays whole
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

}  // namespace

Value split(Workspace& workspace, const Value& self, const Arguments& arguments, bool from_right) {
  const Parameters p(from_right ? "rsplit" : "split", arguments, {"sep", "maxsplit"});
  const std::int64_t most = p.integer(1, -1);
  workspace.work(self.as_string().size());
  if (p.find(0) == nullptr || p.find(0)->is_none()) {
    return to_list(workspace, self, split_words(workspace, self.as_string(), most, from_right));
  }
  if (p.need_text(0).empty()) fail("empty separator");
  return to_list(workspace, self, split_at(workspace, self.as_string(), p.need_text(0), most, from_right));
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

}  // namespace reprise::protocol::jinja
