#include "protocol/jinja/interpreter.h"

#include <algorithm>
#include <utility>

#include "protocol/jinja/access.h"
#include "protocol/jinja/builtins.h"
#include "protocol/jinja/error.h"
#include "protocol/jinja/objects.h"
#include "protocol/jinja/operators.h"
#include "protocol/jinja/text.h"

namespace reprise::protocol::jinja {
namespace {

using Node = Expression::Kind;

// The method that `value.name(…)` calls, if it is one of a builtin type: then no bound method need be made.
Method direct_method(const Value& value, std::string_view name) {
  if (value.is_string()) return find_string_method(name);
  if (value.is_dict()) return find_dict_method(name);
  return nullptr;
}

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

}  // namespace

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
  bind_arguments(macro, arguments);
  run_block(macro.body);
  line_ = line;
  return capture.take();
}

void Interpreter::bind_arguments(const MacroDefinition& macro, const Arguments& arguments) {
  const std::size_t count = macro.parameters.size();
  const std::size_t given = std::min(arguments.positional.size(), count);
  std::vector<bool> used(arguments.named.size(), false);
  const auto take_named = [&](std::string_view name) -> const Value* {
    for (std::size_t i = 0; i < arguments.named.size(); ++i) {
      if (arguments.named[i].first != name || used[i]) continue;
      used[i] = true;
      return &arguments.named[i].second;
    }
    return nullptr;
  };

  for (std::size_t i = 0; i < count; ++i) {
    const Value* value = i < given ? &arguments.positional[i] : take_named(macro.parameter_names[i]);
    if (value != nullptr) {
      scope_->set(macro.parameters[i], *value);
    } else if (const std::size_t required = count - macro.defaults.size(); i >= required) {
      scope_->set(macro.parameters[i], evaluate(*macro.defaults[i - required]));
    } else {
      scope_->set(
          macro.parameters[i],
          Value::undefined(cat({"parameter '", shown_part(macro.parameter_names[i]), "' was not provided"})));
    }
  }

  const bool has_caller_parameter = std::find(macro.parameter_names.begin(), macro.parameter_names.end(),
                                              "caller") != macro.parameter_names.end();
  if (macro.takes_caller && !has_caller_parameter) {
    const Value* caller = take_named("caller");
    scope_->set(program_.caller, caller != nullptr ? *caller : Value::undefined("No caller defined"));
  }
  if (macro.takes_kwargs) {
    auto rest = std::make_shared<Dict>();
    for (std::size_t i = 0; i < used.size(); ++i) {
      if (!used[i]) rest->set(workspace_.text(arguments.named[i].first), arguments.named[i].second);
    }
    scope_->set(program_.kwargs, workspace_.dict(std::move(rest)));
  } else if (const auto extra = std::find(used.begin(), used.end(), false); extra != used.end()) {
    const std::string& name = arguments.named[static_cast<std::size_t>(extra - used.begin())].first;
    fail({"macro '", macro.name, "' takes no keyword argument '", name, "'"});
  }
  if (macro.takes_varargs) {
    scope_->set(program_.varargs,
                workspace_.tuple({arguments.positional.begin() + static_cast<std::ptrdiff_t>(given),
                                  arguments.positional.end()}));
  } else if (arguments.positional.size() > count) {
    fail({"macro '", macro.name, "' takes not more than ", std::to_string(count), " argument(s)"});
  }
}

Value Interpreter::evaluate(const Expression& expression) {
  const Workspace::Level level(workspace_);
  workspace_.step();
  line_ = expression.line;
  switch (expression.kind) {
    case Node::kConstant:
      return expression.constant;
    case Node::kName:
      return evaluate_name(expression);
    case Node::kNamespaceName:
      fail("a namespace attribute stands only where it is assigned to");
    case Node::kTuple:
      return workspace_.tuple(evaluate_all(expression));
    case Node::kList:
      return workspace_.list(evaluate_all(expression));
    case Node::kDict:
      return evaluate_dict(expression);
    case Node::kAttribute: {
      const Value value = evaluate(*expression.operands[0]);
      line_ = expression.line;
      return get_attribute(workspace_, value, expression.text);
    }
    case Node::kItem: {
      const Value value = evaluate(*expression.operands[0]);
      const Value key = evaluate(*expression.operands[1]);
      line_ = expression.line;
      return get_item(workspace_, value, key);
    }
    case Node::kSlice:
      return evaluate_slice(expression);
    case Node::kCall:
      return evaluate_call(expression, nullptr);
    case Node::kFilter:
      return evaluate_filter(expression, nullptr);
    case Node::kTest: {
      const Value input = evaluate(*expression.operands[0]);
      const Arguments arguments = evaluate_arguments(expression);
      line_ = expression.line;
      if (expression.test == nullptr) fail({"No test named '", expression.text, "'."});
      return Value(expression.test(workspace_, input, arguments));
    }
    case Node::kBinary: {
      const Value a = evaluate(*expression.operands[0]);
      const Value b = evaluate(*expression.operands[1]);
      line_ = expression.line;
      return apply(workspace_, expression.op, a, b);
    }
    case Node::kNegative:
      return negate(evaluate(*expression.operands[0]));
    case Node::kPositive:
      return posit(evaluate(*expression.operands[0]));
    case Node::kNot:
      return Value(!is_true(evaluate(*expression.operands[0])));
    case Node::kAnd: {
      Value left = evaluate(*expression.operands[0]);
      return is_true(left) ? evaluate(*expression.operands[1]) : left;
    }
    case Node::kOr: {
      Value left = evaluate(*expression.operands[0]);
      return is_true(left) ? left : evaluate(*expression.operands[1]);
    }
    case Node::kCompare:
      return evaluate_compare(expression);
    case Node::kConcat:
      return evaluate_concat(expression);
    case Node::kCondition:
      return evaluate_condition(expression);
  }
  return Value();
}

Value Interpreter::evaluate_name(const Expression& expression) {
  if (const Value* found = scope_->find(expression.name)) return *found;
  const auto i = static_cast<std::size_t>(expression.name);
  if (context_[i] == nullptr) return program_.globals[i];
  if (!loaded_[i]) loaded_[i] = from_json(workspace_, *context_[i]);
  return *loaded_[i];
}

std::vector<Value> Interpreter::evaluate_all(const Expression& expression) {
  std::vector<Value> values;
  values.reserve(expression.operands.size());
  for (const ExpressionPtr& operand : expression.operands) values.push_back(evaluate(*operand));
  return values;
}

Value Interpreter::evaluate_dict(const Expression& expression) {
  auto dict = std::make_shared<Dict>();
  for (std::size_t i = 0; i + 1 < expression.operands.size(); i += 2) {
    Value key = evaluate(*expression.operands[i]);
    check_hashable(workspace_, key);
    dict->set(std::move(key), evaluate(*expression.operands[i + 1]));
  }
  return workspace_.dict(std::move(dict));
}

Value Interpreter::evaluate_slice(const Expression& expression) {
  const Value value = evaluate(*expression.operands[0]);
  Value bounds[3];
  for (std::size_t i = 0; i < 3; ++i) {
    if (expression.operands[i + 1] != nullptr) bounds[i] = evaluate(*expression.operands[i + 1]);
  }
  line_ = expression.line;
  if (value.is_undefined()) fail(value.undefined_message());
  const bool can_be_cut = value.is_string() || (value.is_list() && !value.list().is_view());
  if (value.is_dict()) fail("unhashable type: 'slice'");
  if (!can_be_cut) fail({"'", type_name(value), "' object is not subscriptable"});
  return slice(workspace_, value, bounds[0], bounds[1], bounds[2]);
}

Arguments Interpreter::evaluate_arguments(const Expression& expression) {
  Arguments arguments;
  arguments.positional.reserve(expression.operands.size());
  for (std::size_t i = 1; i < expression.operands.size(); ++i) {
    arguments.positional.push_back(evaluate(*expression.operands[i]));
  }
  for (const auto& [name, value] : expression.keywords) arguments.named.emplace_back(name, evaluate(*value));
  if (expression.star != nullptr) {
    for (Value& value : to_vector(workspace_, evaluate(*expression.star))) {
      arguments.positional.push_back(std::move(value));
    }
  }
  if (expression.star_star != nullptr) {
    const Value rest = evaluate(*expression.star_star);
    if (!rest.is_dict()) fail({"argument after ** must be a mapping, not ", type_name(rest)});
    for (const Dict::Entry& entry : rest.dict().entries()) {
      if (!entry.key.is_string()) fail("keywords must be strings");
      arguments.named.emplace_back(entry.key.as_string(), entry.value);
    }
  }
  return arguments;
}

Value Interpreter::evaluate_call(const Expression& expression, const Value* caller) {
  const Expression& target = *expression.operands[0];
  if (target.kind == Node::kAttribute && caller == nullptr) {
    const Value self = evaluate(*target.operands[0]);
    if (const Method method = direct_method(self, target.text)) {
      const Arguments arguments = evaluate_arguments(expression);
      line_ = expression.line;
      return method(workspace_, self, arguments);
    }
    line_ = target.line;
    const Value callee = get_attribute(workspace_, self, target.text);
    const Arguments arguments = evaluate_arguments(expression);
    line_ = expression.line;
    return call(callee, arguments);
  }
  const Value callee = evaluate(target);
  Arguments arguments = evaluate_arguments(expression);
  if (caller != nullptr) arguments.named.emplace_back("caller", *caller);
  line_ = expression.line;
  return call(callee, arguments);
}

Value Interpreter::call(const Value& callee, const Arguments& arguments) {
  if (callee.is_undefined()) fail(callee.undefined_message());
  if (!callee.is_object() || !callee.object().is_callable()) {
    fail({"'", type_name(callee), "' object is not callable"});
  }
  const std::shared_ptr<Object> held = callee.shared_object();  // its name may be set anew meanwhile
  return held->call(workspace_, arguments);
}

Value Interpreter::evaluate_filter(const Expression& expression, const Value* block_text) {
  const ExpressionPtr& source = expression.operands[0];
  // In a filter block the innermost filter has no operand: it takes the text of the block.
  const Value input = source == nullptr       ? *block_text
                      : block_text == nullptr ? evaluate(*source)
                                              : evaluate_filter(*source, block_text);
  const Arguments arguments = evaluate_arguments(expression);
  line_ = expression.line;
  if (expression.filter == nullptr) fail({"No filter named '", expression.text, "'."});
  return expression.filter(workspace_, input, arguments);
}

Value Interpreter::evaluate_compare(const Expression& expression) {
  Value left = evaluate(*expression.operands[0]);
  for (std::size_t i = 0; i < expression.comparisons.size(); ++i) {
    Value right = evaluate(*expression.operands[i + 1]);
    line_ = expression.line;
    bool holds = false;
    switch (expression.comparisons[i]) {
      case CompareOperator::kEqual:
        holds = equals(workspace_, left, right);
        break;
      case CompareOperator::kNotEqual:
        holds = !equals(workspace_, left, right);
        break;
      case CompareOperator::kLess:
        holds = compare_order(workspace_, left, right, "<");
        break;
      case CompareOperator::kLessEqual:
        holds = compare_order(workspace_, left, right, "<=");
        break;
      case CompareOperator::kGreater:
        holds = compare_order(workspace_, left, right, ">");
        break;
      case CompareOperator::kGreaterEqual:
        holds = compare_order(workspace_, left, right, ">=");
        break;
      case CompareOperator::kIn:
        holds = contains(workspace_, right, left);
        break;
      case CompareOperator::kNotIn:
        holds = !contains(workspace_, right, left);
        break;
    }
    if (!holds) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

// Without autoescape `~` joins plain strings, whatever is marked safe; `+` does not, and minds.
Value Interpreter::evaluate_concat(const Expression& expression) {
  std::string out;
  for (const ExpressionPtr& operand : expression.operands) {
    append_str(workspace_, out, evaluate(*operand));
    workspace_.check_text(out.size());
  }
  return workspace_.text(std::move(out));
}

Value Interpreter::evaluate_condition(const Expression& expression) {
  if (is_true(evaluate(*expression.operands[1]))) return evaluate(*expression.operands[0]);
  if (expression.operands[2] != nullptr) return evaluate(*expression.operands[2]);
  return Value::undefined(cat({"the inline if-expression on line ", std::to_string(expression.line),
                               " evaluated to false and no else section was defined."}));
}

}  // namespace reprise::protocol::jinja
