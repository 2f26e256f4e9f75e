#include "protocol/reply/python_call_reader.h"

#include "protocol/reply/call_text.h"

namespace reprise::protocol {
namespace {

bool is_name(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-' ||
         c == '.';
}

}  // namespace

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
    if (list_) json_.put('[', out);
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
  const Step step = json_.put(c, out);
  return step == Step::kBroken ? broken(json_.unread()) : step;
}

CallReader::Step PythonCallReader::name(char c, CallSink& out) {
  if (is_name(c)) {
    word_ += c;
    return word_.size() > kLongestCallName ? broken(1) : Step::kMore;
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
  if (state_ == State::kJson) json_.stop(out);
  if (state_ == State::kValue) out.arguments(literal_.unfinished());
}

bool PythonCallReader::between_calls() const {
  return state_ == State::kJson ? json_.between_calls() : state_ == State::kBetween && calls_ > 0;
}

}  // namespace reprise::protocol
