// Readers of calls whose values are not JSON: XML tags and Python syntax.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "protocol/reply/call_reader.h"
#include "protocol/reply/call_text.h"

namespace reprise::protocol {
namespace {

// Returns the JSON of a value written as plain text. Text that is not JSON becomes a string; Python's True,
// False and None are converted.
std::string json_of_bare_value(std::string_view text, ToolSchemas::Kind kind) {
  const std::string_view bare = trimmed(text);
  if (kind != ToolSchemas::Kind::kText && (bare == "null" || bare == "None")) return "null";
  if (kind == ToolSchemas::Kind::kJson) {
    if (bare == "True") return "true";
    if (bare == "False") return "false";
    if (Json::parse(bare).ok()) return std::string(bare);
  }
  std::string quoted;
  append_json_string(quoted, text);
  return quoted;
}

// Reads calls in tags, with parameters as plain text:
//
//   <function=f>
//   <parameter=key>
//   value
//   </parameter>
//   </function>
//
// The parameters become one JSON object. One newline at each end of a value belongs to the tags. Strings are
// passed on as they arrive, other values when they are complete.
class XmlCallReader : public CallReader {
 public:
  /// Keeps references to the arguments.
  XmlCallReader(std::string_view close, const ToolSchemas& tools) : close_(close), tools_(tools) {}

  Step put(char c, CallSink& out) override;
  void stop(CallSink& out) override;
  bool between_calls() const override { return state_ == State::kBetween && calls_ > 0; }

 private:
  enum class State : std::uint8_t {
    kBetween,     // expects <function= or the closing mark
    kName,        // text up to '>'
    kParameters,  // expects <parameter= or </function>
    kKey,         // text up to '>'
    kValue,
  };

  Step tag(char c, CallSink& out);
  Step tag_read(CallSink& out);
  Step name(char c, CallSink& out);
  Step value(char c, CallSink& out);
  void start_value(CallSink& out);
  void end_call(CallSink& out);

  const std::string_view close_;
  const ToolSchemas& tools_;

  State state_ = State::kBetween;
  std::size_t calls_ = 0;
  std::string tag_{};  // the part read so far
  std::string text_{};
  std::string function_{};
  bool has_parameters_ = false;
  ToolSchemas::Kind kind_ = ToolSchemas::Kind::kJson;
  bool value_starts_ = false;
  MarkFinder value_end_{{"</parameter>", "\n</parameter>"}};
};

constexpr std::string_view kFunction = "<function=";
constexpr std::string_view kFunctionEnd = "</function>";
constexpr std::string_view kParameter = "<parameter=";

CallReader::Step XmlCallReader::put(char c, CallSink& out) {
  switch (state_) {
    case State::kBetween:
    case State::kParameters:
      return tag(c, out);
    case State::kName:
    case State::kKey:
      return name(c, out);
    case State::kValue:
      return value(c, out);
  }
  return broken(1);
}

CallReader::Step XmlCallReader::tag(char c, CallSink& out) {
  if (tag_.empty() && is_json_space(c)) return Step::kMore;
  tag_ += c;
  const bool inside = state_ == State::kParameters;
  const std::array<std::string_view, 3> tags = {inside ? kParameter : kFunction,
                                                inside ? kFunctionEnd : close_, inside ? close_ : kFunction};
  bool possible = false;
  for (const std::string_view one : tags) {
    if (one == tag_) return tag_read(out);
    if (one.starts_with(tag_)) possible = true;
  }
  return possible ? Step::kMore : broken(tag_.size());
}

CallReader::Step XmlCallReader::tag_read(CallSink& out) {
  const std::string read = std::move(tag_);
  tag_.clear();
  text_.clear();
  if (read == kFunction) {
    state_ = State::kName;
  } else if (read == kParameter) {
    state_ = State::kKey;
  } else if (read == kFunctionEnd) {
    end_call(out);
  } else {
    if (state_ == State::kParameters) end_call(out);  // </function> is missing
    return calls_ > 0 ? Step::kDone : broken(read.size());
  }
  return Step::kMore;
}

CallReader::Step XmlCallReader::name(char c, CallSink& out) {
  if (c != '>') {
    text_ += c;
    const bool possible = c != '\n' && c != '<' && text_.size() <= kMaxCallNameLength;
    return possible ? Step::kMore : broken(1);
  }
  const std::string name(trimmed(text_));
  if (name.empty()) return broken(1);
  if (state_ == State::kKey) {
    text_ = name;
    start_value(out);
    return Step::kMore;
  }
  function_ = name;
  has_parameters_ = false;
  out.begin(name, {});
  state_ = State::kParameters;
  return Step::kMore;
}

void XmlCallReader::start_value(CallSink& out) {
  kind_ = tools_.kind_of(function_, text_);
  std::string json = has_parameters_ ? ", " : "{";
  append_json_string(json, text_);
  json += kind_ == ToolSchemas::Kind::kText ? ": \"" : ": ";
  out.arguments(json);
  has_parameters_ = true;
  value_starts_ = true;
  text_.clear();
  value_end_.clear();
  state_ = State::kValue;
}

CallReader::Step XmlCallReader::value(char c, CallSink& out) {
  if (value_starts_) {
    value_starts_ = false;
    if (c == '\n') return Step::kMore;
  }
  const bool streams = kind_ == ToolSchemas::Kind::kText;
  const bool ended = value_end_.put(c, text_) != MarkFinder::kNone;
  if (streams && !text_.empty()) {
    out.arguments(json_escaped(text_), value_end_.held().size());
    text_.clear();
  }
  if (ended) {
    out.arguments(streams ? "\"" : json_of_bare_value(text_, kind_));
    state_ = State::kParameters;
  }
  return Step::kMore;
}

void XmlCallReader::end_call(CallSink& out) {
  out.arguments(has_parameters_ ? "}" : "{}");
  out.end();
  ++calls_;
  state_ = State::kBetween;
}

void XmlCallReader::stop(CallSink& out) {
  if (state_ != State::kValue) return;
  text_ += value_end_.held();
  if (text_.empty()) return;
  out.arguments(kind_ == ToolSchemas::Kind::kText ? json_escaped(text_) : text_);
}

// Converts a Python literal to JSON, character by character: strings in either quotes, numbers, True, False,
// None, lists, tuples and dictionaries.
class PythonLiteral {
 public:
  enum class Step : std::uint8_t {
    kInside,
    kEnded,  // before this character, a comma or a closing parenthesis
    kBad,    // this character cannot be part of a literal
  };

  /// Appends the JSON that is known so far to `json`.
  Step put(char c, std::string& json);

  /// Returns input that is not in the JSON yet.
  const std::string& unfinished() const { return word_; }

 private:
  Step in_string(char c, std::string& json);
  void end_word(std::string& json);
  void before_item(std::string& json);

  std::size_t depth_ = 0;
  bool whole_ = false;  // depth 0: the value is complete
  bool comma_ = false;  // write it if another item follows
  char quote_ = 0;      // quote character of the current string
  std::string escape_{};
  std::string word_{};
};

bool is_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '+' ||
         c == '.' || c == '_';
}

bool is_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

PythonLiteral::Step PythonLiteral::put(char c, std::string& json) {
  if (quote_ != 0) return in_string(c, json);
  if (is_word(c) && !whole_) {
    if (word_.empty()) before_item(json);
    word_ += c;
    return word_.size() > kMaxCallNameLength ? Step::kBad : Step::kInside;
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
    } else if (escape[1] != '\n') {  // backslash-newline continues the string
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

// Reads calls in Python syntax: [f(key="value", other=1), g()]. Keyword arguments only; they become one JSON
// object, passed on as it grows. Also accepts JSON calls between the same marks, which some prompts request.
class PythonCallReader : public CallReader {
 public:
  /// Keeps references to the arguments.
  PythonCallReader(std::string_view close, const ToolSchemas& tools)
      : close_(close), json_(make_json_call_reader(close, false, tools)) {}

  Step put(char c, CallSink& out) override;
  void stop(CallSink& out) override;
  bool between_calls() const override;

 private:
  enum class State : std::uint8_t {
    kBetween,  // expects a call or the closing mark
    kName,     // name up to '('
    kKeyOrEnd,
    kKey,  // key up to '='
    kValue,
    kJson,  // the reply uses JSON instead
  };

  Step between(char c, CallSink& out);
  Step json(char c, CallSink& out);
  Step name(char c, CallSink& out);
  Step value(char c, CallSink& out);
  Step call_ended(CallSink& out);

  const std::string_view close_;
  const std::unique_ptr<CallReader> json_;  // reader of the JSON form

  State state_ = State::kBetween;
  bool list_ = false;
  std::size_t calls_ = 0;
  std::size_t close_matched_ = 0;
  std::string word_{};  // a name or key
  bool has_arguments_ = false;
  PythonLiteral literal_{};
};

bool is_name(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-' ||
         c == '.';
}

CallReader::Step PythonCallReader::put(char c, CallSink& out) {
  switch (state_) {
    case State::kBetween:
      return between(c, out);
    case State::kName:
    case State::kKey:
      return name(c, out);
    case State::kKeyOrEnd:
      if (is_json_space(c) || (c == ',' && has_arguments_)) return Step::kMore;
      if (c == ')') return call_ended(out);
      if (!is_name(c)) return broken(1);
      word_ = c;
      state_ = State::kKey;
      return Step::kMore;
    case State::kValue:
      return value(c, out);
    case State::kJson:
      return json(c, out);
  }
  return broken(1);
}

CallReader::Step PythonCallReader::between(char c, CallSink& out) {
  if (close_matched_ > 0 || (calls_ > 0 && c == close_[0])) {
    if (c != close_[close_matched_]) return broken(close_matched_ + 1);
    return ++close_matched_ == close_.size() ? Step::kDone : Step::kMore;
  }
  if (is_json_space(c)) return Step::kMore;
  if (c == '{' && calls_ == 0) {
    state_ = State::kJson;
    if (list_) json_->put('[', out);
    return json(c, out);
  }
  if (is_name(c)) {
    word_ = c;
    state_ = State::kName;
    return Step::kMore;
  }
  if (c == '[' && !list_ && calls_ == 0) {
    list_ = true;
    return Step::kMore;
  }
  return calls_ > 0 && (c == ',' || (c == ']' && list_)) ? Step::kMore : broken(1);
}

CallReader::Step PythonCallReader::json(char c, CallSink& out) {
  const Step step = json_->put(c, out);
  return step == Step::kBroken ? broken(json_->unread()) : step;
}

CallReader::Step PythonCallReader::name(char c, CallSink& out) {
  if (is_name(c)) {
    word_ += c;
    return word_.size() > kMaxCallNameLength ? broken(1) : Step::kMore;
  }
  if (state_ == State::kName && c == '(') {
    out.begin(word_, {});
    has_arguments_ = false;
    state_ = State::kKeyOrEnd;
    return Step::kMore;
  }
  if (state_ == State::kKey && is_json_space(c)) return Step::kMore;
  if (state_ == State::kKey && c == '=') {
    std::string start = has_arguments_ ? ", " : "{";
    append_json_string(start, word_);
    out.arguments(start + ": ");
    has_arguments_ = true;
    literal_ = {};
    state_ = State::kValue;
    return Step::kMore;
  }
  return broken(1);
}

CallReader::Step PythonCallReader::value(char c, CallSink& out) {
  std::string json;
  const PythonLiteral::Step step = literal_.put(c, json);
  if (!json.empty()) out.arguments(json, step == PythonLiteral::Step::kInside ? 0 : 1);
  if (step == PythonLiteral::Step::kBad) return broken(1);
  if (step == PythonLiteral::Step::kInside) return Step::kMore;
  state_ = State::kKeyOrEnd;
  return c == ')' ? call_ended(out) : Step::kMore;
}

CallReader::Step PythonCallReader::call_ended(CallSink& out) {
  out.arguments(has_arguments_ ? "}" : "{}");
  out.end();
  ++calls_;
  state_ = State::kBetween;
  return Step::kMore;
}

void PythonCallReader::stop(CallSink& out) {
  if (state_ == State::kJson) json_->stop(out);
  if (state_ == State::kValue) out.arguments(literal_.unfinished());
}

bool PythonCallReader::between_calls() const {
  return state_ == State::kJson ? json_->between_calls() : state_ == State::kBetween && calls_ > 0;
}

}  // namespace

std::unique_ptr<CallReader> make_xml_call_reader(std::string_view close, const ToolSchemas& tools) {
  return std::make_unique<XmlCallReader>(close, tools);
}

std::unique_ptr<CallReader> make_python_call_reader(std::string_view close, const ToolSchemas& tools) {
  return std::make_unique<PythonCallReader>(close, tools);
}

}  // namespace reprise::protocol
