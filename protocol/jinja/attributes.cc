#include "protocol/jinja/attributes.h"

#include "protocol/jinja/compare.h"
#include "protocol/jinja/error.h"
#include "protocol/jinja/iterate.h"
#include "protocol/jinja/methods.h"
#include "protocol/jinja/text.h"
#include "protocol/jinja/workspace.h"

namespace reprise::protocol::jinja {
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
