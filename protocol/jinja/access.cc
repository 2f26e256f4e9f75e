#include "protocol/jinja/access.h"

#include <algorithm>

#include "protocol/jinja/builtins.h"
#include "protocol/jinja/error.h"
#include "protocol/jinja/operators.h"
#include "protocol/jinja/text.h"
#include "protocol/jinja/unicode.h"

namespace reprise::protocol::jinja {
namespace {

struct Bounds {
  std::int64_t start;
  std::int64_t stop;
  std::int64_t step;
  std::size_t count;
};

std::optional<std::int64_t> bound(const Value& value) {
  if (value.is_none()) return std::nullopt;
  if (value.is_undefined()) fail(value.undefined_message());
  if (!value.is_integral()) fail("slice indices must be integers or None or have an __index__ method");
  return value.as_int();
}

Bounds bounds_of(std::int64_t length, const Value& start, const Value& stop, const Value& step) {
  Bounds b{};
  b.step = bound(step).value_or(1);
  if (b.step == 0) fail("slice step cannot be zero");
  const bool back = b.step < 0;
  const std::int64_t low = back ? -1 : 0;
  const std::int64_t high = back ? length - 1 : length;
  const auto clamp = [&](std::optional<std::int64_t> at, std::int64_t open) {
    if (!at) return open;
    const std::int64_t from_start = *at < 0 ? *at + length : *at;
    return std::clamp(from_start, low, high);
  };
  b.start = clamp(bound(start), back ? high : low);
  b.stop = clamp(bound(stop), back ? low : high);
  const std::int64_t span = back ? b.start - b.stop : b.stop - b.start;
  // A step past the length takes one item; this also keeps -INT64_MIN out.
  const std::int64_t stride = b.step < -length - 1 || b.step > length + 1 ? length + 1
                              : back                                      ? -b.step
                                                                          : b.step;
  b.step = back ? -stride : stride;
  b.count = span > 0 ? static_cast<std::size_t>((span - 1) / stride + 1) : 0;
  return b;
}

Value slice_text(Workspace& workspace, const Text& text, const Bounds& b) {
  workspace.work(text.text.size());
  if (b.step == 1) {
    if (b.count == 0) return workspace.text("", text.safe);
    const auto first = static_cast<std::size_t>(b.start);
    const std::size_t from = text.is_ascii() ? first : byte_offset(text.text, first);
    const std::string_view rest = std::string_view(text.text).substr(from);
    return workspace.text(std::string(rest.substr(0, text.is_ascii() ? b.count : byte_offset(rest, b.count))),
                          text.safe);
  }
  const std::u32string characters = to_code_points(text.text);
  std::string out;
  for (std::size_t i = 0; i < b.count; ++i) {
    append_utf8(out, characters[static_cast<std::size_t>(b.start + static_cast<std::int64_t>(i) * b.step)]);
  }
  return workspace.text(std::move(out), text.safe);
}

}  // namespace

bool is_iterable(const Value& value) {
  switch (value.kind()) {
    case ValueKind::kUndefined:
    case ValueKind::kString:
    case ValueKind::kList:
    case ValueKind::kDict:
      return true;
    case ValueKind::kObject:
      return value.object().is_iterator();
    default:
      return false;
  }
}

Cursor::Cursor(Workspace& workspace, Value value) : workspace_(workspace), value_(std::move(value)) {
  if (!is_iterable(value_)) fail({"'", type_name(value_), "' object is not iterable"});
}

bool Cursor::next(Value& out) {
  switch (value_.kind()) {
    case ValueKind::kString: {
      const std::string& text = value_.as_string();
      if (at_ >= text.size()) return false;
      const std::size_t start = at_;
      next_code_point(text, at_);
      out = workspace_.text(text.substr(start, at_ - start));
      return true;
    }
    case ValueKind::kList:
      workspace_.step();
      if (at_ >= value_.items().size()) return false;
      out = value_.items()[at_++];
      return true;
    case ValueKind::kDict:
      workspace_.step();
      if (at_ >= value_.dict().size()) return false;
      out = value_.dict().entries()[at_++].key;
      return true;
    case ValueKind::kObject: {
      workspace_.step();
      std::optional<Value> item = value_.object().next(workspace_);
      if (!item) return false;
      out = *std::move(item);
      return true;
    }
    default:
      return false;
  }
}

std::optional<std::size_t> Cursor::size() const {
  return length_of(value_);
}

std::vector<Value> to_vector(Workspace& workspace, const Value& value) {
  Cursor cursor(workspace, value);
  if (value.is_list()) {
    workspace.work(value.items().size() * sizeof(Value));
    return value.items();
  }
  std::vector<Value> items;
  if (const auto size = cursor.size()) {
    workspace.check_items(*size);
    items.reserve(*size);
  }
  Value item;
  while (cursor.next(item)) {
    workspace.check_items(items.size() + 1);
    items.push_back(std::move(item));
  }
  return items;
}

std::optional<std::size_t> length_of(const Value& value) {
  switch (value.kind()) {
    case ValueKind::kUndefined:
      return 0;
    case ValueKind::kString:
      return value.text().code_points;
    case ValueKind::kList:
      return value.items().size();
    case ValueKind::kDict:
      return value.dict().size();
    case ValueKind::kObject:
      return value.object().length();
    default:
      return std::nullopt;
  }
}

std::optional<Value> item_at(Workspace& workspace, const Value& value, std::int64_t index) {
  const auto length = static_cast<std::int64_t>(*length_of(value));
  if (index < 0) index += length;
  if (index < 0 || index >= length) return std::nullopt;
  if (value.is_list()) return value.items()[static_cast<std::size_t>(index)];
  const Text& text = value.text();
  std::size_t at = static_cast<std::size_t>(index);
  if (!text.is_ascii()) {
    workspace.work(text.text.size());
    at = byte_offset(text.text, at);
  }
  return workspace.text(text.text.substr(at, character_bytes(text.text[at])), text.safe);
}

Value slice(Workspace& workspace, const Value& value, const Value& start, const Value& stop,
            const Value& step) {
  const Bounds b = bounds_of(static_cast<std::int64_t>(*length_of(value)), start, stop, step);
  if (value.is_string()) return slice_text(workspace, value.text(), b);
  std::vector<Value> items;
  items.reserve(b.count);
  for (std::size_t i = 0; i < b.count; ++i) {
    items.push_back(value.items()[static_cast<std::size_t>(b.start + static_cast<std::int64_t>(i) * b.step)]);
  }
  const List::Flavor flavor = value.list().is_tuple() ? List::Flavor::kTuple : value.list().flavor;
  return workspace.list(std::move(items), flavor);
}

namespace {

class BoundMethod final : public Object {
 public:
  BoundMethod(Value self, Method method, std::string name)
      : self_(std::move(self)), method_(method), name_(std::move(name)) {}

  std::string type_name() const override { return "builtin_function_or_method"; }
  std::string repr(Workspace&) const override {
    return "<built-in method " + name_ + " of " + jinja::type_name(self_) + " object>";
  }
  bool is_callable() const override { return true; }
  Value call(Workspace& workspace, const Arguments& arguments) override {
    return method_(workspace, self_, arguments);
  }
  int depth() const override { return self_.depth() + 1; }

 private:
  Value self_;
  Method method_;
  std::string name_;
};

Value undefined_attribute(const Value& value, std::string_view name) {
  return Value::undefined(cat({"'", describe(value), "' has no attribute ", string_repr(shown_part(name))}));
}

Value unsafe_attribute(const Value& value, std::string_view name) {
  return Value::undefined(cat({"access to attribute ", string_repr(shown_part(name)), " of '",
                               type_name(value), "' object is unsafe."}));
}

bool is_forbidden(const Value& value, std::string_view name) {
  if (value.is_list() && value.list().flavor == List::Flavor::kList) return changes_list(name);
  return value.is_dict() && changes_dict(name);
}

// The names that every Python object has; they exist, and are all unsafe.
bool is_dunder(std::string_view name) {
  for (const std::string_view known : {"__class__", "__init__", "__doc__", "__dir__", "__eq__", "__hash__",
                                       "__module__", "__repr__", "__str__", "__subclasshook__", "__new__",
                                       "__reduce__", "__setattr__", "__getattribute__", "__delattr__"}) {
    if (name == known) return true;
  }
  return false;
}

std::optional<Value> real_attribute(Workspace& workspace, const Value& value, std::string_view name) {
  if (value.is_object()) {
    if (auto found = value.object().attribute(workspace, name)) return found;
  }
  if (value.is_list() && value.list().flavor == List::Flavor::kGroup) {
    if (name == "grouper") return value.items()[0];
    if (name == "list") return value.items()[1];
  }
  if (is_forbidden(value, name) || is_dunder(name)) return unsafe_attribute(value, name);
  return find_method(workspace, value, name);
}

// value[key] where it is there.
std::optional<Value> real_item(Workspace& workspace, const Value& value, const Value& key) {
  if (value.is_dict()) {
    const bool is_key = !key.is_dict() && (!key.is_list() || key.list().is_tuple());
    if (is_key) charge_key(workspace, key);
    const Value* found = is_key ? value.dict().find(key) : nullptr;
    if (found != nullptr) return *found;
  } else if ((value.is_string() || (value.is_list() && !value.list().is_view())) && key.is_integral()) {
    return item_at(workspace, value, key.as_int());
  }
  return std::nullopt;
}

}  // namespace

std::optional<Value> find_method(Workspace& workspace, const Value& value, std::string_view name) {
  Method method = nullptr;
  if (value.is_string()) {
    method = find_string_method(name);
  } else if (value.is_dict()) {
    method = find_dict_method(name);
  } else if (value.is_list() && !value.list().is_view()) {
    method = find_list_method(name);
  }
  if (method == nullptr) return std::nullopt;
  workspace.step();
  return Value(std::shared_ptr<Object>(std::make_shared<BoundMethod>(value, method, std::string(name))));
}

Value get_attribute(Workspace& workspace, const Value& value, std::string_view name) {
  if (value.is_undefined()) fail(value.undefined_message());
  if (auto found = real_attribute(workspace, value, name)) return *std::move(found);
  if (value.is_dict()) {
    workspace.work(name.size());
    if (const Value* member = value.dict().find(name)) return *member;
  }
  return undefined_attribute(value, name);
}

Value get_item(Workspace& workspace, const Value& value, const Value& key) {
  if (value.is_undefined()) fail(value.undefined_message());
  if (auto found = real_item(workspace, value, key)) return *std::move(found);
  if (key.is_string()) {
    if (auto found = real_attribute(workspace, value, key.as_string())) return *std::move(found);
    return undefined_attribute(value, key.as_string());
  }
  std::string shown;
  append_repr(workspace, shown, key);
  return Value::undefined(cat({describe(value), " has no element ", shown_part(shown)}));
}

}  // namespace reprise::protocol::jinja
