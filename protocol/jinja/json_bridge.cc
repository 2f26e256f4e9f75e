#include "protocol/jinja/json_bridge.h"

#include <algorithm>

#include "protocol/jinja/compare.h"
#include "protocol/jinja/error.h"
#include "protocol/jinja/text.h"
#include "protocol/jinja/workspace.h"

namespace reprise::protocol::jinja {
namespace {

class Writer {
 public:
  Writer(Workspace& workspace, std::string& out, const JsonStyle& style)
      : workspace_(workspace), out_(out), style_(style) {}

  void value(const Value& value, std::size_t level) {
    workspace_.step();
    workspace_.check_text(out_.size());
    switch (value.kind()) {
      case ValueKind::kNone:
        out_ += "null";
        return;
      case ValueKind::kBool:
        out_ += value.as_bool() ? "true" : "false";
        return;
      case ValueKind::kInt:
        append_integer(out_, value.as_int());
        return;
      case ValueKind::kFloat:
        append_json_double(out_, value.as_double(), style_.python_numbers);
        return;
      case ValueKind::kString:
        workspace_.work(value.as_string().size());
        append_json_string(out_, value.as_string(), style_.ensure_ascii);
        return;
      case ValueKind::kList:
        if (value.list().is_tuple() || value.list().flavor == List::Flavor::kList) {
          return array(value.items(), level);
        }
        break;
      case ValueKind::kDict:
        return object(value.dict(), level);
      case ValueKind::kUndefined:
        fail({"Object of type Undefined is not JSON serializable: ", value.undefined_message()});
      default:
        break;
    }
    fail({"Object of type ", type_name(value), " is not JSON serializable"});
  }

 private:
  void array(const std::vector<Value>& items, std::size_t level) {
    const Workspace::Level deeper(workspace_);
    out_ += '[';
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      new_line(level + 1);
      value(items[i], level + 1);
    }
    if (!items.empty()) new_line(level);
    out_ += ']';
  }

  void object(const Dict& dict, std::size_t level) {
    const Workspace::Level deeper(workspace_);
    std::vector<const Dict::Entry*> order;
    for (const Dict::Entry& entry : dict.entries()) order.push_back(&entry);
    if (style_.sort_keys) {
      for (std::size_t i = 1; i < order.size(); ++i) (void)less(workspace_, order[i - 1]->key, order[i]->key);
      std::stable_sort(order.begin(), order.end(),
                       [](const auto* a, const auto* b) { return key_order(a->key, b->key) < 0; });
    }
    out_ += '{';
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      new_line(level + 1);
      key(order[i]->key);
      out_ += style_.key_separator;
      value(order[i]->value, level + 1);
    }
    if (!order.empty()) new_line(level);
    out_ += '}';
  }

  void key(const Value& key) {
    if (key.is_string()) return value(key, 0);
    if (!key.is_none() && !key.is_number()) {
      fail({"keys must be str, int, float, bool or None, not ", type_name(key)});
    }
    out_ += '"';
    value(key, 0);
    out_ += '"';
  }

  void new_line(std::size_t level) {
    if (!style_.indent) return;
    out_ += '\n';
    workspace_.check_text(out_.size() + level * style_.indent->size());
    for (std::size_t i = 0; i < level; ++i) out_ += *style_.indent;
  }

  Workspace& workspace_;
  std::string& out_;
  const JsonStyle& style_;
};

}  // namespace

Value from_json(Workspace& workspace, const Json& json) {
  const Workspace::Level level(workspace);
  switch (json.kind()) {
    case Json::Kind::kNull:
      return Value();
    case Json::Kind::kBool:
      return Value(json.as_bool());
    case Json::Kind::kInt:
      return Value(json.as_int());
    case Json::Kind::kDouble:
      return Value(json.as_double());
    case Json::Kind::kString:
      return workspace.text(json.as_string());
    case Json::Kind::kArray: {
      workspace.check_items(json.size());
      std::vector<Value> items;
      items.reserve(json.size());
      for (const Json& item : json.as_array()) items.push_back(from_json(workspace, item));
      return workspace.list(std::move(items));
    }
    case Json::Kind::kObject: {
      workspace.check_items(json.size());
      auto dict = std::make_shared<Dict>();
      for (const Json::Member& member : json.as_object()) {
        dict->set(workspace.text(member.key), from_json(workspace, member.value));
      }
      return workspace.dict(std::move(dict));
    }
  }
  return Value();
}

std::string to_json(Workspace& workspace, const Value& value, const JsonStyle& style) {
  std::string out;
  Writer(workspace, out, style).value(value, 0);
  return out;
}

}  // namespace reprise::protocol::jinja
