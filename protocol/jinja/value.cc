#include "protocol/jinja/value.h"

#include <algorithm>

#include "protocol/jinja/error.h"
#include "protocol/jinja/operators.h"
#include "protocol/jinja/unicode.h"

namespace reprise::protocol::jinja {
namespace {

constexpr std::size_t kScanned = 8;  // larger dicts use a map

int depth_over(const std::vector<Value>& items) {
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  return depth + 1;
}

[[noreturn]] void fail_limit(std::string reason) {
  throw Failure(TemplateError::Kind::kLimit, std::move(reason));
}

void check_depth(int depth) {
  if (depth > kMaxValueDepth) {
    fail_limit("a value is nested deeper than " + std::to_string(kMaxValueDepth) + " levels");
  }
}

class Iterator final : public Object {
 public:
  Iterator(Value list) : list_(std::move(list)) {}

  std::string type_name() const override { return "generator"; }
  bool is_iterator() const override { return true; }
  std::optional<Value> next(Workspace&) override {
    if (at_ >= list_.items().size()) return std::nullopt;
    return list_.items()[at_++];
  }
  int depth() const override { return list_.depth(); }

 private:
  Value list_;
  std::size_t at_ = 0;
};

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
  if (index_.empty()) {
    for (std::size_t i = 0; i < entries_.size(); ++i) index_.emplace(entries_[i].key, i);
  } else {
    index_.emplace(entries_.back().key, entries_.size() - 1);
  }
}

const Value* Dict::find(const Value& key) const {
  if (key.is_string() && index_.empty()) return find(std::string_view(key.as_string()));
  if (!index_.empty()) {
    const auto found = index_.find(key);
    return found == index_.end() ? nullptr : &entries_[found->second].value;
  }
  for (const Entry& entry : entries_) {
    if (key_order(entry.key, key) == 0) return &entry.value;
  }
  return nullptr;
}

const Value* Dict::find(std::string_view key) const {
  if (!index_.empty()) return find(Value::constant(std::string(key)));
  for (const Entry& entry : entries_) {
    if (entry.key.is_string() && entry.key.as_string() == key) return &entry.value;
  }
  return nullptr;
}

void Dict::charge(Workspace& workspace) {
  constexpr std::size_t kIndexNodeBytes = 80;  // per map node
  charge_.emplace(workspace,
                  sizeof(Dict) + entries_.capacity() * sizeof(Entry) + index_.size() * kIndexNodeBytes);
}

std::string Object::repr(Workspace&) const {
  return cat({"<", type_name(), ">"});
}

Value Object::call(Workspace&, const Arguments&) {
  fail({"'", type_name(), "' object is not callable"});
}

Workspace::~Workspace() {
  // All objects stay alive until each is cleared, so destruction never recurses deeply.
  for (const auto& object : kept_) object->clear();
}

void Workspace::check_text(std::size_t bytes) const {
  if (bytes > limits_.text_bytes) {
    fail_limit("a string would have " + std::to_string(bytes) + " bytes; the limit is " +
               std::to_string(limits_.text_bytes));
  }
}

void Workspace::check_items(std::size_t count) const {
  if (count > limits_.items) {
    fail_limit("a list would have " + std::to_string(count) + " items; the limit is " +
               std::to_string(limits_.items));
  }
}

void Workspace::take_memory(std::size_t bytes) {
  if (bytes > limits_.memory_bytes - memory_) {
    fail_limit("the values of this rendering need more than " + std::to_string(limits_.memory_bytes) +
               " bytes of memory");
  }
  memory_ += bytes;
}

Value Workspace::text(std::string text, bool safe) {
  check_text(text.size());
  work(text.size());
  return Value(std::make_shared<const Text>(*this, std::move(text), safe));
}

Value Workspace::list(std::vector<Value> items, List::Flavor flavor) {
  check_items(items.size());
  work(items.size() * sizeof(Value));
  auto list = std::make_shared<const List>(*this, std::move(items), flavor);
  check_depth(list->depth);
  return Value(std::move(list));
}

Value Workspace::dict(std::shared_ptr<Dict> built) {
  check_items(built->size());
  work(built->size() * 2 * sizeof(Value));
  check_depth(built->depth());
  built->charge(*this);
  return Value(std::shared_ptr<const Dict>(std::move(built)));
}

Value Workspace::iterator(std::vector<Value> items) {
  return Value(std::shared_ptr<Object>(std::make_shared<Iterator>(list(std::move(items)))));
}

Value Workspace::keep(std::shared_ptr<Object> object) {
  constexpr std::size_t kObjectBytes = 256;  // estimate
  take_memory(kObjectBytes);
  kept_.push_back(object);
  return Value(std::move(object));
}

void Workspace::fail_steps() const {
  fail_limit("the rendering took more than " + std::to_string(limits_.steps) + " steps");
}

void Workspace::fail_depth() {
  --depth_;  // the constructor throws, so no destructor decrements it
  fail_limit("evaluation is nested deeper than " + std::to_string(limits_.depth) + " levels");
}

}  // namespace reprise::protocol::jinja
