#pragma once
// A parsed template: expressions, statements and the names they use.
//
// Built once by the parser and never changed. Names of variables are numbers, places in Program::names.
// Threading: const access from any thread.

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
  enum class Kind : std::uint8_t {
    kConstant,       // constant
    kName,           // name
    kNamespaceName,  // name.text, to be assigned to
    kTuple,          // operands
    kList,           // operands
    kDict,           // operands: key, value, key, value…
    kAttribute,      // operands[0].text
    kItem,           // operands[0][operands[1]]
    kSlice,          // operands[0][operands[1]:operands[2]:operands[3]], null where left open
    kCall,           // operands[0](operands[1…], keywords, *star, **star_star)
    kFilter,         // operands[0] | text(…), as a call; operands[0] is null in a filter block
    kTest,           // operands[0] is text(…)
    kBinary,         // operands[0] op operands[1]
    kNegative,       // -operands[0]
    kPositive,       // +operands[0]
    kNot,            // not operands[0]
    kAnd,            // operands[0] and operands[1]
    kOr,             // operands[0] or operands[1]
    kCompare,        // operands[0] comparisons[0] operands[1] comparisons[1] …
    kConcat,         // operands[0] ~ operands[1] ~ …
    kCondition,      // operands[0] if operands[1] else operands[2], null without else
  };

  Kind kind = Kind::kConstant;
  BinaryOperator op = BinaryOperator::kAdd;
  int line = 0;
  int depth = 1;  // of the tree below, this included
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

/// What a macro is, or the body that a call block hands over.
struct MacroDefinition {
  std::string name;
  std::vector<NameId> parameters;
  std::vector<std::string> parameter_names;
  std::vector<ExpressionPtr> defaults;  // of the last parameters
  bool takes_caller = false;
  bool takes_varargs = false;
  bool takes_kwargs = false;
  Block body;
};

struct Statement {
  enum class Kind : std::uint8_t {
    kText,         // data
    kPrint,        // expression
    kIf,           // branches, the last without condition for else
    kFor,          // target in expression if condition; body, otherwise
    kSet,          // target = expression
    kSetBlock,     // target = body, through expression if there is a filter
    kMacro,        // macro
    kCallBlock,    // expression, a call, with macro as caller
    kFilterBlock,  // body through expression
    kWith,         // targets = values; body
    kScope,        // body with names of its own
    kBreak,
    kContinue,
    kRefused,  // data: why it does not work here
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
  std::vector<Value> undefined;    // what each name is when nothing defines it
  std::vector<Value> globals;      // the builtin function of that name, or undefined
  NameId loop = -1;
  NameId caller = -1;
  NameId varargs = -1;
  NameId kwargs = -1;
};

}  // namespace reprise::protocol::jinja
