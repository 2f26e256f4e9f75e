#include "protocol/jinja/interpreter.h"

#include <utility>

#include "protocol/jinja/compare.h"
#include "protocol/jinja/error.h"
#include "protocol/jinja/iterate.h"
#include "protocol/jinja/json_bridge.h"
#include "protocol/jinja/loop.h"
#include "protocol/jinja/macro.h"
#include "protocol/jinja/namespace_object.h"
#include "protocol/jinja/text.h"

namespace reprise::protocol::jinja {

class Interpreter::Inner {
 public:
  explicit Inner(Interpreter& interpreter) : Inner(interpreter, interpreter.scope_) {}
  Inner(Interpreter& interpreter, std::shared_ptr<Scope> parent)
      : interpreter_(interpreter),
        outside_(std::exchange(interpreter.scope_, std::make_shared<Scope>(std::move(parent)))) {}
  Inner(const Inner&) = delete;
  Inner& operator=(const Inner&) = delete;
  ~Inner() { interpreter_.scope_ = std::move(outside_); }

 private:
  Interpreter& interpreter_;
  std::shared_ptr<Scope> outside_;
};

class Interpreter::Capture {
 public:
  explicit Capture(Interpreter& interpreter)
      : interpreter_(interpreter), outside_(std::exchange(interpreter.out_, &text_)) {}
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  ~Capture() { close(); }

  Value take() {
    close();
    return interpreter_.workspace_.text(std::move(text_));
  }

 private:
  void close() {
    if (outside_ == nullptr) return;
    interpreter_.held_ -= text_.size();
    interpreter_.out_ = std::exchange(outside_, nullptr);
  }

  Interpreter& interpreter_;
  std::string text_;
  std::string* outside_;
};

Interpreter::Interpreter(Workspace& workspace, const Program& program, const Json& context)
    : workspace_(workspace),
      program_(program),
      context_(program.names.size(), nullptr),
      loaded_(program.names.size()),
      scope_(std::make_shared<Scope>(nullptr)) {
  for (std::size_t i = 0; i < program.names.size(); ++i) context_[i] = context.find(program.names[i]);
}

std::string Interpreter::run() {
  std::string out;
  out_ = &out;
  run_block(program_.body);
  out_ = nullptr;
  return out;
}

void Interpreter::write(std::string_view text) {
  if (text.size() > workspace_.limits().output_bytes - held_) {
    throw Failure(TemplateError::Kind::kLimit,
                  "the output has more than " + std::to_string(workspace_.limits().output_bytes) + " bytes");
  }
  workspace_.work(text.size());
  out_->append(text);
  held_ += text.size();
}

void Interpreter::write_value(const Value& value) {
  if (value.is_string()) {
    write(value.as_string());
  } else if (!value.is_undefined()) {
    write(to_str(workspace_, value));
  }
}

Interpreter::Flow Interpreter::run_block(const Block& block) {
  const Workspace::Level level(workspace_);
  for (const auto& statement : block) {
    const Flow flow = run_statement(*statement);
    if (flow != Flow::kOn) return flow;
  }
  return Flow::kOn;
}

Interpreter::Flow Interpreter::run_statement(const Statement& statement) {
  workspace_.step();
  line_ = statement.line;
  switch (statement.kind) {
    case Statement::Kind::kText:
      write(statement.data);
      return Flow::kOn;
    case Statement::Kind::kPrint:
      write_value(evaluate(*statement.expression));
      return Flow::kOn;
    case Statement::Kind::kIf:
      return run_if(statement);
    case Statement::Kind::kFor: {
      const Value items = evaluate(*statement.expression);
      line_ = statement.line;
      run_for(statement, items, 0);
      return Flow::kOn;
    }
    case Statement::Kind::kSet: {
      const Value value = evaluate(*statement.expression);
      line_ = statement.line;
      assign(*statement.target, value);
      return Flow::kOn;
    }
    case Statement::Kind::kSetBlock:
      run_set_block(statement);
      return Flow::kOn;
    case Statement::Kind::kMacro:
      scope_->set(statement.name, workspace_.keep(std::make_shared<Macro>(*this, *statement.macro, scope_)));
      return Flow::kOn;
    case Statement::Kind::kCallBlock:
      run_call_block(statement);
      return Flow::kOn;
    case Statement::Kind::kFilterBlock: {
      Capture capture(*this);
      const Inner inner(*this);
      const Flow flow = run_block(statement.body);
      const Value text = capture.take();
      if (flow == Flow::kOn) write_value(evaluate_filter(*statement.expression, &text));
      return flow;
    }
    case Statement::Kind::kWith: {
      std::vector<Value> values;
      for (const auto& assignment : statement.assignments) values.push_back(evaluate(*assignment.second));
      const Inner inner(*this);
      for (std::size_t i = 0; i < values.size(); ++i) assign(*statement.assignments[i].first, values[i]);
      return run_block(statement.body);
    }
    case Statement::Kind::kScope: {
      const Inner inner(*this);
      return run_block(statement.body);
    }
    case Statement::Kind::kBreak:
      return Flow::kBreak;
    case Statement::Kind::kContinue:
      return Flow::kContinue;
    case Statement::Kind::kRefused:
      fail(statement.data);
  }
  return Flow::kOn;
}

Interpreter::Flow Interpreter::run_if(const Statement& statement) {
  for (const Statement::Branch& branch : statement.branches) {
    if (branch.condition == nullptr || is_true(evaluate(*branch.condition))) return run_block(branch.body);
  }
  return Flow::kOn;
}

void Interpreter::run_for(const Statement& statement, const Value& items, int depth) {
  const auto loop = std::make_shared<Loop>(*this, workspace_, statement, scope_, items, depth);
  // A loop and what its body keeps of it may hold each other; when it has ended it holds nothing.
  struct End {
    Loop& loop;
    ~End() { loop.clear(); }
  } const end{*loop};
  bool any = false;
  {
    const Inner inner(*this);
    const std::shared_ptr<Scope> around = std::exchange(scope_, nullptr);
    std::shared_ptr<Scope> body;
    while (loop->advance()) {
      any = true;
      if (body == nullptr || body.use_count() > 1) {
        body = std::make_shared<Scope>(around);  // a macro of the last round keeps its scope
      } else {
        body->clear();
      }
      scope_ = body;
      scope_->set(program_.loop, Value(std::shared_ptr<Object>(loop)));
      assign(*statement.target, loop->item());
      const Flow flow = run_block(statement.body);
      scope_ = nullptr;
      if (flow == Flow::kBreak) break;
    }
  }
  if (!any && !statement.otherwise.empty()) {
    const Inner inner(*this);
    run_block(statement.otherwise);
  }
}

bool Interpreter::accepts(const Statement& statement, const std::shared_ptr<Scope>& scope,
                          const Value& item) {
  const Inner inner(*this, scope);
  assign(*statement.target, item);
  return is_true(evaluate(*statement.condition));
}

Value Interpreter::call_loop(const Statement& statement, const std::shared_ptr<Scope>& scope,
                             const Value& items, int depth) {
  Capture capture(*this);
  const Inner inner(*this, scope);
  run_for(statement, items, depth);
  return capture.take();
}

void Interpreter::run_set_block(const Statement& statement) {
  Value text;
  {
    Capture capture(*this);
    const Inner inner(*this);
    run_block(statement.body);
    text = capture.take();
    if (statement.expression != nullptr) text = evaluate_filter(*statement.expression, &text);
  }
  assign(*statement.target, text);
}

void Interpreter::run_call_block(const Statement& statement) {
  const Value caller = workspace_.keep(std::make_shared<Macro>(*this, *statement.macro, scope_));
  write_value(evaluate_call(*statement.expression, &caller));
}

void Interpreter::assign(const Expression& target, const Value& value) {
  switch (target.kind) {
    case Expression::Kind::kName:
      scope_->set(target.name, value);
      return;
    case Expression::Kind::kNamespaceName: {
      const Value* holder = scope_->find(target.name);
      auto* space =
          holder != nullptr && holder->is_object() ? dynamic_cast<Namespace*>(&holder->object()) : nullptr;
      if (space == nullptr) fail("cannot assign attribute on non-namespace object");
      space->set(target.text, value);
      return;
    }
    default:
      unpack(target, value);
  }
}

void Interpreter::unpack(const Expression& target, const Value& value) {
  if (!is_iterable(value)) fail({"cannot unpack non-iterable ", type_name(value), " object"});
  Cursor cursor(workspace_, value);
  Value item;
  std::size_t count = 0;
  for (const ExpressionPtr& each : target.operands) {
    if (!cursor.next(item)) {
      fail({"not enough values to unpack (expected ", std::to_string(target.operands.size()), ", got ",
            std::to_string(count), ")"});
    }
    ++count;
    assign(*each, item);
  }
  if (cursor.next(item)) {
    fail({"too many values to unpack (expected ", std::to_string(target.operands.size()), ")"});
  }
}

Value Interpreter::call_macro(const MacroDefinition& macro, const std::shared_ptr<Scope>& closure,
                              const Arguments& arguments) {
  const int line = line_;
  Capture capture(*this);
  const Inner inner(*this, closure);
  bind_arguments(workspace_, program_, macro, arguments, *scope_,
                 [&](const Expression& expression) { return evaluate(expression); });
  run_block(macro.body);
  line_ = line;
  return capture.take();
}

}  // namespace reprise::protocol::jinja
