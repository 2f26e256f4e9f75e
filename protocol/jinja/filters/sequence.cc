// Filters that take values apart or put them together, and default.
#include <algorithm>

#include "protocol/jinja/attribute_path.h"
#include "protocol/jinja/compare.h"
#include "protocol/jinja/error.h"
#include "protocol/jinja/filters/filters.h"
#include "protocol/jinja/iterate.h"
#include "protocol/jinja/operators.h"
#include "protocol/jinja/text.h"
#include "protocol/jinja/unicode.h"
#include "protocol/jinja/workspace.h"

namespace reprise::protocol::jinja {
namespace {

Value default_value(Workspace& workspace, const Value& input, const Arguments& arguments) {
  const Parameters p("default", arguments, {"default_value", "boolean"});
  if (!input.is_undefined() && !(p.truth(1, false) && !is_true(input))) return input;
  return p.find(0) != nullptr ? *p.find(0) : workspace.text("");
}

Value length(Workspace&, const Value& input, const Arguments& arguments) {
  const Parameters p("length", arguments, {});
  const auto size = length_of(input);
  if (!size) fail({"object of type '", type_name(input), "' has no len()"});
  return Value(static_cast<std::int64_t>(*size));
}

Value first(Workspace& workspace, const Value& input, const Arguments& arguments) {
  const Parameters p("first", arguments, {});
  Cursor cursor(workspace, input);
  Value item;
  return cursor.next(item) ? item : Value::undefined("No first item, sequence was empty.");
}

Value last(Workspace& workspace, const Value& input, const Arguments& arguments) {
  const Parameters p("last", arguments, {});
  if (input.is_object()) fail({"'", type_name(input), "' object is not reversible"});
  const auto size = length_of(input);
  if (!size) fail({"'", type_name(input), "' object is not reversible"});
  if (*size == 0) return Value::undefined("No last item, sequence was empty.");
  if (input.is_dict()) return input.dict().entries().back().key;
  return *item_at(workspace, input, -1);
}

Value list(Workspace& workspace, const Value& input, const Arguments& arguments) {
  const Parameters p("list", arguments, {});
  return workspace.list(to_vector(workspace, input));
}

Value items(Workspace& workspace, const Value& input, const Arguments& arguments) {
  const Parameters p("items", arguments, {});
  if (input.is_undefined()) return workspace.iterator({});
  if (!input.is_dict()) fail("Can only get item pairs from a mapping.");
  std::vector<Value> pairs;
  for (const Dict::Entry& entry : input.dict().entries()) {
    pairs.push_back(workspace.tuple({entry.key, entry.value}));
  }
  return workspace.iterator(std::move(pairs));
}

Value reverse(Workspace& workspace, const Value& input, const Arguments& arguments) {
  const Parameters p("reverse", arguments, {});
  if (input.is_string()) {
    std::u32string characters = to_code_points(input.as_string());
    std::reverse(characters.begin(), characters.end());
    return workspace.text(to_utf8(characters), input.is_safe());
  }
  if (!is_iterable(input)) fail("argument must be iterable");
  std::vector<Value> all = to_vector(workspace, input);
  std::reverse(all.begin(), all.end());
  return workspace.iterator(std::move(all));
}

Value sum(Workspace& workspace, const Value& input, const Arguments& arguments) {
  const Parameters p("sum", arguments, {"attribute", "start"});
  const AttributePath path(workspace, p.find(0));
  Value total = p.find(1) != nullptr ? *p.find(1) : Value(std::int64_t{0});
  if (total.is_string()) fail("sum() can't sum strings [use ''.join(seq) instead]");
  Cursor cursor(workspace, input);
  Value item;
  while (cursor.next(item)) {
    total = apply(workspace, BinaryOperator::kAdd, total, path.get(workspace, item));
  }
  return total;
}

Value batch(Workspace& workspace, const Value& input, const Arguments& arguments) {
  const Parameters p("batch", arguments, {"linecount", "fill_with"});
  (void)p.need(0);
  const std::int64_t size = p.integer(0, 1);
  const Value* fill = p.find(1) != nullptr && !p.find(1)->is_none() ? p.find(1) : nullptr;
  std::vector<Value> lines;
  std::vector<Value> line;
  for (const Value& item : to_vector(workspace, input)) {
    if (static_cast<std::int64_t>(line.size()) == size) {
      lines.push_back(workspace.list(std::move(line)));
      line.clear();
    }
    line.push_back(item);
  }
  if (!line.empty()) {
    if (fill != nullptr && size > 0) {
      workspace.check_items(static_cast<std::size_t>(size));
      line.resize(std::max(line.size(), static_cast<std::size_t>(size)), *fill);
    }
    lines.push_back(workspace.list(std::move(line)));
  }
  return workspace.iterator(std::move(lines));
}

Value slices(Workspace& workspace, const Value& input, const Arguments& arguments) {
  const Parameters p("slice", arguments, {"slices", "fill_with"});
  (void)p.need(0);
  const std::int64_t count = p.integer(0, 1);
  if (count == 0) fail("integer division or modulo by zero");
  if (count < 0) return workspace.iterator({});
  workspace.check_items(static_cast<std::size_t>(count));
  const Value* fill = p.find(1) != nullptr && !p.find(1)->is_none() ? p.find(1) : nullptr;
  const std::vector<Value> all = to_vector(workspace, input);
  const std::size_t per_slice = all.size() / static_cast<std::size_t>(count);
  const std::size_t with_extra = all.size() % static_cast<std::size_t>(count);
  std::vector<Value> out;
  std::size_t at = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const std::size_t size = per_slice + (i < with_extra);
    std::vector<Value> part(all.begin() + static_cast<std::ptrdiff_t>(at),
                            all.begin() + static_cast<std::ptrdiff_t>(at + size));
    at += size;
    if (fill != nullptr && i >= with_extra) part.push_back(*fill);
    out.push_back(workspace.list(std::move(part)));
  }
  return workspace.iterator(std::move(out));
}

constexpr NamedFilter kSequenceFilters[] = {
    {"batch", batch}, {"count", length},    {"d", default_value}, {"default", default_value},
    {"first", first}, {"items", items},     {"last", last},       {"length", length},
    {"list", list},   {"reverse", reverse}, {"slice", slices},    {"sum", sum},
};

}  // namespace

std::span<const NamedFilter> sequence_filters() {
  return kSequenceFilters;
}

}  // namespace reprise::protocol::jinja
