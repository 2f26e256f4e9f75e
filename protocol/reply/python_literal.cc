#include "protocol/reply/python_literal.h"

#include <string_view>
#include <utility>

#include "base/json.h"
#include "protocol/reply/call_reader.h"
#include "protocol/reply/call_text.h"

namespace reprise::protocol {
namespace {

bool is_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '+' ||
         c == '.' || c == '_';
}

bool is_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

}  // namespace

PythonLiteral::Step PythonLiteral::put(char c, std::string& json) {
  if (quote_ != 0) return in_string(c, json);
  if (is_word(c) && !whole_) {
    if (word_.empty()) before_item(json);
    word_ += c;
    return word_.size() > kLongestCallName ? Step::kBad : Step::kInside;
  }
  if (!word_.empty()) end_word(json);
  if (depth_ == 0 && whole_) {
    if (is_json_space(c)) return Step::kInside;
    return c == ',' || c == ')' ? Step::kEnded : Step::kBad;
  }
  switch (c) {
    case '"':
    case '\'':
      before_item(json);
      json += '"';
      quote_ = c;
      return Step::kInside;
    case '[':
    case '(':
    case '{':
      before_item(json);
      json += c == '{' ? '{' : '[';
      ++depth_;
      return Step::kInside;
    case ']':
    case ')':
    case '}':
      if (depth_ == 0) return Step::kBad;
      comma_ = false;
      json += c == '}' ? '}' : ']';
      whole_ = --depth_ == 0;
      return Step::kInside;
    case ',':
      comma_ = true;
      return depth_ == 0 ? Step::kBad : Step::kInside;
    case ':':
      json += ": ";
      return depth_ == 0 ? Step::kBad : Step::kInside;
    default:
      return is_json_space(c) ? Step::kInside : Step::kBad;
  }
}

void PythonLiteral::before_item(std::string& json) {
  if (std::exchange(comma_, false)) json += ", ";
}

void PythonLiteral::end_word(std::string& json) {
  const std::string word = std::exchange(word_, {});
  whole_ = depth_ == 0;
  if (word == "True") {
    json += "true";
  } else if (word == "False") {
    json += "false";
  } else if (word == "None") {
    json += "null";
  } else if (Json::parse(word).ok()) {
    json += word;
  } else {
    append_json_string(json, word);
  }
}

PythonLiteral::Step PythonLiteral::in_string(char c, std::string& json) {
  if (!escape_.empty()) {
    escape_ += c;
    const std::size_t digits = escape_[1] == 'u' ? 4 : escape_[1] == 'x' ? 2 : 0;
    const bool wrong = escape_.size() > 2 && !is_hex(c);
    if (!wrong && escape_.size() < digits + 2) return Step::kInside;
    const std::string escape = std::exchange(escape_, {});
    if (wrong) {
      json += json_escaped(escape.substr(0, escape.size() - 1));
      return in_string(c, json);
    }
    if (digits != 0) {
      json += (digits == 2 ? "\\u00" : "\\u") + escape.substr(2);
    } else if (std::string_view("\\\"ntrbf").find(escape[1]) != std::string_view::npos) {
      json += escape;
    } else if (escape[1] == '\'') {
      json += '\'';
    } else if (escape[1] != '\n') {  // which goes on with the string in the next line
      json += json_escaped(escape);
    }
    return Step::kInside;
  }
  if (c == quote_) {
    quote_ = 0;
    whole_ = depth_ == 0;
    json += '"';
  } else if (c == '\\') {
    escape_ = c;
  } else {
    json += json_escaped({&c, 1});
  }
  return Step::kInside;
}

}  // namespace reprise::protocol
