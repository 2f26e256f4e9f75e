#include "protocol/jinja/objects.h"

#include <algorithm>

#include "protocol/jinja/builtins.h"
#include "protocol/jinja/error.h"
#include "protocol/jinja/interpreter.h"
#include "protocol/jinja/operators.h"
#include "protocol/jinja/text.h"

namespace reprise::protocol::jinja {
namespace {

class LoopMethod final : public Object {
 public:
  LoopMethod(std::shared_ptr<Loop> loop, bool cycles) : loop_(std::move(loop)), cycles_(cycles) {}

  std::string type_name() const override { return "method"; }
  bool is_callable() const override { return true; }
  Value call(Workspace& workspace, const Arguments& arguments) override {
    return cycles_ ? loop_->cycle(arguments) : loop_->changed(workspace, arguments);
  }

 private:
  std::shared_ptr<Loop> loop_;
  bool cycles_;
};

}  // namespace

Loop::Loop(Interpreter& interpreter, Workspace& workspace, const Statement& statement,
           std::shared_ptr<Scope> scope, Value items, int depth)
    : interpreter_(interpreter),
      workspace_(workspace),
      statement_(statement),
      scope_(std::move(scope)),
      depth_(depth) {
  cursor_.emplace(workspace, std::move(items));
  if (statement.condition == nullptr) length_ = cursor_->size();
}

bool Loop::draw(Value& out) {
  if (!cursor_) return false;
  while (cursor_->next(out)) {
    if (statement_.condition == nullptr || interpreter_.accepts(statement_, scope_, out)) return true;
  }
  return false;
}

bool Loop::peek() {
  if (ahead_at_ < ahead_.size()) return true;
  Value item;
  if (!draw(item)) return false;
  ahead_.assign(1, std::move(item));
  ahead_at_ = 0;
  return true;
}

bool Loop::advance() {
  Value next;
  if (ahead_at_ < ahead_.size()) {
    next = std::move(ahead_[ahead_at_++]);
  } else if (!draw(next)) {
    return false;
  }
  index_ += started_;
  started_ = true;
  previous_ = std::move(current_);
  current_ = std::move(next);
  return true;
}

std::size_t Loop::item_count() {
  if (!length_) {
    ahead_.erase(ahead_.begin(), ahead_.begin() + static_cast<std::ptrdiff_t>(ahead_at_));
    ahead_at_ = 0;
    Value item;
    while (draw(item)) {
      workspace_.check_items(ahead_.size() + 1);
      ahead_.push_back(std::move(item));
    }
    length_ = index_ + 1 + ahead_.size();
  }
  return *length_;
}

void Loop::clear() {
  scope_.reset();
  cursor_.reset();
  previous_ = current_ = Value();
  ahead_.clear();
  ahead_at_ = 0;
  last_changed_.reset();
}

std::string Loop::repr(Workspace&) const {
  return cat({"<LoopContext ", std::to_string(index_ + 1), ">"});
}

std::optional<Value> Loop::attribute(Workspace&, std::string_view name) {
  const auto number = [](std::size_t value) { return Value(static_cast<std::int64_t>(value)); };
  if (name == "index") return number(index_ + 1);
  if (name == "index0") return number(index_);
  if (name == "first") return Value(index_ == 0);
  if (name == "last") return Value(!peek());
  if (name == "length") return number(item_count());
  if (name == "revindex")
    return Value(static_cast<std::int64_t>(item_count()) - static_cast<std::int64_t>(index_));
  if (name == "revindex0") {
    return Value(static_cast<std::int64_t>(item_count()) - static_cast<std::int64_t>(index_) - 1);
  }
  if (name == "depth") return Value(std::int64_t{depth_ + 1});
  if (name == "depth0") return Value(std::int64_t{depth_});
  if (name == "previtem") return index_ == 0 ? Value::undefined("there is no previous item") : previous_;
  if (name == "nextitem") return peek() ? ahead_[ahead_at_] : Value::undefined("there is no next item");
  if (name == "cycle" || name == "changed") {
    return Value(std::shared_ptr<Object>(std::make_shared<LoopMethod>(shared_from_this(), name == "cycle")));
  }
  return std::nullopt;
}

Value Loop::call(Workspace&, const Arguments& arguments) {
  if (!statement_.is_recursive) {
    fail("The loop must have the 'recursive' marker to be called recursively.");
  }
  const Parameters p("loop", arguments, {"iterable"});
  if (scope_ == nullptr) fail("the loop has ended");
  return interpreter_.call_loop(statement_, scope_, p.need(0), depth_ + 1);
}

Value Loop::cycle(const Arguments& arguments) const {
  if (arguments.positional.empty()) fail("no items for cycling given");
  return arguments.positional[index_ % arguments.positional.size()];
}

Value Loop::changed(Workspace& workspace, const Arguments& arguments) {
  if (scope_ == nullptr) fail("the loop has ended");
  Value now = workspace.tuple(arguments.positional);
  const bool same = last_changed_ && equals(workspace, *last_changed_, now);
  last_changed_ = std::move(now);
  return Value(!same);
}

std::string Macro::repr(Workspace&) const {
  return "<Macro " + string_repr(definition_.name) + ">";
}

std::optional<Value> Macro::attribute(Workspace& workspace, std::string_view name) {
  if (name == "name") return workspace.text(definition_.name);
  if (name == "catch_kwargs") return Value(definition_.takes_kwargs);
  if (name == "catch_varargs") return Value(definition_.takes_varargs);
  if (name == "caller") return Value(definition_.takes_caller);
  if (name != "arguments") return std::nullopt;
  std::vector<Value> names;
  for (const std::string& parameter : definition_.parameter_names) names.push_back(workspace.text(parameter));
  return workspace.tuple(std::move(names));
}

Value Macro::call(Workspace&, const Arguments& arguments) {
  return interpreter_.call_macro(definition_, closure_, arguments);
}

std::string Namespace::repr(Workspace& workspace) const {
  std::string out = "<Namespace {";
  for (const auto& [name, value] : members_) {
    if (out.back() != '{') out += ", ";
    append_string_repr(out, name);
    out += ": ";
    append_repr(workspace, out, value);
  }
  return out + "}>";
}

std::optional<Value> Namespace::attribute(Workspace&, std::string_view name) {
  for (const auto& [known, value] : members_) {
    if (known == name) return value;
  }
  return std::nullopt;
}

void Namespace::set(std::string_view name, Value value) {
  for (auto& [known, held] : members_) {
    if (known == name) {
      held = std::move(value);
      return;
    }
  }
  members_.emplace_back(name, std::move(value));
}

}  // namespace reprise::protocol::jinja
