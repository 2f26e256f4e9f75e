#pragma once
// Runs a Program: statements write to the output, expressions give values.
//
// Every statement and expression is a step, every nesting a level, of the workspace's limits.
// Threading: one rendering, one thread; the Program is only read.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "protocol/jinja/arguments.h"
#include "protocol/jinja/ast.h"
#include "protocol/jinja/scope.h"
#include "protocol/jinja/value.h"
#include "protocol/jinja/workspace.h"

namespace reprise::protocol::jinja {

class Loop;

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
