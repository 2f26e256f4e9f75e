#include "protocol/jinja/compare.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "protocol/jinja/error.h"
#include "protocol/jinja/iterate.h"
#include "protocol/jinja/text.h"
#include "protocol/jinja/workspace.h"

namespace reprise::protocol::jinja {
namespace {

// long double holds every int64 and every double on the machines we know; where it does not, only integers
// past 2^53 beside floats lose.
int number_order(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) {
    return a.as_int() < b.as_int() ? -1 : a.as_int() > b.as_int();
  }
  const auto wide = [](const Value& v) {
    return v.is_float() ? static_cast<long double>(v.as_double()) : static_cast<long double>(v.as_int());
  };
  return wide(a) < wide(b) ? -1 : wide(a) > wide(b);
}

bool is_nan(const Value& value) {
  return value.is_float() && std::isnan(value.as_double());
}

bool have_order(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return true;
  if (a.is_string() && b.is_string()) return true;
  if (!a.is_list() || !b.is_list()) return false;
  const auto flavor = [](const Value& v) {
    return v.list().is_tuple() ? List::Flavor::kTuple : v.list().flavor;
  };
  return flavor(a) == flavor(b) && (flavor(a) == List::Flavor::kTuple || flavor(a) == List::Flavor::kList);
}

bool compare(Workspace& workspace, const Value& a, const Value& b, std::string_view sign) {
  if (a.is_number()) {
    if (is_nan(a) || is_nan(b)) return false;
    const int order = number_order(a, b);
    return sign == "<" ? order < 0 : sign == "<=" ? order <= 0 : sign == ">" ? order > 0 : order >= 0;
  }
  if (a.is_string()) {  // UTF-8 sorts as its code points do
    workspace.work(std::min(a.as_string().size(), b.as_string().size()));
    const int order = a.as_string().compare(b.as_string());
    return sign == "<" ? order < 0 : sign == "<=" ? order <= 0 : sign == ">" ? order > 0 : order >= 0;
  }
  const auto& x = a.items();
  const auto& y = b.items();
  for (std::size_t i = 0; i < x.size() && i < y.size(); ++i) {
    if (!equals(workspace, x[i], y[i])) return compare_order(workspace, x[i], y[i], sign);
  }
  const int order = x.size() < y.size() ? -1 : x.size() > y.size();
  return sign == "<" ? order < 0 : sign == "<=" ? order <= 0 : sign == ">" ? order > 0 : order >= 0;
}

bool same_items(Workspace& workspace, const Value& a, const Value& b) {
  const auto& x = a.items();
  const auto& y = b.items();
  if (x.size() != y.size()) return false;
  const bool x_is_tuple = a.list().is_tuple();
  const bool y_is_tuple = b.list().is_tuple();
  if (x_is_tuple != y_is_tuple) return false;
  if (!x_is_tuple && a.list().flavor != b.list().flavor) return false;
  const Workspace::Level level(workspace);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!equals(workspace, x[i], y[i])) return false;
  }
  return true;
}

bool same_members(Workspace& workspace, const Dict& a, const Dict& b) {
  if (a.size() != b.size()) return false;
  const Workspace::Level level(workspace);
  for (const Dict::Entry& entry : a.entries()) {
    const Value* other = b.find(entry.key);
    if (other == nullptr || !equals(workspace, entry.value, *other)) return false;
  }
  return true;
}

int key_rank(const Value& value) {
  switch (value.kind()) {
    case ValueKind::kNone:
      return 0;
    case ValueKind::kBool:
    case ValueKind::kInt:
    case ValueKind::kFloat:
      return 1;
    case ValueKind::kString:
      return 2;
    case ValueKind::kList:
      return 3;
    case ValueKind::kUndefined:
      return 4;
    default:
      return 5;
  }
}

}  // namespace

bool is_true(const Value& value) {
  switch (value.kind()) {
    case ValueKind::kNone:
    case ValueKind::kUndefined:
      return false;
    case ValueKind::kBool:
      return value.as_bool();
    case ValueKind::kInt:
      return value.as_int() != 0;
    case ValueKind::kFloat:
      return value.as_double() != 0;
    case ValueKind::kString:
      return !value.as_string().empty();
    case ValueKind::kList:
      return !value.items().empty();
    case ValueKind::kDict:
      return value.dict().size() > 0;
    case ValueKind::kObject:
      return value.object().length().value_or(1) > 0;
  }
  return false;
}

bool equals(Workspace& workspace, const Value& a, const Value& b) {
  workspace.step();
  if (a.is_number() && b.is_number()) return !is_nan(a) && !is_nan(b) && number_order(a, b) == 0;
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case ValueKind::kNone:
    case ValueKind::kUndefined:
      return true;
    case ValueKind::kString:
      if (a.as_string().size() == b.as_string().size()) workspace.work(a.as_string().size());
      return a.as_string() == b.as_string();
    case ValueKind::kList:
      return &a.list() == &b.list() || same_items(workspace, a, b);
    case ValueKind::kDict:
      return &a.dict() == &b.dict() || same_members(workspace, a.dict(), b.dict());
    default:
      return a.identity() == b.identity();
  }
}

bool less(Workspace& workspace, const Value& a, const Value& b) {
  return compare_order(workspace, a, b, "<");
}

bool compare_order(Workspace& workspace, const Value& a, const Value& b, std::string_view sign) {
  workspace.step();
  if (a.is_undefined()) fail(a.undefined_message());
  if (b.is_undefined()) fail(b.undefined_message());
  if (!have_order(a, b)) {
    fail({"'", sign, "' not supported between instances of '", type_name(a), "' and '", type_name(b), "'"});
  }
  const Workspace::Level level(workspace);
  return compare(workspace, a, b, sign);
}

bool contains(Workspace& workspace, const Value& container, const Value& item) {
  if (container.is_string()) {
    if (!item.is_string()) {
      if (item.is_undefined()) {
        fail({"'in <string>' requires string as left operand, not Undefined: ", item.undefined_message()});
      }
      fail({"'in <string>' requires string as left operand, not ", type_name(item)});
    }
    workspace.work(container.as_string().size());
    return container.as_string().find(item.as_string()) != std::string::npos;
  }
  if (container.is_dict()) {
    check_hashable(workspace, item);
    return container.dict().find(item) != nullptr;
  }
  if (!is_iterable(container)) fail({"argument of type '", type_name(container), "' is not iterable"});
  Cursor cursor(workspace, container);
  Value each;
  while (cursor.next(each)) {
    if (is_same(each, item) || equals(workspace, each, item)) return true;
  }
  return false;
}

bool is_same(const Value& a, const Value& b) {
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case ValueKind::kNone:
    case ValueKind::kUndefined:
      return true;
    case ValueKind::kBool:
      return a.as_bool() == b.as_bool();
    case ValueKind::kInt:
      return a.as_int() == b.as_int();
    case ValueKind::kFloat:
      return false;
    case ValueKind::kString:
      return a.identity() == b.identity() || a.as_string() == b.as_string();
    default:
      return a.identity() == b.identity();
  }
}

int key_order(const Value& a, const Value& b) {
  if (const int order = key_rank(a) - key_rank(b)) return order;
  switch (key_rank(a)) {
    case 1:
      if (is_nan(a) || is_nan(b)) return static_cast<int>(is_nan(a)) - static_cast<int>(is_nan(b));
      return number_order(a, b);
    case 2:
      return a.as_string().compare(b.as_string());
    case 3: {
      const auto& x = a.items();
      const auto& y = b.items();
      for (std::size_t i = 0; i < x.size() && i < y.size(); ++i) {
        if (const int order = key_order(x[i], y[i])) return order;
      }
      return x.size() < y.size() ? -1 : x.size() > y.size();
    }
    case 5:
      return a.identity() < b.identity() ? -1 : a.identity() > b.identity();
    default:
      return 0;
  }
}

void check_hashable(Workspace& workspace, const Value& key) {
  const bool is_hashable = !key.is_dict() && (!key.is_list() || key.list().is_tuple() ||
                                              key.list().flavor == List::Flavor::kRange);
  if (!is_hashable) fail({"unhashable type: '", type_name(key), "'"});
  workspace.work(key.is_string() ? key.as_string().size() : 0);
  if (key.is_list()) {
    for (const Value& item : key.items()) check_hashable(workspace, item);
  }
}

void charge_key(Workspace& workspace, const Value& key) {
  workspace.work(key.is_string() ? key.as_string().size() : 0);
  if (key.is_list()) {
    for (const Value& item : key.items()) charge_key(workspace, item);
  }
}

}  // namespace reprise::protocol::jinja
