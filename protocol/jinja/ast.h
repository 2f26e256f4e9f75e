#pragma once
// Syntax tree of a parsed template: expressions, statements and the variable names they use. Variables are
// numbered; Program::names has the names.
//
// Threading: immutable after parsing.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/jinja/builtins.h"
#include "protocol/jinja/operators.h"
#include "protocol/jinja/value.h"

namespace reprise::protocol::jinja {

using NameId = int;

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

enum class CompareOperator : std::uint8_t {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn
};

struct Expression {
  // The comments name the members that each kind uses.
  enum class Kind : std::uint8_t {
    kConstant,
    kName,           // name
    kNamespaceName,  // name.text as an assignment target
    kTuple,          // operands
    kList,           // operands
    kDict,           // operands: key, value, key, value...
    kAttribute,      // operands[0].text
    kItem,           // operands[0][operands[1]]
    kSlice,          // operands[0][operands[1]:operands[2]:operands[3]]; null: open bound
    kCall,           // operands[0](operands[1...], keywords, *star, **star_star)
    kFilter,         // operands[0] | text(...), stored like a call; operands[0] is null in a filter block
    kTest,           // operands[0] is text(...)
    kBinary,         // operands[0] op operands[1]
    kNegative,       // -operands[0]
    kPositive,       // +operands[0]
    kNot,            // not operands[0]
    kAnd,            // operands[0] and operands[1]
    kOr,             // operands[0] or operands[1]
    kCompare,        // operands[0] comparisons[0] operands[1] comparisons[1] ...
    kConcat,         // operands[0] ~ operands[1] ~ ...
    kCondition,      // operands[0] if operands[1] else operands[2]; null: no else
  };

  Kind kind = Kind::kConstant;
  BinaryOperator op = BinaryOperator::kAdd;
  int line = 0;
  int depth = 1;  // height of this subtree
  NameId name = -1;
  Value constant{};
  std::string text{};
  Filter filter = nullptr;
  IsTest test = nullptr;
  std::vector<ExpressionPtr> operands{};
  std::vector<CompareOperator> comparisons{};
  std::vector<std::pair<std::string, ExpressionPtr>> keywords{};
  ExpressionPtr star{};
  ExpressionPtr star_star{};
};

struct Statement;
using Block = std::vector<std::unique_ptr<Statement>>;

/// A macro, or the body of a call block.
struct MacroDefinition {
  std::string name;
  std::vector<NameId> parameters;
  std::vector<std::string> parameter_names;
  std::vector<ExpressionPtr> defaults;  // defaults of the last parameters
  bool takes_caller = false;
  bool takes_varargs = false;
  bool takes_kwargs = false;
  Block body;
};

struct Statement {
  // The comments name the members that each kind uses.
  enum class Kind : std::uint8_t {
    kText,
    kPrint,     // expression
    kIf,        // branches; the last has no condition if it is else
    kFor,       // target in expression if condition; body, otherwise
    kSet,       // target = expression
    kSetBlock,  // target = body, filtered by expression if there is one
    kMacro,
    kCallBlock,    // expression (a call) with macro as its caller
    kFilterBlock,  // body filtered by expression
    kWith,         // targets = values; body
    kScope,        // body in its own scope
    kBreak,
    kContinue,
    kRefused,  // unsupported statement; data: error message
  };

  struct Branch {
    ExpressionPtr condition;
    Block body;
  };

  Kind kind = Kind::kText;
  int line = 0;
  bool is_recursive = false;
  NameId name = -1;
  std::string data{};
  ExpressionPtr expression{};
  ExpressionPtr condition{};
  ExpressionPtr target{};
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> assignments{};
  std::vector<Branch> branches{};
  Block body{};
  Block otherwise{};
  std::unique_ptr<MacroDefinition> macro{};
};

struct Program {
  Block body;
  std::vector<std::string> names;  // by NameId
  std::vector<Value> undefined;    // the undefined value of each name
  std::vector<Value> globals;      // the builtin function of each name, or undefined
  NameId loop = -1;
  NameId caller = -1;
  NameId varargs = -1;
  NameId kwargs = -1;
};

}  // namespace reprise::protocol::jinja
