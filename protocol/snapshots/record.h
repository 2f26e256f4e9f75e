#pragma once
// Record: one encrypted file, or one value of a store (docs/formats/snapshot.md): a manifest, a chunk of a
// state, a turn or a name.
//
//   offset  bytes
//        0      8  "rpsnap\r\n"
//        8      2  version, 2
//       10      1  kind: 1 manifest, 2 page, 3 tail, 4 slot, 5 turn, 6 name
//       11      1  form of the contents: 0 plain, 1 packed (protocol/snapshots/byte_planes.h)
//       12      4  number of references
//       16      8  size of the contents, in their form
//       24     16  the record's name
//       40     12  nonce
//       52   16*n  references: names of other records, not encrypted, so that collection needs no key
//                  contents, encrypted
//               16  tag over the folder's name and all bytes before it
// Integers are little-endian.
//
// The caller of open_record() gives the expected name, kind and, except for manifests, size. All are compared
// before memory for the contents is allocated. Packed contents are shorter than the size, and are unpacked
// only after the tag was verified.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/outcome.h"
#include "protocol/snapshots/seal.h"

namespace reprise::protocol::snapshots {

enum class RecordKind : std::uint8_t { kManifest = 1, kPage = 2, kTail = 3, kSlot = 4, kTurn = 5, kName = 6 };
enum class RecordForm : std::uint8_t { kPlain = 0, kPacked = 1 };
inline constexpr std::uint16_t kFormatVersion = 2;
inline constexpr std::size_t kRecordHead = 52;  // bytes before the references
inline constexpr std::size_t kMaxReferences = 1u << 20;

enum class Refusal : std::uint8_t {
  kMissing,     // not found; may have been collected
  kTruncated,   // shorter than its header says
  kForeign,     // not a record
  kVersion,     // unknown version or member
  kMisplaced,   // a different record under this name
  kSize,        // the size of the contents does not match the layout
  kSeal,        // authentication failed: changed, or sealed with another secret
  kContents,    // decrypted, but the contents are invalid
  kArithmetic,  // made by another build or device, with different bits
  kIo,          // read error
};
std::string_view name_of(Refusal refusal);

struct Refused {
  Refusal why{};
  std::string message{};
};

struct RecordHead {
  RecordKind kind{};
  RecordForm form{};
  std::uint64_t bytes = 0;  // size of the contents, in their form
  RecordId id{};
  Nonce nonce{};
  std::vector<RecordId> references{};

  std::size_t head_bytes() const { return kRecordHead + 16 * references.size(); }
};

/// Returns a record. `contents` are in the given form.
std::vector<std::byte> seal_record(const NamespaceKeys& keys, RecordKind kind, const RecordId& id,
                                   std::span<const RecordId> references, std::span<const std::byte> contents,
                                   RecordForm form = RecordForm::kPlain);

/// Returns a record for a chunk, packed if `pack` and if that makes it smaller.
std::vector<std::byte> seal_chunk(const NamespaceKeys& keys, RecordKind kind, const RecordId& id,
                                  std::span<const std::byte> contents, bool pack);

/// Returns the size of a record that is not packed; a packed one is smaller.
std::uint64_t record_bytes(std::size_t references, std::uint64_t contents);

/// Returns the record size according to its header, which is not authenticated; nothing if the header is
/// invalid.
std::optional<std::uint64_t> stated_bytes(std::span<const std::byte> head);

/// Returns the nonce of a record in hex, by which records of the same name are told apart. Requires:
/// head.size() >= kRecordHead.
std::string write_of(std::span<const std::byte> head);

/// Parses the header, which is not authenticated. `file` may be truncated after the references; `file_bytes`
/// is the size of the whole file.
Outcome<RecordHead, Refused> read_head(std::span<const std::byte> file, std::uint64_t file_bytes);

/// Authenticates, decrypts and unpacks a record into `contents`, whose size must match.
Outcome<RecordHead, Refused> open_record(const NamespaceKeys& keys, RecordKind kind, const RecordId& id,
                                         std::span<const std::byte> file, std::span<std::byte> contents);

/// Opens a chunk of `bytes` contents. Memory for them is allocated only if the file can hold as many.
Outcome<std::vector<std::byte>, Refused> open_chunk(const NamespaceKeys& keys, RecordKind kind,
                                                    const RecordId& id, std::span<const std::byte> file,
                                                    std::uint64_t bytes);

/// Returns why a record of any kind is not authentic; nothing if it is.
std::optional<Refused> authenticate(const NamespaceKeys& keys, const RecordId& id,
                                    std::span<const std::byte> file);

struct OpenedRecord {
  RecordHead head;
  std::vector<std::byte> contents;
};
/// Authenticates and decrypts a record of unknown size, at most `most` bytes and not packed.
Outcome<OpenedRecord, Refused> open_record(const NamespaceKeys& keys, RecordKind kind, const RecordId& id,
                                           std::span<const std::byte> file, std::uint64_t most);

}  // namespace reprise::protocol::snapshots
