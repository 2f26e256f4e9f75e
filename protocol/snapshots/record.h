#pragma once
// A record: one sealed file, or one value of a store (docs/formats/snapshot.md). A manifest, or a chunk of a state.
//
//   offset  bytes
//        0      8  "rpsnap\r\n"
//        8      2  version, 2
//       10      1  kind: 1 manifest, 2 page, 3 tail, 4 slot, 5 turn, 6 name
//       11      1  form of the contents: 0, as they are; 1, packed (protocol/snapshots/byte_planes.h)
//       12      4  number of references
//       16      8  bytes of the contents, in their form
//       24     16  the record's name
//       40     12  nonce
//       52   16*n  references: names of other records. Open, so that who collects can follow them without a key
//                  contents, sealed
//               16  tag, of the folder's name and all before it
// Numbers are little-endian.
//
// Whoever opens a record says which it wants: name, kind and, but for manifests, the bytes of its contents. All of it
// is compared before anything is allocated for the contents; what is packed is shorter than that, and unpacked when its
// seal was found whole.
//
// Threading: pure functions.

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
inline constexpr std::size_t kMostReferences = 1u << 20;

/// Why a record is of no use.
enum class Refusal : std::uint8_t {
  kMissing,     // it is not there: it was collected
  kTruncated,   // shorter than it says
  kForeign,     // no record at all
  kVersion,     // of a version, or with a field, that this program does not know
  kMisplaced,   // another record under this name
  kSize,        // its contents have not the size that the layout gives
  kSeal,        // changed since it was sealed, or sealed with another secret
  kContents,    // opened, and not what it should be
  kArithmetic,  // of a model on another build or device: other bits
  kIo,          // it could not be read
};
std::string_view name_of(Refusal refusal);

struct Refused {
  Refusal why{};
  std::string message{};
};

struct RecordHead {
  RecordKind kind{};
  RecordForm form{};
  std::uint64_t bytes = 0;  // of the contents, in their form
  RecordId id{};
  Nonce nonce{};
  std::vector<RecordId> references{};

  std::size_t head_bytes() const { return kRecordHead + 16 * references.size(); }
};

/// `contents` in their form.
std::vector<std::byte> seal_record(const NamespaceKeys& keys, RecordKind kind, const RecordId& id,
                                   std::span<const RecordId> references, std::span<const std::byte> contents,
                                   RecordForm form = RecordForm::kPlain);

/// A chunk, packed where it is wished and gains by it.
std::vector<std::byte> seal_chunk(const NamespaceKeys& keys, RecordKind kind, const RecordId& id,
                                  std::span<const std::byte> contents, bool pack);

/// How long a record of that many references and bytes is; one that is packed is shorter.
std::uint64_t record_bytes(std::size_t references, std::uint64_t contents);

/// How long it says that it is, unproven; nothing where that cannot be.
std::optional<std::uint64_t> stated_bytes(std::span<const std::byte> head);

/// What stands at its beginning, unproven. `file` may end behind the references; `file_bytes` is all of it.
Outcome<RecordHead, Refused> read_head(std::span<const std::byte> file, std::uint64_t file_bytes);

/// Into `contents`, whose size is what the layout says, unpacked.
Outcome<RecordHead, Refused> open_record(const NamespaceKeys& keys, RecordKind kind, const RecordId& id,
                                         std::span<const std::byte> file, std::span<std::byte> contents);

struct OpenedRecord {
  RecordHead head;
  std::vector<std::byte> contents;
};
/// Of any size up to `most` bytes, not packed.
Outcome<OpenedRecord, Refused> open_record(const NamespaceKeys& keys, RecordKind kind, const RecordId& id,
                                           std::span<const std::byte> file, std::uint64_t most);

}  // namespace reprise::protocol::snapshots
