#include "models/text/tokenizer.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/utf8.h"
#include "models/files/load_error.h"
#include "models/text/byte_alphabet.h"
#include "models/text/piece_cache.h"
#include "models/text/piece_models.h"
#include "models/text/pre_tokenizer.h"
#include "models/text/string_table.h"
#include "models/text/unicode.h"

namespace reprise::models {
namespace {

constexpr std::size_t kCacheSlots = 1 << 14;
constexpr std::size_t kMaxTextLength = std::size_t{1} << 30;

// -- tables by id

constexpr std::size_t kMaxTokens = std::size_t{1} << 22;

std::size_t count_ids(const TokenizerSpec& spec) {
  std::size_t count = spec.tokens.size();
  for (const AddedToken& token : spec.added) count = std::max(count, static_cast<std::size_t>(token.id) + 1);
  return count;
}

// Drops unk, bos, … from the spec if their ids are out of range. Throws LoadError, naming spec.source, if ids
// of tokens or added tokens are.
TokenizerSpec check_ids(TokenizerSpec spec) {
  for (const AddedToken& token : spec.added) {
    if (token.id < 0) throw LoadError(spec.source, token.content, "an added token with a negative id");
  }
  const std::size_t count = count_ids(spec);
  if (count > kMaxTokens) throw LoadError(spec.source, "vocab", "ids past 4194303");
  for (std::optional<TokenId>* id : {&spec.unk, &spec.bos, &spec.eos, &spec.pad}) {
    if (*id && (**id < 0 || static_cast<std::size_t>(**id) >= count)) id->reset();
  }
  return spec;
}

// Tables by id: text in the vocabulary, bytes it decodes to, whether it is special. Require: check_ids() was
// applied.
std::vector<std::string> texts_by_id(const TokenizerSpec& spec) {
  std::vector<std::string> texts = spec.tokens;
  texts.resize(count_ids(spec));
  for (const AddedToken& token : spec.added) texts[token.id] = token.content;
  return texts;
}

// `text` with every `from` replaced by `to`.
std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  std::size_t done = 0;
  for (std::size_t at; !from.empty() && (at = text.find(from, done)) != std::string_view::npos;) {
    out.append(text.substr(done, at - done)).append(to);
    done = at + from.size();
  }
  return out.append(text.substr(done));
}

std::vector<std::string> bytes_by_id(const TokenizerSpec& spec) {
  std::vector<std::string> bytes = texts_by_id(spec);
  std::vector<bool> is_added(bytes.size());
  for (const AddedToken& token : spec.added) is_added[token.id] = true;
  for (std::size_t id = 0; id < bytes.size(); ++id) {
    const TokenType type = id < spec.types.size() ? spec.types[id] : TokenType::kNormal;
    if (type == TokenType::kUnused && !is_added[id]) {
      bytes[id].clear();
      continue;
    }
    const bool may_be_byte = spec.decoder.byte_tokens && (spec.types.empty() || type == TokenType::kByte);
    if (const auto byte = may_be_byte ? byte_of_fallback_token(bytes[id]) : std::nullopt) {
      bytes[id] = std::string(1, static_cast<char>(*byte));
      continue;
    }
    if (spec.decoder.alphabet == DecoderSpec::Alphabet::kByteLevel && !is_added[id]) {
      // A token outside the alphabet decodes to its own text.
      if (auto decoded = from_letters(bytes[id])) bytes[id] = std::move(*decoded);
    }
    for (const auto& [from, to] : spec.decoder.replacements) bytes[id] = replace_all(bytes[id], from, to);
  }
  return bytes;
}

std::vector<bool> specials_by_id(const TokenizerSpec& spec) {
  std::vector<bool> flags(count_ids(spec));
  for (std::size_t id = 0; id < std::min(spec.types.size(), flags.size()); ++id) {
    flags[id] = spec.types[id] == TokenType::kControl || spec.types[id] == TokenType::kUnknown;
  }
  for (const AddedToken& token : spec.added) {
    if (token.special) flags[token.id] = true;
  }
  return flags;
}

// True if U+2581 is a token, and no token has it after another character. Then merges never cross word
// boundaries, and words can be encoded separately.
bool keeps_words_apart(const TokenizerSpec& spec) {
  const auto crosses = [](const std::string& token) {
    for (std::size_t at = 0; (at = token.find(kSpaceMark, at + 1)) != std::string::npos;) {
      if (!std::string_view(token).substr(0, at).ends_with(kSpaceMark)) return true;
    }
    return false;
  };
  const bool merges = spec.model == TokenizerModel::kBpe || spec.model == TokenizerModel::kSpm;
  if (!merges || spec.byte_level) return false;
  return std::find(spec.tokens.begin(), spec.tokens.end(), kSpaceMark) != spec.tokens.end() &&
         std::none_of(spec.tokens.begin(), spec.tokens.end(), crosses);
}

// -- added tokens

bool is_word_before(std::string_view text, std::size_t at) {
  return at > 0 && is_word_character(read_valid_utf8(text, previous_utf8(text, at)).code_point);
}

bool is_word_after(std::string_view text, std::size_t at) {
  return at < text.size() && is_word_character(read_valid_utf8(text, at).code_point);
}

std::size_t skip_space_back(std::string_view text, std::size_t at, std::size_t limit) {
  while (at > limit) {
    const std::size_t before = previous_utf8(text, at);
    if (!(char_class(read_valid_utf8(text, before).code_point) & kSpace)) break;
    at = before;
  }
  return at;
}

std::size_t skip_space(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    const Utf8Char read = read_valid_utf8(text, at);
    if (!(char_class(read.code_point) & kSpace)) break;
    at += read.length;
  }
  return at;
}

// Splits a text at the added tokens recognized in it: leftmost first, longest at each offset. A token that
// must be a single word but is not is skipped together with its text.
class AddedTokens {
 public:
  // Matches by token.content; `id` need not be unique.
  explicit AddedTokens(std::vector<AddedToken> tokens);

  bool is_empty() const { return trie_.is_empty(); }

  struct Segment {
    std::string_view text;  // includes white space swallowed by the token
    TokenId id = -1;        // -1: text between tokens
  };

  // The segments of `text` in order; none is empty. Without `parse_special`, special tokens are text.
  // Requires: valid UTF-8.
  std::vector<Segment> split(std::string_view text, bool parse_special) const;

 private:
  std::vector<AddedToken> tokens_;
  ByteTrie trie_;  // indices in tokens_
};

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) trie_.add(tokens_[i].content, static_cast<TokenId>(i));
}

std::vector<AddedTokens::Segment> AddedTokens::split(std::string_view text, bool parse_special) const {
  std::vector<Segment> segments;
  const auto is_wanted = [&](TokenId index) { return parse_special || !tokens_[index].special; };
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (!trie_.can_begin(text[at])) {
      ++at;
      continue;
    }
    const ByteTrie::Match match = trie_.longest(text, at, is_wanted);
    if (match.id < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[match.id];
    std::size_t begin = at;
    std::size_t end = at + match.length;
    at = end;
    if (token.single_word && (is_word_before(text, begin) || is_word_after(text, end))) continue;
    if (token.lstrip) begin = skip_space_back(text, begin, done);
    if (token.rstrip) at = end = skip_space(text, end);
    if (begin > done) segments.push_back({text.substr(done, begin - done)});
    segments.push_back({text.substr(begin, end - begin), token.id});
    done = end;
  }
  if (done < text.size()) segments.push_back({text.substr(done)});
  return segments;
}

std::vector<AddedToken> select(const TokenizerSpec& spec, bool normalized) {
  std::vector<AddedToken> chosen;
  std::copy_if(spec.added.begin(), spec.added.end(), std::back_inserter(chosen),
               [&](const AddedToken& token) { return token.normalized == normalized; });
  return chosen;
}

// Added tokens matched in normalized text; their content is normalized as well.
std::vector<AddedToken> select_normalized(const TokenizerSpec& spec, const Normalizer& normalizer) {
  std::vector<AddedToken> chosen = select(spec, true);
  for (AddedToken& token : chosen) {
    std::string valid, storage;
    append_valid_utf8(valid, token.content);
    token.content = std::string(normalizer.run(valid, storage));
  }
  return chosen;
}

using PieceModel = std::variant<Bpe, Spm, Unigram, WordPiece, LongestMatch>;

PieceModel build_model(const TokenizerSpec& spec, const StringTable& tokens) {
  switch (spec.model) {
    case TokenizerModel::kBpe:
      return PieceModel(std::in_place_type<Bpe>, spec, tokens);
    case TokenizerModel::kSpm:
      return PieceModel(std::in_place_type<Spm>, spec, tokens);
    case TokenizerModel::kUnigram:
      return PieceModel(std::in_place_type<Unigram>, spec, tokens);
    case TokenizerModel::kWordPiece:
      return PieceModel(std::in_place_type<WordPiece>, spec, tokens);
    case TokenizerModel::kMaxMatch:
      break;
  }
  return PieceModel(std::in_place_type<LongestMatch>, spec, tokens);
}

}  // namespace

struct Tokenizer::Impl {
  explicit Impl(const TokenizerSpec& spec)
      : tokens(spec.tokens),
        texts(texts_by_id(spec)),
        bytes(bytes_by_id(spec), /*with_find=*/false),
        is_special(specials_by_id(spec)),
        model(build_model(spec, tokens)),
        normalizer(spec.normalizer, spec.source),
        pre_tokenizer(spec.pre_tokenizer, spec.source),
        added(select(spec, false)),
        added_normalized(select_normalized(spec, normalizer)),
        decoder(spec.decoder),
        keeps_words_apart(models::keeps_words_apart(spec)),
        cache(kCacheSlots),
        takes_any_bytes(spec.byte_level || spec.model == TokenizerModel::kMaxMatch),
        unk(spec.unk),
        bos(spec.bos),
        eos(spec.eos),
        pad(spec.pad),
        add_bos(spec.add_bos),
        add_eos(spec.add_eos) {}

  class Encoder;

  bool has(TokenId id) const { return id >= 0 && static_cast<std::size_t>(id) < texts.size(); }

  StringTable tokens;  // the model's own, by id
  StringTable texts;   // including added tokens
  StringTable bytes;   // bytes each decodes to
  std::vector<bool> is_special;
  PieceModel model;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  AddedTokens added;
  AddedTokens added_normalized;
  DecoderSpec decoder;
  bool keeps_words_apart;
  mutable PieceCache cache;
  bool takes_any_bytes;
  std::optional<TokenId> unk, bos, eos, pad;
  bool add_bos, add_eos;
};

// One call of encode(): collects the ids of the pieces.
class Tokenizer::Impl::Encoder final : public PieceSink {
 public:
  Encoder(const Impl& impl, EncodeOptions options, EncodeWork& work)
      : impl_(impl), options_(options), work_(work), session_(impl.pre_tokenizer, work) {}

  void piece(std::string_view bytes) override {
    if (!impl_.keeps_words_apart) return word(bytes);
    while (!bytes.empty()) {  // split before each mark that follows another character
      std::size_t end = 0;
      while (bytes.substr(end).starts_with(kSpaceMark)) end += kSpaceMark.size();
      end = std::min(bytes.find(kSpaceMark, end), bytes.size());
      word(bytes.substr(0, end));
      bytes.remove_prefix(end);
    }
  }

  void valid_text(std::string_view text, bool is_first) {
    if (impl_.added.is_empty()) return plain_text(text, is_first);
    for (const AddedTokens::Segment& segment : impl_.added.split(text, options_.parse_special)) {
      if (segment.id >= 0) {
        ids.push_back(segment.id);
      } else {
        plain_text(segment.text, is_first && segment.text.data() == text.data());
      }
    }
  }

  std::vector<TokenId> ids;

 private:
  void word(std::string_view bytes) {
    const bool is_short = bytes.size() <= PieceCache::kMaxPieceLength;
    const std::uint64_t hash = is_short ? hash_of(bytes) : 0;
    if (is_short && impl_.cache.find(bytes, hash, ids)) return;
    const std::size_t before = ids.size();
    if (const auto* bpe = std::get_if<Bpe>(&impl_.model)) {
      bpe->encode(bytes, bpe_scratch_, work_, ids);
    } else if (const auto* spm = std::get_if<Spm>(&impl_.model)) {
      spm->encode(bytes, spm_scratch_, work_, ids);
    } else if (const auto* unigram = std::get_if<Unigram>(&impl_.model)) {
      unigram->encode(bytes, unigram_scratch_, work_, ids);
    } else if (const auto* words = std::get_if<WordPiece>(&impl_.model)) {
      words->encode(bytes, work_, ids);
    } else {
      std::get<LongestMatch>(impl_.model).encode(bytes, work_, ids);
    }
    if (is_short) impl_.cache.put(bytes, hash, std::span(ids).subspan(before));
  }

  void plain_text(std::string_view text, bool is_first) {
    const std::string_view normal = impl_.normalizer.run(text, normalized_);
    if (impl_.added_normalized.is_empty()) return impl_.pre_tokenizer.run(normal, is_first, session_, *this);
    for (const AddedTokens::Segment& segment : impl_.added_normalized.split(normal, options_.parse_special)) {
      if (segment.id >= 0) {
        ids.push_back(segment.id);
      } else {
        impl_.pre_tokenizer.run(segment.text, is_first && segment.text.data() == normal.data(), session_,
                                *this);
      }
    }
  }

  const Impl& impl_;
  EncodeOptions options_;
  EncodeWork& work_;
  PreTokenizer::Session session_;
  Bpe::Scratch bpe_scratch_;
  Spm::Scratch spm_scratch_;
  Unigram::Scratch unigram_scratch_;
  std::string normalized_;
};

Tokenizer::Tokenizer(TokenizerSpec spec) : impl_(std::make_unique<const Impl>(check_ids(std::move(spec)))) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

std::vector<TokenId> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  if (text.size() > kMaxTextLength) throw std::length_error("the text to encode is longer than 1 GiB");
  EncodeWork uncounted;
  Impl::Encoder encoder(*impl_, options, options.work ? *options.work : uncounted);

  std::size_t valid = valid_utf8_prefix(text);
  if (valid < text.size() && !impl_->takes_any_bytes) {
    std::string replaced;
    append_valid_utf8(replaced, text);
    encoder.valid_text(replaced, true);
    return std::move(encoder.ids);
  }
  for (std::size_t at = 0; at < text.size(); valid = valid_utf8_prefix(text.substr(at))) {
    encoder.valid_text(text.substr(at, valid), at == 0);
    at += valid;
    std::size_t malformed_end = at;
    while (malformed_end < text.size()) {
      const Utf8Char read = read_utf8(text, malformed_end);
      if (read.is_valid) break;
      malformed_end += read.length;
    }
    encoder.piece(text.substr(at, malformed_end - at));
    at = malformed_end;
  }
  return std::move(encoder.ids);
}

Tokenizer::DecodeState Tokenizer::begin_decode(DecodeOptions options) const {
  DecodeState state;
  state.strippable = options.continuation ? 0 : impl_->decoder.strip_leading_spaces;
  state.is_first = !options.continuation;
  return state;
}

void Tokenizer::decode_next(TokenId id, DecodeOptions options, DecodeState& state, std::string& out) const {
  if (!impl_->has(id) || (options.skip_special && impl_->is_special[id])) return;
  std::string_view bytes = impl_->bytes[id];
  std::string unspaced;
  if (state.is_first && impl_->decoder.strip_first_token) {
    unspaced = std::string(impl_->texts[id]);
    for (const auto& [from, to] : impl_->decoder.replacements) unspaced = replace_all(unspaced, from, "");
    if (unspaced.size() != impl_->texts[id].size()) bytes = unspaced;
  }
  state.is_first = false;
  while (state.strippable > 0 && !bytes.empty()) {
    if (bytes.front() == ' ') {
      bytes.remove_prefix(1);
      --state.strippable;
    } else {
      state.strippable = 0;
    }
  }
  out += bytes;
}

std::string Tokenizer::decode_bytes(std::span<const TokenId> ids, DecodeOptions options) const {
  std::string out;
  DecodeState state = begin_decode(options);
  for (const TokenId id : ids) decode_next(id, options, state, out);
  return out;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, DecodeOptions options) const {
  const std::string bytes = decode_bytes(ids, options);
  std::string text;
  text.reserve(bytes.size());
  append_valid_utf8(text, bytes);
  return text;
}

std::size_t Tokenizer::vocab_size() const {
  return impl_->texts.size();
}

std::string_view Tokenizer::token_text(TokenId id) const {
  return impl_->has(id) ? impl_->texts[id] : std::string_view();
}

std::string_view Tokenizer::token_bytes(TokenId id) const {
  return impl_->has(id) ? impl_->bytes[id] : std::string_view();
}

std::optional<TokenId> Tokenizer::find(std::string_view token_text) const {
  const TokenId id = impl_->texts.find(token_text);
  return id >= 0 ? std::optional(id) : std::nullopt;
}

bool Tokenizer::is_special(TokenId id) const {
  return impl_->has(id) && impl_->is_special[id];
}

bool Tokenizer::covers_all_text() const {
  return std::visit([](const auto& model) { return model.covers_all_bytes(); }, impl_->model);
}

std::optional<TokenId> Tokenizer::bos() const {
  return impl_->bos;
}
std::optional<TokenId> Tokenizer::eos() const {
  return impl_->eos;
}
std::optional<TokenId> Tokenizer::pad() const {
  return impl_->pad;
}
std::optional<TokenId> Tokenizer::unk() const {
  return impl_->unk;
}
bool Tokenizer::adds_bos() const {
  return impl_->add_bos;
}
bool Tokenizer::adds_eos() const {
  return impl_->add_eos;
}

}  // namespace reprise::models
