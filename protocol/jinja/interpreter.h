#pragma once
// Runs a Program: statements write to the output, expressions give values.
//
// Every statement and expression is a step, every nesting a level, of the workspace's limits.
// Threading: one rendering, one thread; the Program is only read.

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

/// The variables of one block of a template, with the block around it behind them.
class Scope {
 public:
  explicit Scope(std::shared_ptr<Scope> parent) : parent_(std::move(parent)) {}

  /// Here or in a block around; null where the name is not set.
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
  std::vector<std::pair<NameId, Value>> values_;  // few
};

class Interpreter {
 public:
  /// `context` is an object and must outlive the interpreter.
  Interpreter(Workspace& workspace, const Program& program, const Json& context);

  std::string run();

  /// Where it was when it failed.
  int line() const { return line_; }

  // For macros and loops, which call back.
  Value call_macro(const MacroDefinition& macro, const std::shared_ptr<Scope>& closure,
                   const Arguments& arguments);
  /// Renders the body of `loop` over `items` again, one level deeper.
  Value call_loop(const Statement& statement, const std::shared_ptr<Scope>& scope, const Value& items,
                  int depth);
  /// Whether the condition of a loop lets an item pass.
  bool accepts(const Statement& statement, const std::shared_ptr<Scope>& scope, const Value& item);

 private:
  enum class Flow : std::uint8_t { kOn, kBreak, kContinue };

  // A scope of its own for a block, and the one before it afterwards.
  class Inner;
  // Output that is held back, for a macro or a block.
  class Capture;

  Flow run_block(const Block& block);
  Flow run_statement(const Statement& statement);
  Flow run_if(const Statement& statement);
  void run_for(const Statement& statement, const Value& items, int depth);
  void run_set_block(const Statement& statement);
  void run_call_block(const Statement& statement);
  /// Sets the parameters of a macro in the scope of its call, defaults evaluated there one after the other.
  /// Fails for arguments that it does not take.
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
  std::vector<const Json*> context_;          // by NameId; null where the context has no such name
  std::vector<std::optional<Value>> loaded_;  // the context's values that have been used
  std::shared_ptr<Scope> scope_;
  std::string* out_ = nullptr;
  std::size_t held_ = 0;  // bytes in all outputs
  int line_ = 0;
};

}  // namespace reprise::protocol::jinja
