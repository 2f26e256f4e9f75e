#pragma once
// Values with behavior of their own that a template makes: namespaces, loops and macros.
//
// Threading: one rendering.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/jinja/access.h"
#include "protocol/jinja/value.h"

namespace reprise::protocol::jinja {

class Interpreter;
class Scope;
struct MacroDefinition;
struct Statement;

/// namespace(): the one thing that a template can change, so that a loop can tell what it found.
class Namespace final : public Object {
 public:
  std::string type_name() const override { return "Namespace"; }
  std::string repr(Workspace& workspace) const override;
  std::optional<Value> attribute(Workspace& workspace, std::string_view name) override;
  void clear() override { members_.clear(); }

  void set(std::string_view name, Value value);

 private:
  std::vector<std::pair<std::string, Value>> members_;  // few, in the order they came
};

/// A running for loop, and the variable `loop` that its body sees.
///
/// Items are drawn one at a time, because the loop's condition may look at what its body has changed; one
/// more is drawn ahead where the body asks for loop.last or loop.nextitem.
class Loop final : public Object, public std::enable_shared_from_this<Loop> {
 public:
  Loop(Interpreter& interpreter, Workspace& workspace, const Statement& statement,
       std::shared_ptr<Scope> scope, Value items, int depth);

  /// Moves to the next item; false at the end.
  bool advance();
  const Value& item() const { return current_; }
  std::size_t index() const { return index_; }  // from 0

  /// The loop has ended: it draws no more and holds nothing.
  void clear() override;

  std::string type_name() const override { return "LoopContext"; }
  std::string repr(Workspace& workspace) const override;
  std::optional<Value> attribute(Workspace& workspace, std::string_view name) override;
  bool is_callable() const override { return true; }
  Value call(Workspace& workspace, const Arguments& arguments) override;  // of a recursive loop

  // For its methods.
  Value cycle(const Arguments& arguments) const;
  Value changed(Workspace& workspace, const Arguments& arguments);

 private:
  bool draw(Value& out);
  bool peek();
  std::size_t item_count();

  Interpreter& interpreter_;
  Workspace& workspace_;
  const Statement& statement_;
  std::shared_ptr<Scope> scope_;
  std::optional<Cursor> cursor_;
  const int depth_;
  std::size_t index_ = 0;
  bool started_ = false;
  Value previous_;
  Value current_;
  std::vector<Value> ahead_;  // drawn already
  std::size_t ahead_at_ = 0;
  std::optional<std::size_t> length_;
  std::optional<Value> last_changed_;
};

/// A macro, or the caller of a call block: a piece of template that is called like a function.
class Macro final : public Object {
 public:
  Macro(Interpreter& interpreter, const MacroDefinition& definition, std::shared_ptr<Scope> closure)
      : interpreter_(interpreter), definition_(definition), closure_(std::move(closure)) {}

  std::string type_name() const override { return "Macro"; }
  std::string repr(Workspace& workspace) const override;
  std::optional<Value> attribute(Workspace& workspace, std::string_view name) override;
  bool is_callable() const override { return true; }
  Value call(Workspace& workspace, const Arguments& arguments) override;
  void clear() override { closure_.reset(); }

 private:
  Interpreter& interpreter_;
  const MacroDefinition& definition_;
  std::shared_ptr<Scope> closure_;
};

}  // namespace reprise::protocol::jinja
