#pragma once
// The tokens of a template: text between tags, and names, literals and operators inside them.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::protocol::jinja {

struct Token {
  enum class Type : std::uint8_t {
    kData,           // text outside of tags
    kVariableBegin,  // {{
    kVariableEnd,    // }}
    kBlockBegin,     // {%
    kBlockEnd,       // %}
    kName,
    kString,   // its value, escapes resolved
    kInteger,  // `integer`
    kFloat,    // `number`
    kOperator,
    kEnd,
  };

  Type type = Type::kEnd;
  int line = 1;
  std::string text{};
  std::int64_t integer = 0;
  double number = 0;

  bool is(Type wanted) const { return type == wanted; }
  bool is_name(std::string_view name) const { return type == Type::kName && text == name; }
  bool is_operator(std::string_view sign) const { return type == Type::kOperator && text == sign; }

  /// For messages.
  std::string describe() const;
};

/// Cuts a template into tokens; the last is kEnd. White space around tags is handled as transformers set it
/// up: trim_blocks and lstrip_blocks. Fails with a line for what is no token.
std::vector<Token> tokenize(std::string_view source);

}  // namespace reprise::protocol::jinja
