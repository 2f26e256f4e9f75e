#include "protocol/reply/named_call_reader.h"

#include <string_view>

#include "protocol/reply/call_text.h"

namespace reprise::protocol {
namespace {

constexpr std::string_view kFence = "```json";

}  // namespace

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
      return header_.size() > kLongestCallName ? broken(1) : Step::kMore;
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
  // The separator is a special token, which not every way of decoding shows.
  if (c == '{' && format_.header == ReplyFormat::Header::kPlain) {
    header_ += separator_.held();
    separator_.clear();
    const Step step = begin(out, 1);
    return step == Step::kMore ? put(c, out) : step;
  }
  if (separator_.put(c, header_) == MarkFinder::kNone) {
    return header_.size() > kLongestCallName ? broken(1) : Step::kMore;
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
    out.end(1);  // closed in the middle of its arguments
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

}  // namespace reprise::protocol
