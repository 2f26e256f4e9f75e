#include "protocol/reply/call_reader.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "protocol/reply/call_text.h"

namespace reprise::protocol {
namespace {

struct Types {
  bool text = false;
  bool null = false;
  bool other = false;

  void add(std::string_view type) {
    if (type == "string") {
      text = true;
    } else if (type == "null") {
      null = true;
    } else {
      other = true;
    }
  }
};

void collect(const Json& schema, Types& types, int depth) {
  if (const std::string* type = schema.find_string("type")) types.add(*type);
  if (const Json::Array* several = schema.find_array("type")) {
    for (const Json& type : *several) {
      if (type.is_string()) types.add(type.as_string());
    }
  }
  if (depth == 0) return;
  for (const char* choice : {"anyOf", "oneOf"}) {
    if (const Json::Array* several = schema.find_array(choice)) {
      for (const Json& one : *several) collect(one, types, depth - 1);
    }
  }
}

// Finds the end of a JSON value, character by character. It counts brackets and tracks strings but does not
// validate, so that malformed arguments still reach the client; only characters that JSON never has outside
// strings are an error.
class JsonValueScanner {
 public:
  enum class Step : std::uint8_t {
    kInside,
    kLast,  // the value ends with this character
    kPast,  // the value ended before this character
    kBad,   // not possible in JSON
  };

  bool in_string() const { return in_string_; }

  Step put(char c) {
    if (in_string_) {
      if (escaped_) {
        escaped_ = false;
      } else if (c == '\\') {
        escaped_ = true;
      } else if (c == '"') {
        in_string_ = false;
        if (depth_ == 0) return Step::kLast;
      }
      return Step::kInside;
    }
    switch (c) {
      case '"':
        if (in_word_) return Step::kPast;
        in_string_ = true;
        return Step::kInside;
      case '{':
      case '[':
        if (in_word_) return Step::kPast;
        ++depth_;
        return Step::kInside;
      case '}':
      case ']':
        if (depth_ == 0) return in_word_ ? Step::kPast : Step::kBad;
        return --depth_ == 0 ? Step::kLast : Step::kInside;
      case ',':
      case ':':
      case ' ':
      case '\t':
      case '\r':
      case '\n':
        if (depth_ == 0) return in_word_ ? Step::kPast : Step::kBad;
        return Step::kInside;
      default:
        break;
    }
    const bool word = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                      c == '-' || c == '+' || c == '.' || c == '_';
    if (!word) return in_word_ ? Step::kPast : Step::kBad;
    if (depth_ == 0) in_word_ = true;
    return Step::kInside;
  }

 private:
  std::size_t depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
  bool in_word_ = false;  // the value is a number or a word
};

// Reads calls as JSON objects, single or in a list:
//
//   {"name": "f", "arguments": {...}}        [{"name": "f", "arguments": {...}}, ...]
//
// Members may be in any order; unknown members are skipped. Arguments are passed on as they arrive once the
// name is known. Arguments given as a string with an object are unpacked; missing or null arguments become
// {}. Raw line breaks inside strings are escaped.
//
// Without marks (bare), an object is a call only if its name is one of the request's tools.
class JsonCallReader : public CallReader {
 public:
  /// Keeps references to the arguments.
  JsonCallReader(std::string_view close, bool bare, const ToolSchemas& tools)
      : close_(close), bare_(bare), tools_(tools) {}

  Step put(char c, CallSink& out) override;
  void stop(CallSink& out) override;
  bool between_calls() const override { return state_ == State::kBetween && calls_ > 0; }

 private:
  enum class State : std::uint8_t {
    kBetween,     // before an object, or after all objects
    kKeyOrEnd,    // after { or ,
    kKey,         // inside the quotes
    kColon,       // after a key
    kValueStart,  // after the colon
    kValue,
    kAfterValue,  // expects , or }
  };
  enum class Role : std::uint8_t { kName, kArguments, kWrapper, kOther };

  Step between(char c);
  Step key_ended();
  Step value(char c, CallSink& out);
  Step value_ended(CallSink& out, std::size_t held);
  Step name_known(CallSink& out);
  Step object_ended(CallSink& out, std::size_t held);
  void begin(CallSink& out, std::size_t held);
  void add_argument(std::string_view json, CallSink& out);
  void give_kept_arguments(CallSink& out, std::size_t held);

  const std::string_view close_;
  const bool bare_;
  const ToolSchemas& tools_;

  State state_ = State::kBetween;
  bool in_list_ = false;
  std::size_t calls_ = 0;
  std::size_t close_matched_ = 0;

  // State of the current object.
  bool wrapped_ = false;  // inside {"function": {...}}
  Role role_ = Role::kOther;
  std::string key_{};
  std::string name_{};
  bool begun_ = false;
  bool arguments_seen_ = false;  // complete, or being read
  bool streams_ = false;         // the arguments are passed on as they arrive
  std::string kept_{};           // a name, or arguments that cannot be passed on yet
  std::string kept_arguments_{};
  JsonValueScanner scanner_{};
};

CallReader::Step JsonCallReader::put(char c, CallSink& out) {
  switch (state_) {
    case State::kBetween:
      return between(c);
    case State::kKeyOrEnd:
    case State::kAfterValue:
      if (is_json_space(c)) return Step::kMore;
      if (c == '}') return object_ended(out, 0);
      if (c == ',' && state_ == State::kAfterValue) {
        state_ = State::kKeyOrEnd;
        return Step::kMore;
      }
      // Tolerates a missing last brace before the closing mark.
      if (state_ == State::kAfterValue && begun_ && !close_.empty() && c == close_[0]) {
        wrapped_ = false;
        object_ended(out, 1);
        return between(c);
      }
      if (c != '"' || state_ != State::kKeyOrEnd) return broken(1);
      key_.clear();
      state_ = State::kKey;
      return Step::kMore;
    case State::kKey:
      if (c == '"') return key_ended();
      key_ += c;
      return key_.size() > kMaxCallNameLength ? broken(1) : Step::kMore;
    case State::kColon:
      if (is_json_space(c)) return Step::kMore;
      if (c != ':') return broken(1);
      state_ = State::kValueStart;
      return Step::kMore;
    case State::kValueStart:
      if (is_json_space(c)) return Step::kMore;
      if (role_ == Role::kWrapper && c == '{') {
        wrapped_ = true;
        state_ = State::kKeyOrEnd;
        return Step::kMore;
      }
      if (role_ == Role::kWrapper) role_ = c == '"' ? Role::kName : Role::kOther;
      if (role_ == Role::kName && c != '"') return broken(1);
      if (role_ == Role::kArguments) {
        arguments_seen_ = true;
        streams_ = c == '{' || c == '[';
        if (!begun_ && !name_.empty()) begin(out, 1);
      }
      kept_.clear();
      scanner_ = {};
      state_ = State::kValue;
      return value(c, out);
    case State::kValue:
      return value(c, out);
  }
  return broken(1);
}

CallReader::Step JsonCallReader::between(char c) {
  if (close_matched_ > 0 || (!close_.empty() && calls_ > 0 && c == close_[0])) {
    if (c != close_[close_matched_]) return broken(close_matched_ + 1);
    return ++close_matched_ == close_.size() ? Step::kDone : Step::kMore;
  }
  if (is_json_space(c)) return Step::kMore;
  if (c == '{') {
    name_.clear();
    kept_arguments_.clear();
    wrapped_ = begun_ = arguments_seen_ = false;
    state_ = State::kKeyOrEnd;
    return Step::kMore;
  }
  if (c == '[' && !in_list_ && calls_ == 0 && !bare_) {
    in_list_ = true;
    return Step::kMore;
  }
  if (calls_ == 0) return broken(1);
  if (c == ']' && in_list_) {
    in_list_ = false;
    return close_.empty() ? Step::kDone : Step::kMore;
  }
  const bool separates = c == ',' || (bare_ && c == ';');
  const bool superfluous = c == '}' && !bare_;  // tolerates one extra brace, a common mistake
  return separates || superfluous ? Step::kMore : broken(1);
}

CallReader::Step JsonCallReader::key_ended() {
  state_ = State::kColon;
  if (key_ == "name") {
    role_ = name_.empty() ? Role::kName : Role::kOther;
  } else if (key_ == "arguments" || key_ == "parameters") {
    role_ = arguments_seen_ ? Role::kOther : Role::kArguments;
  } else if (key_ == "function" && name_.empty() && !wrapped_) {
    role_ = Role::kWrapper;
  } else {
    role_ = Role::kOther;
    // Some other JSON: reject it early instead of withholding it to its end.
    if (bare_ && key_ != "type" && key_ != "id") return broken(1);
  }
  return Step::kMore;
}

CallReader::Step JsonCallReader::value(char c, CallSink& out) {
  const bool was_in_string = scanner_.in_string();
  const JsonValueScanner::Step step = scanner_.put(c);
  if (step == JsonValueScanner::Step::kBad) {
    if (!begun_ || close_.empty() || c != close_[0]) return broken(1);
    give_kept_arguments(out, 1);  // closed within its arguments
    out.end(1);
    ++calls_;
    state_ = State::kBetween;
    return between(c);
  }
  if (step == JsonValueScanner::Step::kPast) {
    const Step ended = value_ended(out, 1);
    return ended == Step::kMore ? put(c, out) : ended;
  }
  if (role_ == Role::kArguments && streams_) {
    add_argument(json_mended(c, was_in_string), out);
  } else if (role_ != Role::kOther) {
    kept_ += c;
    if (role_ == Role::kName && kept_.size() > kMaxCallNameLength) return broken(1);
  }
  return step == JsonValueScanner::Step::kLast ? value_ended(out, 0) : Step::kMore;
}

void JsonCallReader::add_argument(std::string_view json, CallSink& out) {
  if (begun_) {
    out.arguments(json);
  } else {
    kept_arguments_ += json;
  }
}

CallReader::Step JsonCallReader::value_ended(CallSink& out, std::size_t held) {
  state_ = State::kAfterValue;
  if (role_ == Role::kName) return name_known(out);
  if (role_ == Role::kArguments && !streams_) {
    kept_arguments_ = std::exchange(kept_, {});
    if (kept_arguments_ == "null") kept_arguments_ = "{}";
    const auto unpacked = Json::parse(kept_arguments_);
    if (unpacked.ok() && unpacked->is_string() && unpacked->as_string().starts_with('{')) {
      kept_arguments_ = unpacked->as_string();
    }
    if (begun_) give_kept_arguments(out, held);
  }
  return Step::kMore;
}

CallReader::Step JsonCallReader::name_known(CallSink& out) {
  const auto name = Json::parse(kept_);
  kept_.clear();
  if (!name.ok() || name->as_string().empty()) return broken(1);
  if (bare_ && !tools_.has(name->as_string())) return broken(1);
  name_ = name->as_string();
  if (arguments_seen_ || !bare_) {
    begin(out, 0);
    give_kept_arguments(out, 0);
  }
  return Step::kMore;
}

void JsonCallReader::begin(CallSink& out, std::size_t held) {
  begun_ = true;
  out.begin(name_, {}, held);
}

void JsonCallReader::give_kept_arguments(CallSink& out, std::size_t held) {
  if (!kept_arguments_.empty()) out.arguments(std::exchange(kept_arguments_, {}), held);
}

CallReader::Step JsonCallReader::object_ended(CallSink& out, std::size_t held) {
  if (wrapped_) {
    wrapped_ = false;
    state_ = State::kAfterValue;
    return Step::kMore;
  }
  if (name_.empty()) return broken(1);
  if (!begun_) begin(out, held);
  give_kept_arguments(out, held);
  if (!arguments_seen_) out.arguments("{}", held);
  out.end(held);
  ++calls_;
  state_ = State::kBetween;
  return close_.empty() && !in_list_ && !bare_ ? Step::kDone : Step::kMore;
}

void JsonCallReader::stop(CallSink& out) {
  if (!begun_ || state_ == State::kBetween) return;
  give_kept_arguments(out, 0);
  if (state_ == State::kValue && role_ == Role::kArguments && !kept_.empty()) out.arguments(kept_);
}

// Reads calls as a name, a separator and JSON arguments between marks:
//
//   Kimi       <|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{...}<|tool_call_end|>
//   DeepSeek   <｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{...}\n```<｜tool▁call▁end｜>
//   Mistral    f[ARGS]{...}
class NamedCallReader : public CallReader {
 public:
  /// Keeps a reference to `format`.
  explicit NamedCallReader(const ReplyFormat& format);

  Step put(char c, CallSink& out) override;
  void stop(CallSink&) override {}  // arguments are never withheld
  bool between_calls() const override {
    return calls_ > 0 && (state_ == State::kBetween || state_ == State::kItemEnd);
  }

 private:
  enum class State : std::uint8_t {
    kBetween,         // expects an item's mark or the closing mark
    kHeader,          // until the separator
    kTypedName,       // one line
    kArgumentsStart,  // spaces and a fence
    kArguments,
    kItemEnd,
  };

  Step between(char c);
  Step header(char c, CallSink& out);
  Step arguments(char c, CallSink& out);
  Step item_end(char c);
  Step begin(CallSink& out, std::size_t held);

  const ReplyFormat& format_;

  State state_;
  std::size_t calls_ = 0;
  std::string mark_{};    // the part read so far
  std::string header_{};  // text before the arguments
  MarkFinder separator_;
  JsonValueScanner scanner_{};
};

constexpr std::string_view kFence = "```json";

NamedCallReader::NamedCallReader(const ReplyFormat& format)
    : format_(format),
      state_(format.item_open.empty() ? State::kHeader : State::kBetween),
      separator_({format.name_separator}) {}

CallReader::Step NamedCallReader::put(char c, CallSink& out) {
  switch (state_) {
    case State::kBetween:
      return between(c);
    case State::kHeader:
      return header(c, out);
    case State::kTypedName:
      if (c == '\n') return begin(out, 0);
      header_ += c;
      return header_.size() > kMaxCallNameLength ? broken(1) : Step::kMore;
    case State::kArgumentsStart:
      if (mark_.empty() && is_json_space(c)) return Step::kMore;
      if (c == '{' && (mark_.empty() || mark_ == kFence)) {
        mark_.clear();
        state_ = State::kArguments;
        return arguments(c, out);
      }
      if (mark_ == kFence && is_json_space(c)) return Step::kMore;
      mark_ += c;
      return kFence.starts_with(mark_) ? Step::kMore : broken(mark_.size());
    case State::kArguments:
      return arguments(c, out);
    case State::kItemEnd:
      return item_end(c);
  }
  return broken(1);
}

CallReader::Step NamedCallReader::between(char c) {
  if (mark_.empty() && is_json_space(c)) return Step::kMore;
  mark_ += c;
  if (mark_ == format_.item_open) {
    mark_.clear();
    header_.clear();
    separator_.clear();
    state_ = State::kHeader;
    return Step::kMore;
  }
  if (calls_ > 0 && mark_ == format_.call_close) return Step::kDone;
  const bool possible = std::string_view(format_.item_open).starts_with(mark_) ||
                        (calls_ > 0 && std::string_view(format_.call_close).starts_with(mark_));
  return possible ? Step::kMore : broken(mark_.size());
}

CallReader::Step NamedCallReader::header(char c, CallSink& out) {
  // The separator is a special token, which some decoders do not show.
  if (c == '{' && format_.header == ReplyFormat::Header::kPlain) {
    header_ += separator_.held();
    separator_.clear();
    const Step step = begin(out, 1);
    return step == Step::kMore ? put(c, out) : step;
  }
  if (separator_.put(c, header_) == MarkFinder::kNone) {
    return header_.size() > kMaxCallNameLength ? broken(1) : Step::kMore;
  }
  if (format_.header != ReplyFormat::Header::kTyped) return begin(out, 0);
  header_.clear();
  state_ = State::kTypedName;
  return Step::kMore;
}

CallReader::Step NamedCallReader::begin(CallSink& out, std::size_t held) {
  constexpr std::string_view kIdMark = "[CALL_ID]";
  constexpr std::string_view kNamespace = "functions.";
  std::string_view name = trimmed(header_);
  std::string id;
  if (format_.header == ReplyFormat::Header::kKimi) {
    id = name;
    if (name.starts_with(kNamespace)) name.remove_prefix(kNamespace.size());
    name = name.substr(0, name.rfind(':'));
  } else if (const std::size_t at = name.find(kIdMark); at != std::string_view::npos) {
    id = name.substr(at + kIdMark.size());
    name = trimmed(name.substr(0, at));
  }
  if (name.empty()) return broken(1);
  out.begin(std::string(name), std::move(id), held);
  scanner_ = {};
  mark_.clear();
  state_ = State::kArgumentsStart;
  return Step::kMore;
}

CallReader::Step NamedCallReader::arguments(char c, CallSink& out) {
  const bool was_in_string = scanner_.in_string();
  const JsonValueScanner::Step step = scanner_.put(c);
  if (step == JsonValueScanner::Step::kBad) {
    if (format_.item_close.empty() || c != format_.item_close[0]) return broken(1);
    out.end(1);  // closed within its arguments
    ++calls_;
    state_ = State::kItemEnd;
    return item_end(c);
  }
  out.arguments(json_mended(c, was_in_string));
  if (step != JsonValueScanner::Step::kLast) return Step::kMore;
  out.end();
  ++calls_;
  state_ = State::kItemEnd;
  return format_.item_close.empty() ? Step::kDone : Step::kMore;
}

CallReader::Step NamedCallReader::item_end(char c) {
  if (mark_.empty() && (is_json_space(c) || c == '`')) return Step::kMore;
  mark_ += c;
  if (mark_ == format_.item_close) {
    mark_.clear();
    state_ = State::kBetween;
    return Step::kMore;
  }
  return std::string_view(format_.item_close).starts_with(mark_) ? Step::kMore : broken(mark_.size());
}

}  // namespace

const Json* ToolSchemas::find(std::string_view tool) const {
  if (!tools_.is_array()) return nullptr;
  for (const Json& item : tools_.as_array()) {
    const Json* function = item.find_object("function");
    if (function == nullptr) function = &item;
    const std::string* name = function->find_string("name");
    if (name != nullptr && *name == tool) return function;
  }
  return nullptr;
}

ToolSchemas::Kind ToolSchemas::kind_of(std::string_view tool, std::string_view parameter) const {
  const Json* found = find(tool);
  for (const char* step : {"parameters", "properties"}) {
    if (found != nullptr) found = found->find_object(step);
  }
  if (found != nullptr) found = found->find_object(parameter);
  if (found == nullptr) return Kind::kJson;
  Types types;
  collect(*found, types, 4);
  if (!types.text) return Kind::kJson;
  return types.null ? Kind::kMixed : Kind::kText;
}

std::unique_ptr<CallReader> make_json_call_reader(std::string_view close, bool bare,
                                                  const ToolSchemas& tools) {
  return std::make_unique<JsonCallReader>(close, bare, tools);
}

std::unique_ptr<CallReader> make_call_reader(const ReplyFormat& format, const ToolSchemas& tools) {
  switch (format.calls) {
    case ReplyFormat::Calls::kNone:
      break;
    case ReplyFormat::Calls::kJson:
      return make_json_call_reader(format.call_close, false, tools);
    case ReplyFormat::Calls::kBareJson:
      return make_json_call_reader("", true, tools);
    case ReplyFormat::Calls::kXml:
      return make_xml_call_reader(format.call_close, tools);
    case ReplyFormat::Calls::kNamed:
      return std::make_unique<NamedCallReader>(format);
    case ReplyFormat::Calls::kPython:
      return make_python_call_reader(format.call_close, tools);
  }
  REPRISE_CHECK(false, "a call was read in a format without calls");
  return nullptr;
}

}  // namespace reprise::protocol
