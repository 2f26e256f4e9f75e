// Class ExpressionParser.
#include <algorithm>
#include <optional>

#include "protocol/jinja/parser.h"

namespace reprise::protocol::jinja {
namespace {

using Node = Expression::Kind;

std::optional<CompareOperator> compare_operator(const Token& token) {
  constexpr std::pair<std::string_view, CompareOperator> kSigns[] = {
      {"==", CompareOperator::kEqual},  {"!=", CompareOperator::kNotEqual},
      {"<", CompareOperator::kLess},    {"<=", CompareOperator::kLessEqual},
      {">", CompareOperator::kGreater}, {">=", CompareOperator::kGreaterEqual}};
  for (const auto& [sign, op] : kSigns) {
    if (token.is_operator(sign)) return op;
  }
  return std::nullopt;
}

std::optional<BinaryOperator> binary_operator(
    const Token& token, std::initializer_list<std::pair<std::string_view, BinaryOperator>> among) {
  for (const auto& [sign, op] : among) {
    if (token.is_operator(sign)) return op;
  }
  return std::nullopt;
}

}  // namespace

ExpressionPtr ExpressionParser::make(Node kind, int line) {
  auto expression = std::make_unique<Expression>();
  expression->kind = kind;
  expression->line = line;
  return expression;
}

ExpressionPtr ExpressionParser::make(Node kind, int line, ExpressionPtr a, ExpressionPtr b) {
  auto expression = make(kind, line);
  expression->operands.push_back(std::move(a));
  if (b != nullptr) expression->operands.push_back(std::move(b));
  return finish(std::move(expression));
}

ExpressionPtr ExpressionParser::finish(ExpressionPtr expression) const {
  int deepest = 0;
  const auto look = [&](const ExpressionPtr& child) {
    if (child != nullptr) deepest = std::max(deepest, child->depth);
  };
  for (const auto& operand : expression->operands) look(operand);
  for (const auto& keyword : expression->keywords) look(keyword.second);
  look(expression->star);
  look(expression->star_star);
  expression->depth = deepest + 1;
  if (expression->depth > kMaxExpressionDepth) {
    stream_.fail_at(expression->line,
                    "an expression is nested deeper than " + std::to_string(kMaxExpressionDepth) + " levels");
  }
  return expression;
}

ExpressionPtr ExpressionParser::constant(int line, Value value) {
  auto expression = make(Node::kConstant, line);
  expression->constant = std::move(value);
  return expression;
}

ExpressionPtr ExpressionParser::parse_expression(bool with_condition) {
  const Nesting nesting(nesting_, stream_);
  if (!with_condition) return parse_or();
  int line = stream_.current().line;
  ExpressionPtr value = parse_or();
  while (stream_.skip_name("if")) {
    auto condition = make(Node::kCondition, line);
    condition->operands.push_back(std::move(value));
    condition->operands.push_back(parse_or());
    condition->operands.push_back(stream_.skip_name("else") ? parse_expression() : nullptr);
    value = finish(std::move(condition));
    line = stream_.current().line;
  }
  return value;
}

ExpressionPtr ExpressionParser::parse_or() {
  const int line = stream_.current().line;
  ExpressionPtr left = parse_and();
  while (stream_.skip_name("or")) left = make(Node::kOr, line, std::move(left), parse_and());
  return left;
}

ExpressionPtr ExpressionParser::parse_and() {
  const int line = stream_.current().line;
  ExpressionPtr left = parse_not();
  while (stream_.skip_name("and")) left = make(Node::kAnd, line, std::move(left), parse_not());
  return left;
}

ExpressionPtr ExpressionParser::parse_not() {
  const int line = stream_.current().line;
  if (!stream_.skip_name("not")) return parse_compare();
  const Nesting nesting(nesting_, stream_);
  return make(Node::kNot, line, parse_not());
}

ExpressionPtr ExpressionParser::parse_compare() {
  const int line = stream_.current().line;
  ExpressionPtr first = parse_sum();
  auto compare = make(Node::kCompare, line);
  compare->operands.push_back(std::move(first));
  for (;;) {
    if (const auto op = compare_operator(stream_.current())) {
      stream_.take();
      compare->comparisons.push_back(*op);
    } else if (stream_.skip_name("in")) {
      compare->comparisons.push_back(CompareOperator::kIn);
    } else if (stream_.current().is_name("not") && stream_.look().is_name("in")) {
      stream_.take();
      stream_.take();
      compare->comparisons.push_back(CompareOperator::kNotIn);
    } else {
      break;
    }
    compare->operands.push_back(parse_sum());
  }
  if (compare->comparisons.empty()) return std::move(compare->operands[0]);
  return finish(std::move(compare));
}

ExpressionPtr ExpressionParser::parse_sum() {
  ExpressionPtr left = parse_concat();
  while (const auto op = binary_operator(stream_.current(),
                                         {{"+", BinaryOperator::kAdd}, {"-", BinaryOperator::kSubtract}})) {
    const int line = stream_.take().line;
    left = make(Node::kBinary, line, std::move(left), parse_concat());
    left->op = *op;
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_concat() {
  const int line = stream_.current().line;
  ExpressionPtr first = parse_product();
  if (!stream_.current().is_operator("~")) return first;
  auto concat = make(Node::kConcat, line);
  concat->operands.push_back(std::move(first));
  while (stream_.skip_operator("~")) concat->operands.push_back(parse_product());
  return finish(std::move(concat));
}

ExpressionPtr ExpressionParser::parse_product() {
  ExpressionPtr left = parse_power();
  while (const auto op = binary_operator(stream_.current(), {{"*", BinaryOperator::kMultiply},
                                                             {"/", BinaryOperator::kDivide},
                                                             {"//", BinaryOperator::kFloorDivide},
                                                             {"%", BinaryOperator::kModulo}})) {
    const int line = stream_.take().line;
    left = make(Node::kBinary, line, std::move(left), parse_power());
    left->op = *op;
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_power() {
  ExpressionPtr left = parse_unary(true);
  while (stream_.current().is_operator("**")) {
    const int line = stream_.take().line;
    left = make(Node::kBinary, line, std::move(left), parse_unary(true));
    left->op = BinaryOperator::kPower;
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_unary(bool with_filter) {
  const Nesting nesting(nesting_, stream_);
  const int line = stream_.current().line;
  ExpressionPtr operand;
  if (stream_.skip_operator("-")) {
    operand = make(Node::kNegative, line, parse_unary(false));
  } else if (stream_.skip_operator("+")) {
    operand = make(Node::kPositive, line, parse_unary(false));
  } else {
    operand = parse_primary(false);
  }
  operand = parse_postfix(std::move(operand));
  return with_filter ? parse_filter_or_test(std::move(operand)) : std::move(operand);
}

ExpressionPtr ExpressionParser::parse_primary(bool with_namespace) {
  const Token& token = stream_.current();
  const int line = token.line;
  switch (token.type) {
    case Token::Type::kName: {
      stream_.take();
      const std::string& name = token.text;
      if (name == "true" || name == "True") return constant(line, Value(true));
      if (name == "false" || name == "False") return constant(line, Value(false));
      if (name == "none" || name == "None") return constant(line, Value());
      const bool is_attribute = with_namespace && stream_.skip_operator(".");
      auto expression = make(is_attribute ? Node::kNamespaceName : Node::kName, line);
      expression->name = names_.id(name);
      if (is_attribute) expression->text = stream_.expect(Token::Type::kName, "name").text;
      special.caller |= name == "caller";
      special.varargs |= name == "varargs";
      special.kwargs |= name == "kwargs";
      return expression;
    }
    case Token::Type::kString: {
      std::string text;
      while (stream_.current().is(Token::Type::kString)) text += stream_.take().text;
      return constant(line, Value::constant(std::move(text)));
    }
    case Token::Type::kInteger:
      return constant(line, Value(stream_.take().integer));
    case Token::Type::kFloat:
      return constant(line, Value(stream_.take().number));
    default:
      break;
  }
  if (token.is_operator("[")) return parse_list();
  if (token.is_operator("{")) return parse_dict();
  if (!stream_.skip_operator("(")) stream_.fail(cat({"unexpected '", token.describe(), "'"}));
  ExpressionPtr inside = parse_tuple(true, {}, true);
  stream_.expect_operator(")");
  return inside;
}

ExpressionPtr ExpressionParser::parse_tuple(bool with_condition, std::string_view end_name,
                                            bool in_parentheses) {
  const int line = stream_.current().line;
  std::vector<ExpressionPtr> items;
  bool is_tuple = false;
  for (;;) {
    if (!items.empty()) stream_.expect_operator(",");
    const Token& token = stream_.current();
    if (token.is(Token::Type::kVariableEnd) || token.is(Token::Type::kBlockEnd) || token.is_operator(")") ||
        (!end_name.empty() && token.is_name(end_name))) {
      break;
    }
    items.push_back(parse_expression(with_condition));
    if (!stream_.current().is_operator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !items.empty()) return std::move(items[0]);
  if (!is_tuple && !in_parentheses) {
    stream_.fail(cat({"Expected an expression, got '", stream_.current().describe(), "'"}));
  }
  auto tuple = make(Node::kTuple, line);
  tuple->operands = std::move(items);
  return finish(std::move(tuple));
}

ExpressionPtr ExpressionParser::parse_target(std::string_view end_name, bool with_namespace) {
  const int line = stream_.current().line;
  std::vector<ExpressionPtr> items;
  bool is_tuple = false;
  for (;;) {
    if (!items.empty()) stream_.expect_operator(",");
    const Token& token = stream_.current();
    if (token.is(Token::Type::kBlockEnd) || (!end_name.empty() && token.is_name(end_name))) break;
    items.push_back(parse_primary(with_namespace));
    if (!stream_.current().is_operator(",")) break;
    is_tuple = true;
  }
  if (items.empty()) stream_.fail(cat({"Expected an expression, got '", stream_.current().describe(), "'"}));
  ExpressionPtr target;
  if (is_tuple) {
    target = make(Node::kTuple, line);
    target->operands = std::move(items);
    target = finish(std::move(target));
  } else {
    target = std::move(items[0]);
  }
  check_assignable(*target);
  return target;
}

void ExpressionParser::check_assignable(const Expression& target) const {
  if (target.kind == Node::kName || target.kind == Node::kNamespaceName) return;
  if (target.kind != Node::kTuple) stream_.fail_at(target.line, "can't assign to this expression");
  for (const ExpressionPtr& item : target.operands) check_assignable(*item);
}

ExpressionPtr ExpressionParser::parse_list() {
  auto list = make(Node::kList, stream_.take().line);
  while (!stream_.current().is_operator("]")) {
    if (!list->operands.empty()) stream_.expect_operator(",");
    if (stream_.current().is_operator("]")) break;
    list->operands.push_back(parse_expression());
  }
  stream_.expect_operator("]");
  return finish(std::move(list));
}

ExpressionPtr ExpressionParser::parse_dict() {
  auto dict = make(Node::kDict, stream_.take().line);
  while (!stream_.current().is_operator("}")) {
    if (!dict->operands.empty()) stream_.expect_operator(",");
    if (stream_.current().is_operator("}")) break;
    dict->operands.push_back(parse_expression());
    stream_.expect_operator(":");
    dict->operands.push_back(parse_expression());
  }
  stream_.expect_operator("}");
  return finish(std::move(dict));
}

ExpressionPtr ExpressionParser::parse_postfix(ExpressionPtr operand) {
  for (;;) {
    if (stream_.current().is_operator(".") || stream_.current().is_operator("[")) {
      operand = parse_subscript(std::move(operand));
    } else if (stream_.current().is_operator("(")) {
      auto call = make(Node::kCall, stream_.current().line);
      call->operands.push_back(std::move(operand));
      parse_arguments(*call);
      operand = finish(std::move(call));
    } else {
      return operand;
    }
  }
}

ExpressionPtr ExpressionParser::parse_filter_or_test(ExpressionPtr operand) {
  for (;;) {
    if (stream_.current().is_operator("|")) {
      operand = parse_filters(std::move(operand), false);
    } else if (stream_.current().is_name("is")) {
      operand = parse_test(std::move(operand));
    } else if (stream_.current().is_operator("(")) {
      auto call = make(Node::kCall, stream_.current().line);
      call->operands.push_back(std::move(operand));
      parse_arguments(*call);
      operand = finish(std::move(call));
    } else {
      return operand;
    }
  }
}

ExpressionPtr ExpressionParser::parse_filters(ExpressionPtr input, bool at_name) {
  while (at_name || stream_.skip_operator("|")) {
    at_name = false;
    const Token& name = stream_.expect(Token::Type::kName, "name");
    auto filter = make(Node::kFilter, name.line);
    filter->text = name.text;
    while (stream_.skip_operator(".")) filter->text += "." + stream_.expect(Token::Type::kName, "name").text;
    filter->filter = find_filter(filter->text);
    filter->operands.push_back(std::move(input));
    if (stream_.current().is_operator("(")) parse_arguments(*filter);
    input = finish(std::move(filter));
  }
  return input;
}

ExpressionPtr ExpressionParser::parse_test(ExpressionPtr operand) {
  const int line = stream_.take().line;
  const bool negated = stream_.skip_name("not");
  auto test = make(Node::kTest, line);
  test->text = stream_.expect(Token::Type::kName, "name").text;
  while (stream_.skip_operator(".")) test->text += "." + stream_.expect(Token::Type::kName, "name").text;
  test->test = find_is_test(test->text);
  test->operands.push_back(std::move(operand));
  const Token& next = stream_.current();
  const bool starts_value = next.is(Token::Type::kName) || next.is(Token::Type::kString) ||
                            next.is(Token::Type::kInteger) || next.is(Token::Type::kFloat) ||
                            next.is_operator("[") || next.is_operator("{");
  if (next.is_operator("(")) {
    parse_arguments(*test);
  } else if (starts_value && !next.is_name("else") && !next.is_name("or") && !next.is_name("and")) {
    if (next.is_name("is")) stream_.fail("You cannot chain multiple tests with is");
    test->operands.push_back(parse_postfix(parse_primary(false)));
  }
  ExpressionPtr result = finish(std::move(test));
  return negated ? make(Node::kNot, line, std::move(result)) : std::move(result);
}

ExpressionPtr ExpressionParser::parse_subscript(ExpressionPtr operand) {
  const int line = stream_.current().line;
  if (stream_.skip_operator(".")) {
    const Token& name = stream_.take();
    if (name.is(Token::Type::kInteger)) {
      return make(Node::kItem, line, std::move(operand), constant(line, Value(name.integer)));
    }
    if (!name.is(Token::Type::kName)) stream_.fail_at(name.line, "expected name or number");
    auto attribute = make(Node::kAttribute, line, std::move(operand));
    attribute->text = name.text;
    return attribute;
  }
  stream_.expect_operator("[");
  // start:stop:step, of which every part may be missing.
  ExpressionPtr parts[3];
  int colons = 0;
  if (stream_.current().is_operator("]")) {
    stream_.take();
    return make(Node::kItem, line, std::move(operand), make(Node::kTuple, line));
  }
  for (int i = 0; i < 3; ++i) {
    const Token& token = stream_.current();
    if (!token.is_operator(":") && !token.is_operator("]") && !token.is_operator(","))
      parts[i] = parse_expression();
    if (i == 2 || !stream_.skip_operator(":")) break;
    ++colons;
  }
  if (colons > 0) {
    auto slice = make(Node::kSlice, line);
    slice->operands.push_back(std::move(operand));
    for (ExpressionPtr& part : parts) slice->operands.push_back(std::move(part));
    stream_.expect_operator("]");
    return finish(std::move(slice));
  }
  ExpressionPtr index = std::move(parts[0]);
  if (stream_.current().is_operator(",")) {
    auto tuple = make(Node::kTuple, line);
    tuple->operands.push_back(std::move(index));
    while (stream_.skip_operator(",")) tuple->operands.push_back(parse_expression());
    index = finish(std::move(tuple));
  }
  stream_.expect_operator("]");
  if (index == nullptr) stream_.fail_at(line, "expected subscript expression");
  return make(Node::kItem, line, std::move(operand), std::move(index));
}

void ExpressionParser::parse_arguments(Expression& call) {
  const int line = stream_.current().line;
  stream_.expect_operator("(");
  const auto ensure = [&](bool holds) {
    if (!holds) stream_.fail_at(line, "invalid syntax for function call expression");
  };
  for (bool first = true; !stream_.current().is_operator(")"); first = false) {
    if (!first) {
      stream_.expect_operator(",");
      if (stream_.current().is_operator(")")) break;
    }
    if (stream_.skip_operator("*")) {
      ensure(call.star == nullptr && call.star_star == nullptr);
      call.star = parse_expression();
    } else if (stream_.skip_operator("**")) {
      ensure(call.star_star == nullptr);
      call.star_star = parse_expression();
    } else if (stream_.current().is(Token::Type::kName) && stream_.look().is_operator("=")) {
      ensure(call.star_star == nullptr);
      std::string name = stream_.take().text;
      stream_.take();
      call.keywords.emplace_back(std::move(name), parse_expression());
    } else {
      ensure(call.star == nullptr && call.star_star == nullptr && call.keywords.empty());
      call.operands.push_back(parse_expression());
    }
  }
  stream_.expect_operator(")");
}

}  // namespace reprise::protocol::jinja
