// Filters of lists and items, and tests.
#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "protocol/jinja/access.h"
#include "protocol/jinja/builtins.h"
#include "protocol/jinja/error.h"
#include "protocol/jinja/operators.h"
#include "protocol/jinja/text.h"
#include "protocol/jinja/unicode.h"

namespace reprise::protocol::jinja {
namespace {

// The attribute argument of filters: 'function.name' or 'parts.0', looked up part by part.
class AttributePath {
 public:
  /// None, or null, is the path to the value itself.
  AttributePath(Workspace& workspace, const Value* attribute);

  /// `fallback`, if not null, takes the place of what is undefined on the way.
  Value get(Workspace& workspace, Value item, const Value* fallback = nullptr) const;

 private:
  std::vector<Value> parts_;
};

AttributePath::AttributePath(Workspace& workspace, const Value* attribute) {
  if (attribute == nullptr || attribute->is_none()) return;
  if (!attribute->is_string()) {
    parts_.push_back(*attribute);
    return;
  }
  std::string_view rest = attribute->as_string();
  workspace.work(rest.size());
  for (;;) {
    const std::size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    const bool is_number = !part.empty() && part.find_first_not_of("0123456789") == part.npos;
    const auto number = is_number ? parse_integer(part, 10) : std::nullopt;
    parts_.push_back(number ? Value(*number) : workspace.text(std::string(part)));
    workspace.check_items(parts_.size());
    if (dot == rest.npos) break;
    rest.remove_prefix(dot + 1);
  }
}

Value AttributePath::get(Workspace& workspace, Value item, const Value* fallback) const {
  for (const Value& part : parts_) {
    item = get_item(workspace, item, part);
    if (fallback != nullptr && !fallback->is_none() && item.is_undefined()) item = *fallback;
  }
  return item;
}

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

struct Keyed {
  Value key;
  Value item;
};

Value fold_case(Workspace& workspace, Value value, bool case_sensitive) {
  if (case_sensitive || !value.is_string()) return value;
  return workspace.text(to_lower(value.as_string()));
}

// Stable, and of no surprise when the order is none, as with NaN: a merge sort of our own.
void sort_keyed(Workspace& workspace, std::vector<Keyed>& items, bool backwards) {
  const auto goes_before = [&](const Keyed& a, const Keyed& b) {
    return backwards ? less(workspace, b.key, a.key) : less(workspace, a.key, b.key);
  };
  std::vector<Keyed> from = std::move(items);
  std::vector<Keyed> to(from.size());
  const std::size_t size = from.size();
  for (std::size_t width = 1; width < size; width *= 2) {
    for (std::size_t start = 0; start < size; start += 2 * width) {
      const std::size_t middle = std::min(start + width, size);
      const std::size_t end = std::min(start + 2 * width, size);
      std::size_t left = start;
      std::size_t right = middle;
      for (std::size_t at = start; at < end; ++at) {
        const bool takes_right = left >= middle || (right < end && goes_before(from[right], from[left]));
        to[at] = std::move(from[takes_right ? right++ : left++]);
      }
    }
    std::swap(from, to);
  }
  items = std::move(from);
}

// The key of `sort` may have several parts: 'a,b.c'.
class SortKey {
 public:
  SortKey(Workspace& workspace, const Value* attribute, bool case_sensitive)
      : case_sensitive_(case_sensitive) {
    if (attribute == nullptr || !attribute->is_string()) {
      paths_.emplace_back(workspace, attribute);
      return;
    }
    std::string_view rest = attribute->as_string();
    for (;;) {
      const std::size_t comma = rest.find(',');
      const Value part = workspace.text(std::string(rest.substr(0, comma)));
      paths_.emplace_back(workspace, &part);
      workspace.check_items(paths_.size());
      if (comma == rest.npos) break;
      rest.remove_prefix(comma + 1);
    }
  }

  Value of(Workspace& workspace, const Value& item) const {
    std::vector<Value> parts;
    for (const AttributePath& path : paths_) {
      parts.push_back(fold_case(workspace, path.get(workspace, item), case_sensitive_));
    }
    return workspace.list(std::move(parts));
  }

 private:
  std::vector<AttributePath> paths_;
  bool case_sensitive_;
};

std::vector<Value> items_of(std::vector<Keyed> keyed) {
  std::vector<Value> items;
  items.reserve(keyed.size());
  for (Keyed& each : keyed) items.push_back(std::move(each.item));
  return items;
}

Value sort(Workspace& workspace, const Value& input, const Arguments& arguments) {
  const Parameters p("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  const SortKey key(workspace, p.find(2), p.truth(1, false));
  std::vector<Keyed> keyed;
  for (const Value& item : to_vector(workspace, input)) keyed.push_back({key.of(workspace, item), item});
  sort_keyed(workspace, keyed, p.truth(0, false));
  return workspace.list(items_of(std::move(keyed)));
}

Value dictsort(Workspace& workspace, const Value& input, const Arguments& arguments) {
  const Parameters p("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  const std::string_view by = p.text(1, "key");
  if (by != "key" && by != "value") fail("You can only sort by either \"key\" or \"value\"");
  if (input.is_undefined()) fail(input.undefined_message());
  if (!input.is_dict()) fail({"dictsort works on dicts, not on ", type_name(input)});
  std::vector<Keyed> keyed;
  for (const Dict::Entry& entry : input.dict().entries()) {
    keyed.push_back({fold_case(workspace, by == "key" ? entry.key : entry.value, p.truth(0, false)),
                     workspace.tuple({entry.key, entry.value})});
  }
  sort_keyed(workspace, keyed, p.truth(2, false));
  return workspace.list(items_of(std::move(keyed)));
}

Value unique(Workspace& workspace, const Value& input, const Arguments& arguments) {
  const Parameters p("unique", arguments, {"case_sensitive", "attribute"});
  const AttributePath path(workspace, p.find(1));
  const auto before = [](const Value& a, const Value& b) { return key_order(a, b) < 0; };
  std::set<Value, decltype(before)> seen(before);
  std::vector<Value> out;
  for (const Value& item : to_vector(workspace, input)) {
    Value key = fold_case(workspace, path.get(workspace, item), p.truth(0, false));
    check_hashable(workspace, key);
    if (seen.insert(std::move(key)).second) out.push_back(item);
  }
  return workspace.iterator(std::move(out));
}

Value groupby(Workspace& workspace, const Value& input, const Arguments& arguments) {
  const Parameters p("groupby", arguments, {"attribute", "default", "case_sensitive"});
  const AttributePath path(workspace, &p.need(0));
  const bool case_sensitive = p.truth(2, false);
  std::vector<Keyed> keyed;
  for (const Value& item : to_vector(workspace, input)) {
    keyed.push_back({fold_case(workspace, path.get(workspace, item, p.find(1)), case_sensitive), item});
  }
  sort_keyed(workspace, keyed, false);
  std::vector<Value> groups;
  for (std::size_t at = 0; at < keyed.size();) {
    const std::size_t start = at;
    std::vector<Value> members;
    while (at < keyed.size() && equals(workspace, keyed[at].key, keyed[start].key)) {
      members.push_back(keyed[at++].item);
    }
    if (at == start) members.push_back(keyed[at++].item);  // NaN, which equals nothing
    const Value name = case_sensitive ? keyed[start].key : path.get(workspace, keyed[start].item, p.find(1));
    groups.push_back(workspace.list({name, workspace.list(std::move(members))}, List::Flavor::kGroup));
  }
  return workspace.list(std::move(groups));
}

Value extreme(Workspace& workspace, const Value& input, const Arguments& arguments, bool wants_most) {
  const Parameters p(wants_most ? "max" : "min", arguments, {"case_sensitive", "attribute"});
  const AttributePath path(workspace, p.find(1));
  Cursor cursor(workspace, input);
  Value best;
  if (!cursor.next(best)) return Value::undefined("No aggregated item, sequence was empty.");
  const auto key_of = [&](const Value& v) {
    return fold_case(workspace, path.get(workspace, v), p.truth(0, false));
  };
  Value best_key = key_of(best);
  Value item;
  while (cursor.next(item)) {
    Value key = key_of(item);
    if (wants_most ? less(workspace, best_key, key) : less(workspace, key, best_key)) {
      best = item;
      best_key = std::move(key);
    }
  }
  return best;
}

const std::string& name_of(const Value& value, const char* what) {
  if (!value.is_string()) fail({"the name of a ", what, " must be a string"});
  return value.as_string();
}

Value map(Workspace& workspace, const Value& input, const Arguments& arguments) {
  const Workspace::Level level(workspace);  // map('map', 'map', …)
  std::vector<Value> out;
  if (arguments.positional.empty()) {
    const Parameters p("map", arguments, {"attribute", "default"});
    if (p.find(0) == nullptr) fail("map requires a filter argument");
    if (!is_true(input)) return workspace.iterator({});
    const AttributePath path(workspace, p.find(0));
    for (const Value& item : to_vector(workspace, input)) {
      out.push_back(path.get(workspace, item, p.find(1)));
    }
    return workspace.iterator(std::move(out));
  }
  const std::string& name = name_of(arguments.positional[0], "filter");
  const Filter filter = find_filter(name);
  if (!is_true(input)) return workspace.iterator({});
  if (filter == nullptr) fail({"No filter named '", name, "'."});
  const Arguments rest{{arguments.positional.begin() + 1, arguments.positional.end()}, arguments.named};
  for (const Value& item : to_vector(workspace, input)) out.push_back(filter(workspace, item, rest));
  return workspace.iterator(std::move(out));
}

Value select(Workspace& workspace, const Value& input, const Arguments& arguments, bool by_attribute,
             bool wanted) {
  std::size_t used = 0;
  if (by_attribute && arguments.positional.empty()) fail("Missing parameter for attribute name");
  const AttributePath path(workspace, by_attribute ? &arguments.positional[used++] : nullptr);
  IsTest test = nullptr;
  if (arguments.positional.size() > used) {
    const std::string& name = name_of(arguments.positional[used++], "test");
    test = find_is_test(name);
    if (test == nullptr) fail({"No test named '", name, "'."});
  }
  const Arguments rest{
      {arguments.positional.begin() + static_cast<std::ptrdiff_t>(used), arguments.positional.end()},
      arguments.named};
  if (!is_true(input)) return workspace.iterator({});
  std::vector<Value> out;
  for (const Value& item : to_vector(workspace, input)) {
    const Value subject = path.get(workspace, item);
    if ((test != nullptr ? test(workspace, subject, rest) : is_true(subject)) == wanted) out.push_back(item);
  }
  return workspace.iterator(std::move(out));
}

Value attribute(Workspace& workspace, const Value& input, const Arguments& arguments) {
  const Parameters p("attr", arguments, {"name"});
  const std::string& name = p.need_text(0);
  if (input.is_undefined()) fail(input.undefined_message());
  if (input.is_dict() && !find_method(workspace, input, name)) {
    return Value::undefined(cat({"'dict object' has no attribute ", string_repr(shown_part(name))}));
  }
  return get_attribute(workspace, input, name);
}

constexpr NamedFilter kFilters[] = {
    {"batch", batch},
    {"count", length},
    {"d", default_value},
    {"default", default_value},
    {"first", first},
    {"items", items},
    {"last", last},
    {"length", length},
    {"list", list},
    {"reverse", reverse},
    {"slice", slices},
    {"sum", sum},
    {"dictsort", dictsort},
    {"groupby", groupby},
    {"max", [](Workspace& w, const Value& v, const Arguments& a) { return extreme(w, v, a, true); }},
    {"min", [](Workspace& w, const Value& v, const Arguments& a) { return extreme(w, v, a, false); }},
    {"sort", sort},
    {"unique", unique},
    {"attr", attribute},
    {"map", map},
    {"reject",
     [](Workspace& w, const Value& v, const Arguments& a) { return select(w, v, a, false, false); }},
    {"rejectattr",
     [](Workspace& w, const Value& v, const Arguments& a) { return select(w, v, a, true, false); }},
    {"select", [](Workspace& w, const Value& v, const Arguments& a) { return select(w, v, a, false, true); }},
    {"selectattr",
     [](Workspace& w, const Value& v, const Arguments& a) { return select(w, v, a, true, true); }},
};
}  // namespace

Filter find_filter(std::string_view name) {
  static const std::map<std::string_view, Filter> all = [] {
    std::map<std::string_view, Filter> filters;
    for (const auto table : {std::span<const NamedFilter>(kFilters), text_filters()}) {
      for (const NamedFilter& filter : table) filters.emplace(filter.name, filter.filter);
    }
    return filters;
  }();
  const auto found = all.find(name);
  return found == all.end() ? nullptr : found->second;
}

namespace {

void none(const Arguments& arguments) {
  (void)Parameters("test", arguments, {});
}

const Value& one(const Parameters& p) {
  return p.need(0);
}

bool remainder_is(Workspace& workspace, const Value& input, const Value& divisor, std::int64_t wanted) {
  return equals(workspace, apply(workspace, BinaryOperator::kModulo, input, divisor), Value(wanted));
}

bool all_cased(Workspace& workspace, const Value& input, const Arguments& arguments,
               std::string_view method) {
  return is_true(find_string_method(method)(workspace, as_text(workspace, input), arguments));
}

bool is_sequence(const Value& value) {
  return value.is_undefined() || value.is_string() || value.is_dict() ||
         (value.is_list() && !value.list().is_view());
}

template <bool (Value::*property)() const>
bool has(Workspace&, const Value& input, const Arguments& arguments) {
  none(arguments);
  return (input.*property)();
}

bool equal_to(Workspace& w, const Value& v, const Arguments& a) {
  return equals(w, v, one(Parameters("eq", a, {"other"})));
}

bool not_equal_to(Workspace& w, const Value& v, const Arguments& a) {
  return !equals(w, v, one(Parameters("ne", a, {"other"})));
}

template <char sign, bool or_equal>
bool ordered(Workspace& w, const Value& v, const Arguments& a) {
  const char text[] = {sign, or_equal ? '=' : '\0', '\0'};
  return compare_order(w, v, one(Parameters("comparison", a, {"other"})), text);
}

struct NamedTest {
  std::string_view name;
  IsTest test;
};

constexpr NamedTest kTests[] = {
    {"!=", not_equal_to},
    {"<", ordered<'<', false>},
    {"<=", ordered<'<', true>},
    {"==", equal_to},
    {">", ordered<'>', false>},
    {">=", ordered<'>', true>},
    {"boolean", has<&Value::is_bool>},
    {"callable",
     [](Workspace&, const Value& v, const Arguments& a) {
       none(a);
       return v.is_undefined() || (v.is_object() && v.object().is_callable());
     }},
    {"defined", [](Workspace&, const Value& v, const Arguments& a) { return none(a), !v.is_undefined(); }},
    {"divisibleby",
     [](Workspace& w, const Value& v, const Arguments& a) {
       return remainder_is(w, v, one(Parameters("divisibleby", a, {"num"})), 0);
     }},
    {"eq", equal_to},
    {"equalto", equal_to},
    {"escaped", has<&Value::is_safe>},
    {"even", [](Workspace& w, const Value& v,
                const Arguments& a) { return none(a), remainder_is(w, v, Value(std::int64_t{2}), 0); }},
    {"false",
     [](Workspace&, const Value& v, const Arguments& a) { return none(a), v.is_bool() && !v.as_bool(); }},
    {"filter",
     [](Workspace& w, const Value& v, const Arguments& a) {
       return none(a), check_hashable(w, v), v.is_string() && find_filter(v.as_string()) != nullptr;
     }},
    {"float", has<&Value::is_float>},
    {"ge", ordered<'>', true>},
    {"greaterthan", ordered<'>', false>},
    {"gt", ordered<'>', false>},
    {"in", [](Workspace& w, const Value& v,
              const Arguments& a) { return contains(w, one(Parameters("in", a, {"seq"})), v); }},
    {"integer", has<&Value::is_int>},
    {"iterable", [](Workspace&, const Value& v, const Arguments& a) { return none(a), is_iterable(v); }},
    {"le", ordered<'<', true>},
    {"lessthan", ordered<'<', false>},
    {"lower", [](Workspace& w, const Value& v, const Arguments& a) { return all_cased(w, v, a, "islower"); }},
    {"lt", ordered<'<', false>},
    {"mapping", has<&Value::is_dict>},
    {"ne", not_equal_to},
    {"none", has<&Value::is_none>},
    {"number", has<&Value::is_number>},
    {"odd", [](Workspace& w, const Value& v,
               const Arguments& a) { return none(a), remainder_is(w, v, Value(std::int64_t{2}), 1); }},
    {"sameas", [](Workspace&, const Value& v,
                  const Arguments& a) { return is_same(v, one(Parameters("sameas", a, {"other"}))); }},
    {"sequence", [](Workspace&, const Value& v, const Arguments& a) { return none(a), is_sequence(v); }},
    {"string", has<&Value::is_string>},
    {"test",
     [](Workspace& w, const Value& v, const Arguments& a) {
       return none(a), check_hashable(w, v), v.is_string() && find_is_test(v.as_string()) != nullptr;
     }},
    {"true",
     [](Workspace&, const Value& v, const Arguments& a) { return none(a), v.is_bool() && v.as_bool(); }},
    {"undefined", has<&Value::is_undefined>},
    {"upper", [](Workspace& w, const Value& v, const Arguments& a) { return all_cased(w, v, a, "isupper"); }},
};

}  // namespace

IsTest find_is_test(std::string_view name) {
  for (const NamedTest& known : kTests) {
    if (known.name == name) return known.test;
  }
  return nullptr;
}

}  // namespace reprise::protocol::jinja
