#include "protocol/reply/xml_call_reader.h"

#include <array>

#include "protocol/reply/call_text.h"

namespace reprise::protocol {
namespace {

constexpr std::string_view kFunction = "<function=";
constexpr std::string_view kFunctionEnd = "</function>";
constexpr std::string_view kParameter = "<parameter=";

}  // namespace

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
    if (state_ == State::kParameters) end_call(out);  // </function> was forgotten
    return calls_ > 0 ? Step::kDone : broken(read.size());
  }
  return Step::kMore;
}

CallReader::Step XmlCallReader::name(char c, CallSink& out) {
  if (c != '>') {
    text_ += c;
    const bool possible = c != '\n' && c != '<' && text_.size() <= kLongestCallName;
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

}  // namespace reprise::protocol
