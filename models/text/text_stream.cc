#include "models/text/text_stream.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"

namespace reprise::models {

StopStrings::StopStrings(std::vector<std::string> stops) {
  for (std::string& text : stops) {
    Stop stop;
    stop.text = std::move(text);
    stop.shorter.assign(stop.text.size() + 1, 0);
    for (std::size_t length = 2; length <= stop.text.size(); ++length) {
      std::size_t shorter = stop.shorter[length - 1];
      while (shorter > 0 && stop.text[shorter] != stop.text[length - 1]) shorter = stop.shorter[shorter];
      if (stop.text[shorter] == stop.text[length - 1]) ++shorter;
      stop.shorter[length] = shorter;
    }
    stops_.push_back(std::move(stop));
  }
}

void StopStrings::advance(Stop& stop, char byte) {
  while (stop.matched > 0 && stop.text[stop.matched] != byte) stop.matched = stop.shorter[stop.matched];
  if (stop.text[stop.matched] == byte) ++stop.matched;
}

std::string StopStrings::push(std::string_view text) {
  if (match_) return {};
  for (std::size_t at = 0; at < text.size(); ++at) {
    for (std::size_t index = 0; index < stops_.size(); ++index) {
      Stop& stop = stops_[index];
      if (stop.text.empty()) continue;
      advance(stop, text[at]);
      if (stop.matched < stop.text.size()) continue;
      const std::size_t begin = taken_ + at + 1 - stop.text.size();
      if (!match_ || begin < match_->position) match_ = StopMatch{index, begin};
    }
    if (match_) {
      held_ += text.substr(0, at + 1);
      held_.resize(held_.size() - (taken_ + at + 1 - match_->position));
      return std::exchange(held_, {});
    }
  }
  taken_ += text.size();
  held_ += text;
  std::size_t kept = 0;
  for (const Stop& stop : stops_) kept = std::max(kept, stop.matched);
  std::string out = held_.substr(0, held_.size() - kept);
  held_.erase(0, out.size());
  return out;
}

std::string StopStrings::flush() {
  return match_ ? std::string() : std::exchange(held_, {});
}

TextStream::TextStream(const Tokenizer& tokenizer, DecodeOptions options, std::vector<std::string> stops)
    : tokenizer_(&tokenizer),
      options_(options),
      state_(tokenizer.begin_decode(options)),
      stops_(std::move(stops)) {}

std::string TextStream::push(TokenId id) {
  tokenizer_->decode_next(id, options_, state_, pending_);
  // Find the end of the last complete character.
  std::size_t end = pending_.size();
  for (std::size_t back = 1; back <= 3 && back <= pending_.size(); ++back) {
    const std::size_t at = pending_.size() - back;
    const Utf8Char read = read_utf8(pending_, at);
    if (read.is_partial && at + read.length == pending_.size()) end = at;
  }
  std::string text;
  append_valid_utf8(text, std::string_view(pending_).substr(0, end));
  pending_.erase(0, end);
  return stops_.push(text);
}

std::string TextStream::flush() {
  std::string text;
  append_valid_utf8(text, std::exchange(pending_, {}));
  std::string out = stops_.push(text);
  return out += stops_.flush();
}

}  // namespace reprise::models
