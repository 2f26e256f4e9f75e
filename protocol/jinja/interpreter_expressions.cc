// The expressions of a template.
#include "protocol/jinja/attributes.h"
#include "protocol/jinja/compare.h"
#include "protocol/jinja/error.h"
#include "protocol/jinja/interpreter.h"
#include "protocol/jinja/iterate.h"
#include "protocol/jinja/json_bridge.h"
#include "protocol/jinja/methods.h"
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

}  // namespace

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
