#pragma once
// The expressions of a template.
//
// Threading: one parse.

#include <map>
#include <string>
#include <string_view>

#include "protocol/jinja/ast.h"
#include "protocol/jinja/limits.h"
#include "protocol/jinja/token_stream.h"

namespace reprise::protocol::jinja {

/// Gives every variable name its number.
class NameTable {
 public:
  NameId id(const std::string& name) {
    const auto [place, fresh] = ids_.try_emplace(name, static_cast<NameId>(names_.size()));
    if (fresh) names_.push_back(name);
    return place->second;
  }
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::map<std::string, NameId> ids_;
  std::vector<std::string> names_;
};

/// Counts a level of nesting for as long as it lives; fails beyond kMaxNesting.
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

  /// An expression, or several with commas between them. `end_name` may follow instead of another item.
  ExpressionPtr parse_tuple(bool with_condition = true, std::string_view end_name = {},
                            bool in_parentheses = false);

  /// What can be assigned to: names, tuples of them and, if allowed, attributes of a namespace.
  ExpressionPtr parse_target(std::string_view end_name = {}, bool with_namespace = false);

  /// A chain of filters over `input`, which is null in a filter block. `at_name`: the first has no bar.
  ExpressionPtr parse_filters(ExpressionPtr input, bool at_name);

  /// The names among caller, varargs and kwargs that have been read since this was cleared.
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
  ExpressionPtr finish(ExpressionPtr expression) const;  // measures and checks its depth
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

}  // namespace reprise::protocol::jinja
