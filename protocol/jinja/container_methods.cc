// Methods of list, tuple and dict.
#include <algorithm>

#include "protocol/jinja/compare.h"
#include "protocol/jinja/error.h"
#include "protocol/jinja/iterate.h"
#include "protocol/jinja/methods.h"
#include "protocol/jinja/text.h"
#include "protocol/jinja/workspace.h"

namespace reprise::protocol::jinja {
namespace {

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
  const auto place = [&](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size);
  };
  for (std::int64_t i = place(p.integer(1, 0)), end = place(p.integer(2, size)); i < end; ++i) {
    if (equals(workspace, items[static_cast<std::size_t>(i)], p.need(0))) return Value(i);
  }
  std::string shown;
  append_repr(workspace, shown, p.need(0));
  fail({shown, " is not in list"});
}

Value list_copy(Workspace&, const Value& self, const Arguments& arguments) {
  const Parameters p("copy", arguments, {});
  return self;  // nothing changes a list, so it is as good as a copy
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
