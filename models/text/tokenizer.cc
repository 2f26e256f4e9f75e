#include "models/text/tokenizer.h"

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <variant>

#include "base/utf8.h"
#include "models/text/added_tokens.h"
#include "models/text/normalizer.h"
#include "models/text/piece_cache.h"
#include "models/text/piece_models.h"
#include "models/text/pre_tokenizer.h"
#include "models/text/string_table.h"
#include "models/text/token_tables.h"

namespace reprise::models {
namespace {

constexpr std::size_t kCacheSlots = 1 << 14;
constexpr std::size_t kLongestText = std::size_t{1} << 30;

std::vector<AddedToken> select(const TokenizerSpec& spec, bool normalized) {
  std::vector<AddedToken> chosen;
  std::copy_if(spec.added.begin(), spec.added.end(), std::back_inserter(chosen),
               [&](const AddedToken& token) { return token.normalized == normalized; });
  return chosen;
}

// These are looked for in normalised text, so by their normalised content.
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
    case TokenizerModel::kLongestMatch:
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
        takes_any_bytes(spec.byte_level || spec.model == TokenizerModel::kLongestMatch),
        unk(spec.unk),
        bos(spec.bos),
        eos(spec.eos),
        pad(spec.pad),
        add_bos(spec.add_bos),
        add_eos(spec.add_eos) {}

  class Encoder;

  bool has(TokenId id) const { return id >= 0 && static_cast<std::size_t>(id) < texts.size(); }

  StringTable tokens;  // the model's own
  StringTable texts;   // with the added ones
  StringTable bytes;   // what each decodes to
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

// One call of encode(): gathers the ids of the pieces.
class Tokenizer::Impl::Encoder final : public PieceSink {
 public:
  Encoder(const Impl& impl, EncodeOptions options, EncodeWork& work)
      : impl_(impl), options_(options), work_(work), session_(impl.pre_tokenizer, work) {}

  void piece(std::string_view bytes) override {
    if (!impl_.keeps_words_apart) return word(bytes);
    while (!bytes.empty()) {  // cuts before each mark that follows another character
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
    const bool is_short = bytes.size() <= PieceCache::kLongestPiece;
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
  if (text.size() > kLongestText) throw std::length_error("the text to encode is longer than 1 GiB");
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
