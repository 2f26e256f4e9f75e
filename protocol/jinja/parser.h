#pragma once
// Parses a template's source to a Program: Jinja's grammar with transformers' extensions (break, continue,
// generation). Recursion is bounded by kMaxNesting, the height of expressions by kMaxExpressionDepth.

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/jinja/ast.h"
#include "protocol/jinja/error.h"
#include "protocol/jinja/lexer.h"

namespace reprise::protocol::jinja {

/// The tokens of a template with a cursor, and syntax errors.
class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& look() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }

  /// Returns the current token and advances, except at the end.
  const Token& take() {
    const Token& token = tokens_[at_];
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }

  bool skip_name(std::string_view name) { return current().is_name(name) && (take(), true); }
  bool skip_operator(std::string_view sign) { return current().is_operator(sign) && (take(), true); }

  const Token& expect(Token::Type type, std::string_view what) {
    if (!current().is(type)) fail_expected(what);
    return take();
  }
  void expect_operator(std::string_view sign) {
    if (!skip_operator(sign)) fail_expected(sign);
  }
  void expect_name(std::string_view name) {
    if (!skip_name(name)) fail_expected(name);
  }

  [[noreturn]] void fail(std::string reason) const { fail_at(current().line, std::move(reason)); }
  [[noreturn]] void fail_at(int line, std::string reason) const {
    throw Failure(TemplateError::Kind::kSyntax, std::move(reason), line);
  }
  [[noreturn]] void fail_expected(std::string_view what) const {
    fail("expected token '" + std::string(what) + "', got '" + current().describe() + "'");
  }

 private:
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};

/// Numbers the variable names.
class NameTable {
 public:
  NameId id(const std::string& name) {
    const auto [entry, fresh] = ids_.try_emplace(name, static_cast<NameId>(names_.size()));
    if (fresh) names_.push_back(name);
    return entry->second;
  }
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::map<std::string, NameId> ids_;
  std::vector<std::string> names_;
};

/// Counts a nesting level for its lifetime; fails above kMaxNesting.
class Nesting {
 public:
  Nesting(int& depth, const TokenStream& stream) : depth_(depth) {
    if (depth_ >= kMaxNesting) {
      stream.fail("the template is nested deeper than " + std::to_string(kMaxNesting) + " levels");
    }
    ++depth_;
  }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;
  ~Nesting() { --depth_; }

 private:
  int& depth_;
};

class ExpressionParser {
 public:
  ExpressionParser(TokenStream& stream, NameTable& names) : stream_(stream), names_(names) {}

  ExpressionPtr parse_expression(bool with_condition = true);

  /// Parses an expression, or several separated by commas. `end_name` may replace a further item.
  ExpressionPtr parse_tuple(bool with_condition = true, std::string_view end_name = {},
                            bool in_parentheses = false);

  /// Parses an assignment target: names, tuples of names and, if allowed, attributes of a namespace.
  ExpressionPtr parse_target(std::string_view end_name = {}, bool with_namespace = false);

  /// Parses a chain of filters over `input`, which is null in a filter block. `at_name`: the first filter has
  /// no '|'.
  ExpressionPtr parse_filters(ExpressionPtr input, bool at_name);

  /// Which of these names were read since the last reset.
  struct SpecialNames {
    bool caller = false;
    bool varargs = false;
    bool kwargs = false;
  };
  SpecialNames special;

  int& nesting() { return nesting_; }

 private:
  ExpressionPtr make(Expression::Kind kind, int line);
  ExpressionPtr make(Expression::Kind kind, int line, ExpressionPtr a, ExpressionPtr b = nullptr);
  ExpressionPtr finish(ExpressionPtr expression) const;
  ExpressionPtr constant(int line, Value value);

  ExpressionPtr parse_or();
  ExpressionPtr parse_and();
  ExpressionPtr parse_not();
  ExpressionPtr parse_compare();
  ExpressionPtr parse_sum();
  ExpressionPtr parse_concat();
  ExpressionPtr parse_product();
  ExpressionPtr parse_power();
  ExpressionPtr parse_unary(bool with_filter);
  ExpressionPtr parse_primary(bool with_namespace);
  ExpressionPtr parse_list();
  ExpressionPtr parse_dict();
  ExpressionPtr parse_postfix(ExpressionPtr operand);
  ExpressionPtr parse_filter_or_test(ExpressionPtr operand);
  ExpressionPtr parse_subscript(ExpressionPtr operand);
  ExpressionPtr parse_test(ExpressionPtr operand);
  void parse_arguments(Expression& call);
  void check_assignable(const Expression& target) const;

  TokenStream& stream_;
  NameTable& names_;
  int nesting_ = 0;
};

/// Throws a kSyntax Failure with the line.
std::shared_ptr<const Program> parse_template(std::string_view source);

}  // namespace reprise::protocol::jinja
