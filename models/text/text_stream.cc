#include "models/text/text_stream.h"

#include <utility>

#include "base/utf8.h"

namespace reprise::models {

TextStream::TextStream(const Tokenizer& tokenizer, DecodeOptions options, std::vector<std::string> stops)
    : tokenizer_(&tokenizer),
      options_(options),
      state_(tokenizer.begin_decode(options)),
      stops_(std::move(stops)) {}

std::string TextStream::push(TokenId id) {
  tokenizer_->decode_next(id, options_, state_, pending_);
  // Everything but an unfinished character at the end.
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
