#pragma once
// The tokens under the parser's finger, and its way to complain.
//
// Threading: one parse.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/jinja/error.h"
#include "protocol/jinja/token.h"

namespace reprise::protocol::jinja {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& look() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }

  /// The current token; moves behind it, but never behind the end.
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

}  // namespace reprise::protocol::jinja
