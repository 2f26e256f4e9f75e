#include "protocol/snapshots/record.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "protocol/snapshots/byte_planes.h"

namespace reprise::protocol::snapshots {
namespace {

static_assert(std::endian::native == std::endian::little);
constexpr char kMagic[8] = {'r', 'p', 's', 'n', 'a', 'p', '\r', '\n'};
constexpr std::size_t kTagBytes = sizeof(Tag);
constexpr std::uint64_t kMaxRatio = 32768;  // of zstd: a block of 128 KiB in 4 bytes

template <class T>
void put(std::vector<std::byte>& to, std::size_t at, const T& value) {
  std::memcpy(to.data() + at, &value, sizeof value);
}
template <class T>
T get(std::span<const std::byte> from, std::size_t at) {
  T value;
  std::memcpy(&value, from.data() + at, sizeof value);
  return value;
}

/// Returns the authenticated data: the folder's name and the header, so that a record moved to another folder
/// fails.
std::vector<std::byte> sealed_openly(const NamespaceKeys& keys, std::span<const std::byte> head) {
  std::vector<std::byte> both(keys.folder.bytes.begin(), keys.folder.bytes.end());
  both.insert(both.end(), head.begin(), head.end());
  return both;
}

Outcome<RecordHead, Refused> expect(RecordKind kind, const RecordId& id, std::span<const std::byte> file) {
  Outcome<RecordHead, Refused> head = read_head(file, file.size());
  if (!head.ok()) return head;
  if (head->kind != kind || head->id != id) {
    return Refused{Refusal::kMisplaced, "its contents belong to another record than its name says"};
  }
  return head;
}

Outcome<RecordHead, Refused> unseal_into(const NamespaceKeys& keys, RecordHead head,
                                         std::span<const std::byte> file, std::span<std::byte> contents) {
  const std::size_t begin = head.head_bytes();
  const bool genuine =
      unseal(keys.seal, head.nonce, sealed_openly(keys, file.first(begin)),
             file.subspan(begin, contents.size()), get<Tag>(file, begin + contents.size()), contents);
  if (!genuine)
    return Refused{Refusal::kSeal, "its seal is wrong: it was changed, or sealed with another secret"};
  return head;
}

}  // namespace

std::string_view name_of(Refusal refusal) {
  constexpr std::array<std::string_view, 10> kNames = {"missing",    "truncated", "foreign", "version",
                                                       "misplaced",  "size",      "seal",    "contents",
                                                       "arithmetic", "io"};
  return kNames[static_cast<std::size_t>(refusal)];
}

std::uint64_t record_bytes(std::size_t references, std::uint64_t contents) {
  return kRecordHead + 16 * std::uint64_t{references} + contents + kTagBytes;
}

std::optional<std::uint64_t> stated_bytes(std::span<const std::byte> head) {
  if (head.size() < kRecordHead) return std::nullopt;
  const auto references = get<std::uint32_t>(head, 12);
  const auto contents = get<std::uint64_t>(head, 16);
  if (references > kMaxReferences || contents > UINT64_MAX / 2) return std::nullopt;
  return record_bytes(references, contents);
}

std::string write_of(std::span<const std::byte> head) {
  RecordId nonce;  // and zeros
  std::memcpy(nonce.bytes.data(), head.data() + 40, sizeof(Nonce));
  return nonce.hex().substr(0, 2 * sizeof(Nonce));
}

std::vector<std::byte> seal_record(const NamespaceKeys& keys, RecordKind kind, const RecordId& id,
                                   std::span<const RecordId> references, std::span<const std::byte> contents,
                                   RecordForm form) {
  REPRISE_CHECK(references.size() <= kMaxReferences, "a record has too many references");
  std::vector<std::byte> file(record_bytes(references.size(), contents.size()));
  const Nonce nonce = new_nonce();
  std::memcpy(file.data(), kMagic, sizeof kMagic);
  put(file, 8, kFormatVersion);
  put(file, 10, kind);
  put(file, 11, form);
  put(file, 12, static_cast<std::uint32_t>(references.size()));
  put(file, 16, std::uint64_t{contents.size()});
  put(file, 24, id.bytes);
  put(file, 40, nonce);
  for (std::size_t i = 0; i < references.size(); ++i) put(file, kRecordHead + 16 * i, references[i].bytes);
  const std::size_t begin = kRecordHead + 16 * references.size();
  const std::span<std::byte> all(file);
  const Tag tag = seal(keys.seal, nonce, sealed_openly(keys, all.first(begin)), contents,
                       all.subspan(begin, contents.size()));
  put(file, begin + contents.size(), tag);
  return file;
}

std::vector<std::byte> seal_chunk(const NamespaceKeys& keys, RecordKind kind, const RecordId& id,
                                  std::span<const std::byte> contents, bool pack) {
  if (pack) {
    if (const auto packed = pack_numbers(contents)) {
      return seal_record(keys, kind, id, {}, *packed, RecordForm::kPacked);
    }
  }
  return seal_record(keys, kind, id, {}, contents);
}

Outcome<RecordHead, Refused> read_head(std::span<const std::byte> file, std::uint64_t file_bytes) {
  if (file.size() < kRecordHead) return Refused{Refusal::kTruncated, "it ends inside its header"};
  if (std::memcmp(file.data(), kMagic, sizeof kMagic) != 0)
    return Refused{Refusal::kForeign, "it is not a snapshot record"};
  const auto version = get<std::uint16_t>(file, 8);
  if (version != kFormatVersion) {
    return Refused{Refusal::kVersion, "it has the unknown version " + std::to_string(version)};
  }
  const auto kind = get<std::uint8_t>(file, 10);
  const auto form = get<std::uint8_t>(file, 11);
  if (kind < 1 || kind > static_cast<std::uint8_t>(RecordKind::kName))
    return Refused{Refusal::kVersion, "it has the unknown kind " + std::to_string(kind)};
  const bool known = form == 0 || (form == 1 && kind != static_cast<std::uint8_t>(RecordKind::kManifest));
  if (!known) return Refused{Refusal::kVersion, "its contents have the unknown form " + std::to_string(form)};
  RecordHead head{.kind = static_cast<RecordKind>(kind),
                  .form = static_cast<RecordForm>(form),
                  .bytes = get<std::uint64_t>(file, 16)};
  const auto references = get<std::uint32_t>(file, 12);
  if (references > kMaxReferences) return Refused{Refusal::kSize, "it refers to too many records"};
  const std::uint64_t around = record_bytes(references, 0);
  if (file_bytes < around || file_bytes - around < head.bytes ||
      file.size() < kRecordHead + 16 * std::size_t{references}) {
    return Refused{Refusal::kTruncated, "it is shorter than it says"};
  }
  if (file_bytes - around != head.bytes) return Refused{Refusal::kSize, "it is longer than it says"};
  head.id.bytes = get<std::array<std::byte, 16>>(file, 24);
  head.nonce = get<Nonce>(file, 40);
  for (std::size_t i = 0; i < references; ++i) {
    head.references.push_back({get<std::array<std::byte, 16>>(file, kRecordHead + 16 * i)});
  }
  return head;
}

Outcome<RecordHead, Refused> open_record(const NamespaceKeys& keys, RecordKind kind, const RecordId& id,
                                         std::span<const std::byte> file, std::span<std::byte> contents) {
  Outcome<RecordHead, Refused> head = expect(kind, id, file);
  if (!head.ok()) return head;
  const bool packed = head->form == RecordForm::kPacked;
  if (packed ? head->bytes >= contents.size() : head->bytes != contents.size()) {
    return Refused{Refusal::kSize, "it holds " + std::to_string(head->bytes) +
                                       " bytes; the model's state needs " + std::to_string(contents.size())};
  }
  if (!packed) return unseal_into(keys, std::move(*head), file, contents);
  std::vector<std::byte> opened(head->bytes);
  head = unseal_into(keys, std::move(*head), file, opened);
  if (head.ok() && !unpack_numbers(opened, contents)) {
    return Refused{Refusal::kContents, "its contents do not unpack to the size that the model's state needs"};
  }
  return head;
}

Outcome<std::vector<std::byte>, Refused> open_chunk(const NamespaceKeys& keys, RecordKind kind,
                                                    const RecordId& id, std::span<const std::byte> file,
                                                    std::uint64_t bytes) {
  const Outcome<RecordHead, Refused> head = expect(kind, id, file);
  if (!head.ok()) return head.error();
  if (head->form == RecordForm::kPlain
          ? head->bytes != bytes
          : bytes > std::min<std::uint64_t>(kMaxPacked, head->bytes * kMaxRatio)) {
    return Refused{Refusal::kSize, "it holds " + std::to_string(head->bytes) +
                                       " bytes; the model's state needs " + std::to_string(bytes)};
  }
  std::vector<std::byte> contents(bytes);
  const auto opened = open_record(keys, kind, id, file, std::span<std::byte>(contents));
  if (!opened.ok()) return opened.error();
  return contents;
}

std::optional<Refused> authenticate(const NamespaceKeys& keys, const RecordId& id,
                                    std::span<const std::byte> file) {
  Outcome<RecordHead, Refused> head = read_head(file, file.size());
  if (!head.ok()) return head.error();
  if (head->id != id) return Refused{Refusal::kMisplaced, "it is another record than its name says"};
  std::vector<std::byte> contents(head->bytes);
  head = unseal_into(keys, std::move(*head), file, contents);
  if (!head.ok()) return head.error();
  return std::nullopt;
}

Outcome<OpenedRecord, Refused> open_record(const NamespaceKeys& keys, RecordKind kind, const RecordId& id,
                                           std::span<const std::byte> file, std::uint64_t most) {
  Outcome<RecordHead, Refused> head = expect(kind, id, file);
  if (!head.ok()) return head.error();
  if (head->form != RecordForm::kPlain) return Refused{Refusal::kVersion, "its contents are packed"};
  if (head->bytes > most) return Refused{Refusal::kSize, "it holds more than its kind of record can"};
  OpenedRecord opened;
  opened.contents.resize(head->bytes);
  head = unseal_into(keys, std::move(*head), file, opened.contents);
  if (!head.ok()) return head.error();
  opened.head = std::move(*head);
  return opened;
}

}  // namespace reprise::protocol::snapshots
