#include "protocol/jinja/parser.h"

#include <initializer_list>

#include "protocol/jinja/builtins.h"
#include "protocol/jinja/error.h"
#include "protocol/jinja/lexer.h"
#include "protocol/jinja/unicode.h"

namespace reprise::protocol::jinja {
namespace {

using StatementPtr = std::unique_ptr<Statement>;
using Kind = Statement::Kind;

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : stream_(std::move(tokens)), expressions_(stream_, names_) {}

  std::shared_ptr<const Program> run() {
    auto program = std::make_shared<Program>();
    program->body = parse_body({});
    program->loop = names_.id("loop");
    program->caller = names_.id("caller");
    program->varargs = names_.id("varargs");
    program->kwargs = names_.id("kwargs");
    program->names = names_.names();
    for (const std::string& name : program->names) {
      program->undefined.push_back(Value::undefined(cat({"'", name, "' is undefined"})));
      program->globals.push_back(find_global(name).value_or(program->undefined.back()));
    }
    return program;
  }

 private:
  // Statements up to a tag with one of the names, which stays current; or, without names, to the end.
  Block parse_body(std::initializer_list<std::string_view> ends) {
    const Nesting nesting(expressions_.nesting(), stream_);
    Block body;
    for (;;) {
      const Token& token = stream_.current();
      if (token.is(Token::Type::kEnd)) {
        if (ends.size() > 0) fail_unclosed(ends);
        return body;
      }
      if (token.is(Token::Type::kData)) {
        StatementPtr text = make(Kind::kText);
        text->data = stream_.take().text;
        body.push_back(std::move(text));
      } else if (token.is(Token::Type::kVariableBegin)) {
        stream_.take();
        StatementPtr print = make(Kind::kPrint);
        print->expression = expressions_.parse_tuple();
        stream_.expect(Token::Type::kVariableEnd, "end of print statement");
        body.push_back(std::move(print));
      } else {
        stream_.expect(Token::Type::kBlockBegin, "begin of statement block");
        for (const std::string_view end : ends) {
          if (stream_.current().is_name(end)) return body;
        }
        body.push_back(parse_statement());
        stream_.expect(Token::Type::kBlockEnd, "end of statement block");
      }
    }
  }

  [[noreturn]] void fail_unclosed(std::initializer_list<std::string_view> ends) const {
    std::string wanted;
    for (const std::string_view end : ends) {
      if (!wanted.empty()) wanted += " or ";
      wanted.append("'").append(end).append("'");
    }
    stream_.fail(
        cat({"Unexpected end of template. Jinja was looking for the following tags: ", wanted, "."}));
  }

  // The rest of an opening tag and the body behind it, without its end tag.
  Block parse_block(std::string_view end) {
    Block body = parse_block_until({end});
    stream_.take();
    return body;
  }
  Block parse_block_until(std::initializer_list<std::string_view> ends) {
    stream_.skip_operator(":");
    stream_.expect(Token::Type::kBlockEnd, "end of statement block");
    return parse_body(ends);
  }

  StatementPtr make(Kind kind) const {
    auto statement = std::make_unique<Statement>();
    statement->kind = kind;
    statement->line = stream_.current().line;
    return statement;
  }

  StatementPtr parse_statement() {
    const Token& token = stream_.current();
    if (!token.is(Token::Type::kName)) stream_.fail("tag name expected");
    const std::string& tag = token.text;
    if (tag == "if") return parse_if();
    if (tag == "for") return parse_for();
    if (tag == "set") return parse_set();
    if (tag == "macro") return parse_macro();
    if (tag == "call") return parse_call();
    if (tag == "filter") return parse_filter();
    if (tag == "with") return parse_with();
    if (tag == "print") return parse_print();
    if (tag == "generation") return parse_generation();
    if (tag == "block") return parse_named_block();
    if (tag == "autoescape") return parse_autoescape();
    if (tag == "break" || tag == "continue") return parse_loop_control();
    if (tag == "include" || tag == "import" || tag == "from" || tag == "extends") return parse_other_file();
    stream_.fail(cat({"Encountered unknown tag '", tag, "'."}));
  }

  StatementPtr parse_if() {
    StatementPtr statement = make(Kind::kIf);
    stream_.take();
    for (;;) {
      Statement::Branch branch;
      branch.condition = expressions_.parse_tuple(false);
      branch.body = parse_block_until({"elif", "else", "endif"});
      statement->branches.push_back(std::move(branch));
      const Token& end = stream_.take();
      if (end.text == "elif") continue;
      if (end.text == "else") statement->branches.push_back({nullptr, parse_block("endif")});
      return statement;
    }
  }

  StatementPtr parse_for() {
    StatementPtr statement = make(Kind::kFor);
    stream_.take();
    statement->target = expressions_.parse_target("in");
    stream_.expect_name("in");
    statement->expression = expressions_.parse_tuple(false, "recursive");
    if (stream_.skip_name("if")) statement->condition = expressions_.parse_expression();
    statement->is_recursive = stream_.skip_name("recursive");
    ++loops_;
    statement->body = parse_block_until({"endfor", "else"});
    --loops_;
    if (stream_.take().text == "else") statement->otherwise = parse_block("endfor");
    return statement;
  }

  StatementPtr parse_set() {
    StatementPtr statement = make(Kind::kSet);
    stream_.take();
    statement->target = expressions_.parse_target({}, true);
    if (stream_.skip_operator("=")) {
      statement->expression = expressions_.parse_tuple();
      return statement;
    }
    statement->kind = Kind::kSetBlock;
    statement->expression = expressions_.parse_filters(nullptr, false);
    statement->body = parse_block("endset");
    return statement;
  }

  void parse_signature(MacroDefinition& macro) {
    stream_.expect_operator("(");
    while (!stream_.current().is_operator(")")) {
      if (!macro.parameters.empty()) stream_.expect_operator(",");
      const std::string& name = stream_.expect(Token::Type::kName, "name").text;
      macro.parameters.push_back(names_.id(name));
      macro.parameter_names.push_back(name);
      if (stream_.skip_operator("=")) {
        macro.defaults.push_back(expressions_.parse_expression());
      } else if (!macro.defaults.empty()) {
        stream_.fail("non-default argument follows default argument");
      }
    }
    stream_.expect_operator(")");
  }

  // The body of a macro, and which of the special names it reads.
  void parse_macro_body(MacroDefinition& macro, std::string_view end) {
    const auto outside = std::exchange(expressions_.special, {});
    const int loops_outside = std::exchange(loops_, 0);
    macro.body = parse_block(end);
    loops_ = loops_outside;
    const auto inside = expressions_.special;
    macro.takes_caller = inside.caller;
    macro.takes_varargs = inside.varargs;
    macro.takes_kwargs = inside.kwargs;
    expressions_.special = {outside.caller || inside.caller, outside.varargs || inside.varargs,
                            outside.kwargs || inside.kwargs};
  }

  StatementPtr parse_macro() {
    StatementPtr statement = make(Kind::kMacro);
    stream_.take();
    statement->macro = std::make_unique<MacroDefinition>();
    statement->macro->name = stream_.expect(Token::Type::kName, "name").text;
    statement->name = names_.id(statement->macro->name);
    parse_signature(*statement->macro);
    parse_macro_body(*statement->macro, "endmacro");
    return statement;
  }

  StatementPtr parse_call() {
    StatementPtr statement = make(Kind::kCallBlock);
    stream_.take();
    statement->macro = std::make_unique<MacroDefinition>();
    statement->macro->name = "caller";
    if (stream_.current().is_operator("(")) parse_signature(*statement->macro);
    statement->expression = expressions_.parse_expression();
    if (statement->expression->kind != Expression::Kind::kCall)
      stream_.fail_at(statement->line, "expected call");
    parse_macro_body(*statement->macro, "endcall");
    return statement;
  }

  StatementPtr parse_filter() {
    StatementPtr statement = make(Kind::kFilterBlock);
    stream_.take();
    statement->expression = expressions_.parse_filters(nullptr, true);
    statement->body = parse_block("endfilter");
    return statement;
  }

  StatementPtr parse_with() {
    StatementPtr statement = make(Kind::kWith);
    stream_.take();
    while (!stream_.current().is(Token::Type::kBlockEnd)) {
      if (!statement->assignments.empty()) stream_.expect_operator(",");
      ExpressionPtr target = expressions_.parse_target();
      stream_.expect_operator("=");
      statement->assignments.emplace_back(std::move(target), expressions_.parse_expression());
    }
    statement->body = parse_block("endwith");
    return statement;
  }

  StatementPtr parse_print() {
    StatementPtr statement = make(Kind::kScope);
    stream_.take();
    while (!stream_.current().is(Token::Type::kBlockEnd)) {
      if (!statement->body.empty()) stream_.expect_operator(",");
      StatementPtr print = make(Kind::kPrint);
      print->expression = expressions_.parse_expression();
      statement->body.push_back(std::move(print));
    }
    return statement;
  }

  // Marks what the model says, for training; the text is what it is.
  StatementPtr parse_generation() {
    StatementPtr statement = make(Kind::kScope);
    stream_.take();
    const int loops_outside = std::exchange(loops_, 0);
    statement->body = parse_block("endgeneration");
    loops_ = loops_outside;
    return statement;
  }

  StatementPtr parse_named_block() {
    StatementPtr statement = make(Kind::kScope);
    stream_.take();
    const std::string name = stream_.expect(Token::Type::kName, "name").text;
    stream_.skip_name("scoped");
    stream_.skip_name("required");
    const int loops_outside = std::exchange(loops_, 0);
    statement->body = parse_block("endblock");
    loops_ = loops_outside;
    stream_.skip_name(name);
    return statement;
  }

  StatementPtr parse_autoescape() {
    StatementPtr statement = make(Kind::kScope);
    stream_.take();
    const ExpressionPtr enabled = expressions_.parse_expression();
    const bool is_off = enabled->kind == Expression::Kind::kConstant && enabled->constant.is_bool() &&
                        !enabled->constant.as_bool();
    if (!is_off) stream_.fail_at(statement->line, "autoescape is not supported: prompts are not HTML");
    statement->body = parse_block("endautoescape");
    return statement;
  }

  StatementPtr parse_loop_control() {
    StatementPtr statement = make(stream_.current().text == "break" ? Kind::kBreak : Kind::kContinue);
    if (loops_ == 0) stream_.fail(cat({"'", stream_.current().text, "' outside loop"}));
    stream_.take();
    return statement;
  }

  // Fails when it is rendered, not when it is read: it may stand in a branch that is never taken.
  StatementPtr parse_other_file() {
    StatementPtr statement = make(Kind::kRefused);
    statement->data =
        "'" + stream_.take().text + "' needs another template, and a chat template stands alone";
    while (!stream_.current().is(Token::Type::kBlockEnd) && !stream_.current().is(Token::Type::kEnd))
      stream_.take();
    return statement;
  }

  TokenStream stream_;
  NameTable names_;
  ExpressionParser expressions_;
  int loops_ = 0;  // that a break here would leave
};

}  // namespace

std::shared_ptr<const Program> parse_template(std::string_view source) {
  if (source.size() > kMaxSourceBytes) {
    throw Failure(TemplateError::Kind::kSyntax, "the template has " + std::to_string(source.size()) +
                                                    " bytes; the limit is " +
                                                    std::to_string(kMaxSourceBytes));
  }
  if (!is_utf8(source)) throw Failure(TemplateError::Kind::kSyntax, "the template is not valid UTF-8");
  return Parser(tokenize(source)).run();
}

}  // namespace reprise::protocol::jinja
