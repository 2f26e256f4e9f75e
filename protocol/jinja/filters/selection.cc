// Filters that apply another filter or test to every item.
#include "protocol/jinja/attribute_path.h"
#include "protocol/jinja/attributes.h"
#include "protocol/jinja/compare.h"
#include "protocol/jinja/error.h"
#include "protocol/jinja/filters/filters.h"
#include "protocol/jinja/is_tests.h"
#include "protocol/jinja/iterate.h"
#include "protocol/jinja/text.h"
#include "protocol/jinja/workspace.h"

namespace reprise::protocol::jinja {
namespace {

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

constexpr NamedFilter kSelectionFilters[] = {
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

std::span<const NamedFilter> selection_filters() {
  return kSelectionFilters;
}

}  // namespace reprise::protocol::jinja
