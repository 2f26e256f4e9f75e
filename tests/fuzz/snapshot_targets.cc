// Snapshots from outside: records, manifests, packed values, whole folders, and the answers of a store.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "protocol/snapshots/byte_planes.h"
#include "protocol/snapshots/folder_check.h"
#include "protocol/snapshots/manifest.h"
#include "protocol/snapshots/record.h"
#include "protocol/snapshots/redis_store.h"
#include "tests/fuzz/targets.h"
#include "tests/protocol/snapshots/memory_files.h"
#include "tests/protocol/snapshots/sealed_snapshot.h"

namespace reprise::fuzz {
namespace {

using namespace protocol::snapshots;

const SealedSnapshot& sample() {
  static const SealedSnapshot kSample;
  return kSample;
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

/// Takes a number from the beginning of the input; 0 at its end.
template <class T>
T take(std::string_view& input) {
  T number = 0;
  const std::size_t count = std::min(input.size(), sizeof number);
  std::memcpy(&number, input.data(), count);
  input.remove_prefix(count);
  return number;
}

/// A server that sends the input, in parts of the given size, and then closes the connection.
class Sender : public SocketCalls {
 public:
  Sender(std::string_view text, std::size_t part) : text_(text), part_(part) {}
  Outcome<int, std::string> connect(const std::string&, std::uint16_t, Deadline) override {
    if (std::exchange(connected_, true)) return std::string("once is enough");
    return 0;
  }
  void close(int) override {}
  ssize_t send(int, std::span<const char> bytes) override { return static_cast<ssize_t>(bytes.size()); }
  ssize_t receive(int, std::span<char> to) override {
    const std::size_t count = std::min({part_, text_.size(), to.size()});
    std::copy_n(text_.begin(), count, to.begin());
    text_.remove_prefix(count);
    return static_cast<ssize_t>(count);
  }
  int wait(int, short, Deadline) override { return 0; }

 private:
  std::string_view text_;
  const std::size_t part_;
  bool connected_ = false;
};

Outcome<std::vector<RedisAnswer>, IoTrouble> answers_in(std::string_view text, std::size_t part) {
  RedisConnection connection({.host = "store"}, "", {}, std::make_shared<Sender>(text, part));
  const std::vector<RedisConnection::Command> commands = {{"GET", "a"}, {"EXPIRE", "a", "1"}};
  return connection.ask(commands);
}

}  // namespace

bool fuzz_snapshot_record(std::string_view input) {
  const auto file = bytes_of(input);
  const auto head = read_head(file, file.size());
  const auto stated = stated_bytes(file);
  REPRISE_CHECK(!head.ok() || stated == file.size(), "a record of another size than it states");
  for (std::size_t i = 0; i < sample().contents.size(); ++i) {
    const auto chunk = open_chunk(sample().keys, SealedSnapshot::kind_of(i), sample().manifest.references[i],
                                  file, sample().contents[i].size());
    REPRISE_CHECK(!chunk.ok() || *chunk == sample().contents[i], "a forged record");
    REPRISE_CHECK(!chunk.ok() || head.ok(), "a record without a head");
  }
  return head.ok();
}

bool fuzz_snapshot_manifest(std::string_view input) {
  const auto references = std::span(sample().manifest.references);
  const std::size_t count = std::min<std::size_t>(take<std::uint8_t>(input), references.size());
  const auto file = seal_record(sample().keys, RecordKind::kManifest, sample().id, references.first(count),
                                bytes_of(input));
  const auto manifest = open_manifest(kTestMaster, sample().keys.folder, sample().id, file);
  if (!manifest.ok()) {
    REPRISE_CHECK(!manifest.error().message.empty(), "a refusal without a reason");
    return false;
  }
  REPRISE_CHECK(manifest->tokens == sample().manifest.tokens, "other tokens than the name says");
  const auto again = open_manifest(kTestMaster, sample().keys.folder, sample().id,
                                   seal_manifest(sample().keys, sample().id, *manifest));
  REPRISE_CHECK(again.ok() && again->sums == manifest->sums, "what was written reads as another manifest");
  return true;
}

bool fuzz_packed_planes(std::string_view input) {
  std::vector<std::byte> plain(take<std::uint16_t>(input));
  if (!unpack_numbers(bytes_of(input), plain)) return false;
  const auto packed = pack_numbers(plain);
  std::vector<std::byte> again(plain.size());
  REPRISE_CHECK(!packed || (unpack_numbers(*packed, again) && again == plain), "packed values have changed");
  return true;
}

// Sealed with the right secret, as a folder is that somebody offers for import, and with whatever sizes.
bool fuzz_snapshot_folder(std::string_view input) {
  Manifest manifest;
  manifest.name_space = "tenant";
  manifest.kind = {.model = 1,
                   .arithmetic = 2,
                   .page_bytes = take<std::uint64_t>(input) >> 24,
                   .slot_bytes = take<std::uint64_t>(input) >> 24,
                   .page_tokens = std::max<std::uint32_t>(take<std::uint16_t>(input), 1),
                   .grid = std::max<std::uint32_t>(take<std::uint16_t>(input), 1)};
  manifest.stored = manifest.logical = std::max<std::uint32_t>(take<std::uint16_t>(input), 1);
  manifest.origin = "prompt_end";
  manifest.tokens.assign(manifest.stored, 5);
  const std::size_t count = reference_count(manifest.kind, manifest.stored);
  if (count > 64) return false;
  const NamespaceKeys keys = keys_of(kTestMaster, manifest.kind.model, manifest.name_space);
  const RecordId id = PrefixNames(keys, manifest.kind, manifest.tokens).manifest(manifest.stored);
  const SnapshotFolder folder(MemoryFiles::kRoot, std::make_shared<MemoryFiles>());
  const auto form = static_cast<RecordForm>(take<std::uint8_t>(input) & 1);
  const std::size_t bytes = take<std::uint8_t>(input);
  for (std::size_t i = 0; i < count; ++i) {
    manifest.references.push_back(id_of(keyed_digest(keys.names, std::to_string(i), {})));
  }
  for (std::size_t i = 0; i < count; ++i) {
    manifest.sums.push_back(take<std::uint64_t>(input));
    const std::string_view contents = input.substr(0, bytes);
    input.remove_prefix(contents.size());
    const auto chunk =
        seal_record(keys, manifest.chunk(i).kind, manifest.references[i], {}, bytes_of(contents), form);
    REPRISE_CHECK(!folder.write(keys.folder, FileKind::kChunk, manifest.references[i], chunk),
                  "memory is full");
  }
  const auto sealed = seal_manifest(keys, id, manifest);
  REPRISE_CHECK(!folder.write(keys.folder, FileKind::kManifest, id, sealed), "memory is full");
  const auto checked = check_folder(folder, kTestMaster);
  REPRISE_CHECK(checked.ok(), "a folder in memory that cannot be read");
  REPRISE_CHECK(checked->snapshots + checked->snapshots_wrong.size() == 1, "one manifest, and another count");
  return checked->is_whole();
}

bool fuzz_redis_answers(std::string_view input) {
  const auto whole = answers_in(input, input.size() + 1), cut = answers_in(input, 1);
  REPRISE_CHECK(whole.ok() == cut.ok(), "answers that depend on how they arrive");
  if (!whole.ok()) return false;
  for (std::size_t i = 0; i < whole->size(); ++i) {
    const RedisAnswer &a = (*whole)[i], &b = (*cut)[i];
    REPRISE_CHECK(a.kind == b.kind && a.text == b.text && a.number == b.number && a.list == b.list,
                  "answers that depend on how they arrive");
  }
  return true;
}

}  // namespace reprise::fuzz
