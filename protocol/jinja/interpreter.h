#pragma once
// Interpreter: executes a Program. Statements write to the output, expressions return values. Each node
// counts as a step and each nesting as a level of the workspace's limits.
//
// Threading: one thread per rendering; the Program is read-only.

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "protocol/jinja/ast.h"
#include "protocol/jinja/builtins.h"
#include "protocol/jinja/value.h"

namespace reprise::protocol::jinja {

/// The variables of a block, linked to the enclosing scope.
class Scope {
 public:
  explicit Scope(std::shared_ptr<Scope> parent) : parent_(std::move(parent)) {}

  /// Returns the variable from the innermost scope that has it; null if it is not set.
  const Value* find(NameId name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent_.get()) {
      for (const auto& [known, value] : scope->values_) {
        if (known == name) return &value;
      }
    }
    return nullptr;
  }

  void set(NameId name, Value value) {
    for (auto& [known, held] : values_) {
      if (known == name) {
        held = std::move(value);
        return;
      }
    }
    values_.emplace_back(name, std::move(value));
  }

  void clear() { values_.clear(); }

 private:
  std::shared_ptr<Scope> parent_;
  std::vector<std::pair<NameId, Value>> values_;  // few, searched linearly
};

class Interpreter {
 public:
  /// `context` must be an object and outlive the interpreter.
  Interpreter(Workspace& workspace, const Program& program, const Json& context);

  std::string run();

  /// Returns the current line, for errors.
  int line() const { return line_; }

  Value call_macro(const MacroDefinition& macro, const std::shared_ptr<Scope>& closure,
                   const Arguments& arguments);
  /// Renders the body of a recursive loop over `items`, one level deeper.
  Value call_loop(const Statement& statement, const std::shared_ptr<Scope>& scope, const Value& items,
                  int depth);
  bool accepts(const Statement& statement, const std::shared_ptr<Scope>& scope, const Value& item);

 private:
  enum class Flow : std::uint8_t { kOn, kBreak, kContinue };

  class Inner;
  // Redirects output to a buffer, for a macro or a block.
  class Capture;

  Flow run_block(const Block& block);
  Flow run_statement(const Statement& statement);
  Flow run_if(const Statement& statement);
  void run_for(const Statement& statement, const Value& items, int depth);
  void run_set_block(const Statement& statement);
  void run_call_block(const Statement& statement);
  /// Sets a macro's parameters in the scope of the call; defaults are evaluated there in order. Fails for
  /// surplus or unknown arguments.
  void bind_arguments(const MacroDefinition& macro, const Arguments& arguments);
  void assign(const Expression& target, const Value& value);
  void unpack(const Expression& target, const Value& value);
  void write(std::string_view text);
  void write_value(const Value& value);

  Value evaluate(const Expression& expression);
  Value evaluate_name(const Expression& expression);
  Value evaluate_dict(const Expression& expression);
  Value evaluate_slice(const Expression& expression);
  Value evaluate_call(const Expression& expression, const Value* caller);
  Value evaluate_filter(const Expression& expression, const Value* block_text);
  Value evaluate_compare(const Expression& expression);
  Value evaluate_concat(const Expression& expression);
  Value evaluate_condition(const Expression& expression);
  std::vector<Value> evaluate_all(const Expression& expression);
  Arguments evaluate_arguments(const Expression& expression);
  Value call(const Value& callee, const Arguments& arguments);

  Workspace& workspace_;
  const Program& program_;
  std::vector<const Json*> context_;          // by NameId; null: not in the context
  std::vector<std::optional<Value>> loaded_;  // context values converted so far
  std::shared_ptr<Scope> scope_;
  std::string* out_ = nullptr;
  std::size_t held_ = 0;  // total bytes of all output buffers
  int line_ = 0;
};

}  // namespace reprise::protocol::jinja
