// Records and manifests: valid ones are read, and all others are refused with a reason.

#include <gtest/gtest.h>

#include <cstring>

#include "tests/protocol/snapshots/sealed_snapshot.h"

namespace reprise::protocol::snapshots {
namespace {

using Bytes = std::vector<std::byte>;

std::string refusal_of_manifest(const SealedSnapshot& of, const Bytes& file,
                                const Key& master = kTestMaster) {
  const auto opened = open_manifest(master, of.keys.folder, of.id, file);
  return opened.ok() ? "none" : std::string(name_of(opened.error().why));
}
std::string refusal_of_chunk(const SealedSnapshot& of, std::size_t index, const Bytes& file) {
  Bytes contents(of.contents[index].size());
  const auto opened =
      open_record(of.keys, SealedSnapshot::kind_of(index), of.manifest.references[index], file, contents);
  return opened.ok() ? "none" : std::string(name_of(opened.error().why));
}

TEST(SnapshotRecord, AManifestIsReadAsItWasWritten) {
  const SealedSnapshot snapshot(std::string("names have any bytes: \0\xff\n", 25));
  const auto opened = open_manifest(kTestMaster, snapshot.keys.folder, snapshot.id, snapshot.sealed);
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_EQ(opened->name_space, snapshot.manifest.name_space);
  EXPECT_EQ(opened->kind, snapshot.manifest.kind);
  EXPECT_EQ(opened->stored, 150U);
  EXPECT_EQ(opened->logical, 150U);
  EXPECT_EQ(opened->origin, "prompt_end");
  EXPECT_EQ(opened->created, 1'700'000'000);
  EXPECT_EQ(opened->tokens, snapshot.manifest.tokens);
  EXPECT_EQ(opened->references, snapshot.manifest.references);
  EXPECT_EQ(opened->sums, snapshot.manifest.sums);
  EXPECT_EQ(opened->state_bytes(), 3 * 256U + 96U);
}

TEST(SnapshotRecord, AChunkIsReadAsItWasWritten) {
  const SealedSnapshot snapshot;
  for (std::size_t i = 0; i < 4; ++i) {
    Bytes contents(snapshot.contents[i].size());
    const auto opened = open_record(snapshot.keys, SealedSnapshot::kind_of(i),
                                    snapshot.manifest.references[i], snapshot.chunk(i), contents);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    EXPECT_EQ(contents, snapshot.contents[i]);
  }
}

TEST(SnapshotRecord, NothingOfAPromptCanBeSeen) {
  const SealedSnapshot snapshot;
  const std::string text(reinterpret_cast<const char*>(snapshot.sealed.data()), snapshot.sealed.size());
  EXPECT_EQ(text.find("tenant"), std::string::npos);
  EXPECT_EQ(text.find("prompt_end"), std::string::npos);
  const auto tokens = std::as_bytes(std::span(snapshot.manifest.tokens)).first(16);
  EXPECT_EQ(text.find(std::string(reinterpret_cast<const char*>(tokens.data()), 16)), std::string::npos);
}

TEST(SnapshotRecord, EveryTruncationIsRefused) {
  const SealedSnapshot snapshot;
  for (std::size_t length = 0; length < snapshot.sealed.size(); ++length) {
    const Bytes cut(snapshot.sealed.begin(), snapshot.sealed.begin() + static_cast<std::ptrdiff_t>(length));
    ASSERT_EQ(refusal_of_manifest(snapshot, cut), "truncated") << length;
  }
  Bytes longer = snapshot.sealed;
  longer.push_back(std::byte{0});
  EXPECT_EQ(refusal_of_manifest(snapshot, longer), "size");
}

TEST(SnapshotRecord, EveryFlippedBitIsRefused) {
  const SealedSnapshot snapshot;
  const Bytes chunk = snapshot.chunk(0);
  for (std::size_t bit = 0; bit < 8 * snapshot.sealed.size(); ++bit) {
    Bytes file = snapshot.sealed;
    file[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    ASSERT_NE(refusal_of_manifest(snapshot, file), "none") << bit;
  }
  for (std::size_t bit = 0; bit < 8 * chunk.size(); ++bit) {
    Bytes file = chunk;
    file[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    ASSERT_NE(refusal_of_chunk(snapshot, 0, file), "none") << bit;
  }
}

TEST(SnapshotRecord, SwappedRecordsAreRefused) {
  const SealedSnapshot snapshot, of_others("other tenant"), of_other_tokens("tenant", 5);
  EXPECT_EQ(refusal_of_chunk(snapshot, 0, snapshot.chunk(1)), "misplaced");
  EXPECT_EQ(refusal_of_chunk(snapshot, 3, snapshot.chunk(2)), "misplaced");
  EXPECT_EQ(refusal_of_manifest(snapshot, snapshot.chunk(0)), "misplaced");
  EXPECT_EQ(refusal_of_manifest(snapshot, of_other_tokens.sealed), "misplaced");
  EXPECT_EQ(refusal_of_manifest(snapshot, of_others.sealed), "misplaced");
  // Also with the name changed to the requested one: the seal covers the name.
  Bytes renamed = snapshot.chunk(1);
  std::memcpy(renamed.data() + 24, snapshot.manifest.references[0].bytes.data(), 16);
  EXPECT_EQ(refusal_of_chunk(snapshot, 0, renamed), "seal");
}

TEST(SnapshotRecord, ARecordOfAnotherFolderOrSecretDoesNotOpen) {
  const SealedSnapshot snapshot;
  EXPECT_EQ(refusal_of_manifest(snapshot, snapshot.sealed, master_key("another secret, as long")), "seal");
  NamespaceKeys moved = snapshot.keys;
  moved.folder.bytes[0] ^= std::byte{1};
  Bytes contents(snapshot.contents[0].size());
  const auto opened =
      open_record(moved, RecordKind::kPage, snapshot.manifest.references[0], snapshot.chunk(0), contents);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().why, Refusal::kSeal);
}

TEST(SnapshotRecord, ForeignFilesAndOtherVersionsAreToldApart) {
  const SealedSnapshot snapshot;
  EXPECT_EQ(refusal_of_manifest(snapshot, Bytes(500, std::byte{0x41})), "foreign");
  for (const int other : {kFormatVersion - 1, kFormatVersion + 1}) {
    Bytes record = snapshot.sealed;
    record[8] = static_cast<std::byte>(other);
    EXPECT_EQ(refusal_of_manifest(snapshot, record), "version") << other;
  }
  Bytes packed = snapshot.sealed;
  packed[11] = std::byte{1};
  EXPECT_EQ(refusal_of_manifest(snapshot, packed), "version") << "manifests are not packed";
  Bytes in_another_form = snapshot.chunk(0);
  in_another_form[11] = std::byte{2};
  EXPECT_EQ(refusal_of_chunk(snapshot, 0, in_another_form), "version");
}

TEST(SnapshotRecord, ContentsOfWrongSizeAreRefusedBeforeReading) {
  const SealedSnapshot snapshot;
  const Bytes larger(1000, std::byte{1});
  EXPECT_EQ(refusal_of_chunk(
                snapshot, 0,
                seal_record(snapshot.keys, RecordKind::kPage, snapshot.manifest.references[0], {}, larger)),
            "size");
  // A head that announces more than fits in memory.
  Bytes huge = snapshot.sealed;
  huge[22] = std::byte{0xff};
  EXPECT_EQ(refusal_of_manifest(snapshot, huge), "truncated");
}

TEST(SnapshotRecord, APackedChunkIsReadAsItWasWritten) {
  const SealedSnapshot snapshot;
  const RecordId& id = snapshot.manifest.references[0];
  Bytes numbers(4096);  // 2-byte values with equal second bytes
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<std::byte>(i % 2 == 0 ? i * 37 / 2 : 7);
  const Bytes file = seal_chunk(snapshot.keys, RecordKind::kPage, id, numbers, true);
  EXPECT_LT(file.size(), 2500U);
  Bytes contents(numbers.size());
  ASSERT_TRUE(open_record(snapshot.keys, RecordKind::kPage, id, file, contents).ok());
  EXPECT_EQ(contents, numbers);

  const auto refusal = [&](const Bytes& changed, std::size_t bytes) {
    Bytes to(bytes);
    const auto opened = open_record(snapshot.keys, RecordKind::kPage, id, changed, std::span<std::byte>(to));
    return opened.ok() ? "none" : std::string(name_of(opened.error().why));
  };
  for (std::size_t bit = 0; bit < 8 * file.size(); bit += 13) {
    Bytes changed = file;
    changed[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    ASSERT_NE(refusal(changed, numbers.size()), "none") << bit;
  }
  EXPECT_EQ(refusal(file, numbers.size() + 2), "contents") << "another size than the layout has";
  EXPECT_EQ(refusal(file, 100), "size") << "packed is never longer than plain";
  const Bytes no_gain = seal_chunk(snapshot.keys, RecordKind::kPage, id, snapshot.chunk(0), true);
  EXPECT_EQ(no_gain.size(), record_bytes(0, snapshot.chunk(0).size()))
      << "what does not shrink stays as it is";
}

/// Returns the error of a manifest sealed with our key but with invalid contents.
std::string refusal_of_contents(const SealedSnapshot& of, const std::string& json) {
  Bytes contents(4);
  const auto length = static_cast<std::uint32_t>(json.size());
  std::memcpy(contents.data(), &length, 4);
  for (const char c : json) contents.push_back(static_cast<std::byte>(c));
  return refusal_of_manifest(
      of, seal_record(of.keys, RecordKind::kManifest, of.id, of.manifest.references, contents));
}

TEST(SnapshotRecord, FieldsThatAreNotKnownOrMissingRefuseAManifest) {
  const SealedSnapshot snapshot;
  const std::string all =
      R"("namespace":"74","model":"1","arithmetic":"7","page_bytes":256,"slot_bytes":96,"page_tokens":64,)"
      R"("grid":1,"stored":150,"logical":150,"origin":"system","created":1)";
  EXPECT_EQ(refusal_of_contents(snapshot, "{" + all + R"(,"colour":"red"})"), "version");
  EXPECT_EQ(refusal_of_contents(snapshot, R"({"namespace":"74"})"), "contents");
  EXPECT_EQ(refusal_of_contents(snapshot, "[1]"), "contents");
  EXPECT_EQ(refusal_of_contents(snapshot, "{"), "contents");
  EXPECT_EQ(refusal_of_contents(snapshot, "{" + all + "}"), "contents") << "its tokens are missing";
}

TEST(SnapshotManifest, LargeSlotIsInPiecesAfterThePages) {
  Manifest manifest;
  manifest.kind = SealedSnapshot::kind_of_tests();
  manifest.kind.slot_bytes = 2 * kSlotPiece + 5;
  manifest.stored = 100;
  EXPECT_EQ(reference_count(manifest.kind, manifest.stored), 5U);
  manifest.references.resize(5);
  std::uint64_t next = 0;
  for (std::size_t i = 0; i < 5; ++i) {
    const Manifest::Chunk chunk = manifest.chunk(i);
    EXPECT_EQ(chunk.kind, i == 0 ? RecordKind::kPage : i == 1 ? RecordKind::kTail : RecordKind::kSlot);
    EXPECT_EQ(chunk.piece, i < 2 ? 0 : i - 2);
    EXPECT_EQ(chunk.first, next) << "one behind the other";
    next += chunk.bytes;
    EXPECT_LE(record_bytes(0, chunk.bytes), 4U << 20) << "one value of a store";
  }
  EXPECT_EQ(next, manifest.state_bytes());
  EXPECT_EQ(manifest.chunk(4).bytes, 5U);
  manifest.kind.slot_bytes = 0;
  EXPECT_EQ(reference_count(manifest.kind, manifest.stored), 2U);
  manifest.references.resize(2);
  EXPECT_EQ(manifest.first_of_slot(), 2U);
}

TEST(SnapshotNames, CommonPrefixesShareOnlyTheirPages) {
  const StateKind kind = SealedSnapshot::kind_of_tests();
  const NamespaceKeys keys = keys_of(kTestMaster, kind.model, "a");
  TokenList tokens(200, 5), other = tokens;
  other[100] = 6;
  const PrefixNames one(keys, kind, tokens), two(keys, kind, other);
  EXPECT_EQ(one.pages(), 3U);
  EXPECT_EQ(one.page(0), two.page(0));
  EXPECT_NE(one.page(1), two.page(1));
  EXPECT_NE(one.page(2), two.page(2)) << "what is before a page decides its bits";
  EXPECT_EQ(one.manifest(100), two.manifest(100));
  EXPECT_NE(one.manifest(101), two.manifest(101));
  EXPECT_NE(one.tail(100), one.slot(100, 0));
  EXPECT_NE(one.slot(100, 0), one.slot(100, 1));
  EXPECT_NE(one.manifest(128), one.manifest(129));

  StateKind elsewhere = kind;
  elsewhere.arithmetic = 8;
  EXPECT_NE(PrefixNames(keys, elsewhere, tokens).page(0), one.page(0));
  const NamespaceKeys of_others = keys_of(kTestMaster, kind.model, "b");
  EXPECT_NE(of_others.folder, keys.folder);
  EXPECT_NE(PrefixNames(of_others, kind, tokens).page(0), one.page(0));
}

}  // namespace
}  // namespace reprise::protocol::snapshots
