#pragma once
// Writes SentencePiece's tokenizer.model field by field.

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace reprise::models::test {

class ProtoWriter {
 public:
  ProtoWriter& integer(std::uint32_t field, std::int64_t value) {
    varint(field << 3);
    varint(static_cast<std::uint64_t>(value));
    return *this;
  }
  ProtoWriter& real(std::uint32_t field, float value) {
    varint(field << 3 | 5);
    char bytes[4];
    std::memcpy(bytes, &value, 4);
    bytes_.append(bytes, 4);
    return *this;
  }
  ProtoWriter& text(std::uint32_t field, std::string_view value) {
    varint(field << 3 | 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }

  const std::string& bytes() const { return bytes_; }

 private:
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

/// Values in the message.
enum PieceType { kNormalPiece = 1, kUnknownPiece, kControlPiece, kUserPiece, kUnusedPiece, kBytePiece };

class SentencePieceWriter {
 public:
  /// Adds a piece; its id is the number of pieces before it.
  SentencePieceWriter& piece(std::string_view text, float score, PieceType type = kNormalPiece) {
    message_.text(1, ProtoWriter().text(1, text).real(2, score).integer(3, type).bytes());
    return *this;
  }
  SentencePieceWriter& byte_pieces() {
    for (int byte = 0; byte < 256; ++byte) {
      const char* digits = "0123456789ABCDEF";
      piece(std::string("<0x") + digits[byte / 16] + digits[byte % 16] + ">", 0, kBytePiece);
    }
    return *this;
  }

  ProtoWriter trainer;     // model_type 3 (1: unigram, 2: BPE), byte_fallback 35, unk, bos, eos, pad 40 to 43
  ProtoWriter normalizer;  // charsmap 2, add_dummy_prefix 3, remove_extra_whitespaces 4, escape_whitespaces 5

  std::string bytes() const {
    ProtoWriter all = message_;
    all.text(2, trainer.bytes()).text(3, normalizer.bytes());
    return all.bytes();
  }

 private:
  ProtoWriter message_;
};

}  // namespace reprise::models::test
