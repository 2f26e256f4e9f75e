#include "protocol/jinja/value.h"

#include <algorithm>

#include "protocol/jinja/compare.h"
#include "protocol/jinja/error.h"
#include "protocol/jinja/unicode.h"
#include "protocol/jinja/workspace.h"

namespace reprise::protocol::jinja {
namespace {

constexpr std::size_t kScanned = 8;  // members of a dict that are found by scanning

int depth_over(const std::vector<Value>& items) {
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  return depth + 1;
}

}  // namespace

Value Value::undefined(std::string message) {
  Value value;
  value.kind_ = ValueKind::kUndefined;
  value.shared_ = std::make_shared<const UndefinedNote>(UndefinedNote{std::move(message)});
  return value;
}

Value Value::constant(std::string text) {
  return Value(std::make_shared<const Text>(std::move(text)));
}

const void* Value::identity() const {
  return is_undefined() ? nullptr : shared_.get();
}

int Value::depth() const {
  switch (kind()) {
    case ValueKind::kList:
      return list().depth;
    case ValueKind::kDict:
      return dict().depth();
    case ValueKind::kObject:
      return object().depth();
    default:
      return 0;
  }
}

Charge::Charge(Workspace& workspace, std::size_t bytes) : workspace_(&workspace), bytes_(bytes) {
  workspace.take_memory(bytes);
}

Charge::~Charge() {
  if (workspace_ != nullptr) workspace_->give_memory(bytes_);
}

Text::Text(std::string t, bool s) : text(std::move(t)), code_points(count_code_points(text)), safe(s) {}

Text::Text(Workspace& workspace, std::string t, bool s)
    : text(std::move(t)),
      code_points(count_code_points(text)),
      safe(s),
      charge_(workspace, sizeof(Text) + text.capacity()) {}

List::List(std::vector<Value> i, Flavor f) : items(std::move(i)), flavor(f), depth(depth_over(items)) {}

List::List(Workspace& workspace, std::vector<Value> i, Flavor f)
    : items(std::move(i)),
      flavor(f),
      depth(depth_over(items)),
      charge_(workspace, sizeof(List) + items.capacity() * sizeof(Value)) {}

bool Dict::Before::operator()(const Value& a, const Value& b) const {
  return key_order(a, b) < 0;
}

void Dict::set(Value key, Value value) {
  depth_ = std::max(depth_, 1 + std::max(key.depth(), value.depth()));
  if (const Value* known = find(key)) {
    const_cast<Value&>(*known) = std::move(value);
    return;
  }
  entries_.push_back({std::move(key), std::move(value)});
  if (entries_.size() <= kScanned) return;
  if (places_.empty()) {
    for (std::size_t i = 0; i < entries_.size(); ++i) places_.emplace(entries_[i].key, i);
  } else {
    places_.emplace(entries_.back().key, entries_.size() - 1);
  }
}

const Value* Dict::find(const Value& key) const {
  if (key.is_string() && places_.empty()) return find(std::string_view(key.as_string()));
  if (!places_.empty()) {
    const auto place = places_.find(key);
    return place == places_.end() ? nullptr : &entries_[place->second].value;
  }
  for (const Entry& entry : entries_) {
    if (key_order(entry.key, key) == 0) return &entry.value;
  }
  return nullptr;
}

const Value* Dict::find(std::string_view key) const {
  if (!places_.empty()) return find(Value::constant(std::string(key)));
  for (const Entry& entry : entries_) {
    if (entry.key.is_string() && entry.key.as_string() == key) return &entry.value;
  }
  return nullptr;
}

void Dict::charge(Workspace& workspace) {
  constexpr std::size_t kPlaceBytes = 80;  // of a node of the map
  charge_.emplace(workspace,
                  sizeof(Dict) + entries_.capacity() * sizeof(Entry) + places_.size() * kPlaceBytes);
}

std::string Object::repr(Workspace&) const {
  return cat({"<", type_name(), ">"});
}

Value Object::call(Workspace&, const Arguments&) {
  fail({"'", type_name(), "' object is not callable"});
}

}  // namespace reprise::protocol::jinja
