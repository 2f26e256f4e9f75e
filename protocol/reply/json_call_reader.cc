#include "protocol/reply/json_call_reader.h"

#include <utility>

#include "protocol/reply/call_text.h"

namespace reprise::protocol {

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
      // A model that forgets the last brace still closes the call.
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
      return key_.size() > kLongestCallName ? broken(1) : Step::kMore;
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
  const bool superfluous = c == '}' && !bare_;  // one brace too many is a usual slip
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
    // A reply that is some other JSON should not have to wait for its end.
    if (bare_ && key_ != "type" && key_ != "id") return broken(1);
  }
  return Step::kMore;
}

CallReader::Step JsonCallReader::value(char c, CallSink& out) {
  const bool was_in_string = scanner_.in_string();
  const JsonValueScanner::Step step = scanner_.put(c);
  if (step == JsonValueScanner::Step::kBad) {
    if (!begun_ || close_.empty() || c != close_[0]) return broken(1);
    give_kept_arguments(out, 1);  // closed in the middle of its arguments
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
    if (role_ == Role::kName && kept_.size() > kLongestCallName) return broken(1);
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

}  // namespace reprise::protocol
