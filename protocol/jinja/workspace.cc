#include "protocol/jinja/workspace.h"

#include "protocol/jinja/error.h"

namespace reprise::protocol::jinja {
namespace {

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

Workspace::~Workspace() {
  // Nothing is freed in a long chain: all objects are alive until the last of them has let go.
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
  constexpr std::size_t kObjectBytes = 256;  // roughly
  take_memory(kObjectBytes);
  kept_.push_back(object);
  return Value(std::move(object));
}

void Workspace::fail_steps() const {
  fail_limit("the rendering took more than " + std::to_string(limits_.steps) + " steps");
}

void Workspace::fail_depth() {
  --depth_;  // no Level is made that would give it back
  fail_limit("evaluation is nested deeper than " + std::to_string(limits_.depth) + " levels");
}

}  // namespace reprise::protocol::jinja
