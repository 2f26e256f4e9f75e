// Golden files: a snapshot in a folder, in a Redis dump and in an exported folder, as each version of the format has had it
// (tests/data/snapshots). Those of today's version are read and used, those before are misses with a name, and whatever is written
// today is what they hold: a changed layout needs a new version.
//
// Where a new version is meant, raise kFormatVersion and write its files with REPRISE_WRITE_GOLDEN=1, which wants redis-server.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <regex>
#include <span>
#include <thread>

#include "actors/tiers/store_tier.h"
#include "protocol/snapshots/folder_check.h"
#include "protocol/snapshots/redis_store.h"
#include "runtime/system.h"
#include "tests/protocol/snapshots/redis_server.h"
#include "tests/require.h"
#include "tests/source_folder.h"
#include "tests/tools/golden_snapshot.h"
#include "tools/reprise/snapshot_files.h"

namespace reprise::tools {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using namespace protocol::snapshots;
using Bytes = std::vector<std::byte>;
using Files = std::map<std::string, Bytes>;  // by their names, with those of their folders

constexpr int kToday = kFormatVersion;

fs::path golden_folder(int version) {
  return source_folder() / "tests/data/snapshots" / ("v" + std::to_string(version));
}

Bytes read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// Of the files that hold it.
Key key_of(const char* which) {
  const Bytes bytes = read_file(source_folder() / "tests/data/snapshots" / which);
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return master_key(text);
}

Files files_of(const SnapshotFolder& folder) {
  Files files;
  const auto scanned = folder.scan();
  if (!scanned.ok()) throw std::runtime_error(scanned.error().message);
  for (const FolderFile& file : *scanned) {
    const std::string name = file.folder.hex() + "/" + file.name;
    files[name] = read_file(folder.path() + "/" + name);
  }
  return files;
}

/// A device that has a golden state.
class GoldenDevice : public runtime::Actor {
 public:
  using Accepts = runtime::Messages<protocol::ReadKv>;
  static constexpr const char* kName = "golden device";
  explicit GoldenDevice(const GoldenSnapshot& of) : page_bytes_(of.kind().page_bytes), state_(of.state()) {}
  protocol::ReadKv::Reply on(protocol::ReadKv read) {
    const std::size_t begin = (read.slot ? 3 : read.first_page) * page_bytes_;
    std::copy_n(state_.begin() + static_cast<std::ptrdiff_t>(begin), read.to.size(), read.to.begin());
    return protocol::Nothing{};
  }

 private:
  const std::uint64_t page_bytes_;
  const Bytes state_;
};

/// A tier of an engine over a folder.
class Tier {
 public:
  explicit Tier(const fs::path& folder) {
    actors::TierSettings settings = actors::tier_settings(actors::DiskTierSettings{
        .folder = folder, .master_key = key_of("secret"), .even_if_slower = true, .pack = true});
    settings.log = [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      log_ += line + "\n";
    };
    tier_ = system_.spawn<actors::StoreTier>({}, settings, figures_);
  }
  ~Tier() { system_.stop(); }

  protocol::Fetched fetch(const StateKind& kind) {
    auto prompt = std::make_shared<std::vector<TokenId>>(GoldenSnapshot::tokens());
    prompt->resize(200, 1);
    auto fetched = tier_.ask_blocking(protocol::FetchState{.kind = kind,
                                                           .name_space = GoldenSnapshot::kNamespace,
                                                           .prompt = std::move(prompt),
                                                           .at_most = 199},
                                      20s);
    EXPECT_TRUE(fetched.ok());
    return fetched.ok() ? std::move(*fetched) : protocol::Fetched{};
  }
  /// Writes a snapshot, as an engine of this build does; false: not in time.
  bool write(const GoldenSnapshot& snapshot) {
    tier_.tell(
        protocol::StoreState{.kind = snapshot.kind(),
                             .name_space = GoldenSnapshot::kNamespace,
                             .tokens = std::make_shared<const std::vector<TokenId>>(GoldenSnapshot::tokens()),
                             .at = GoldenSnapshot::kStored,
                             .origin = protocol::Origin::kPromptEnd,
                             .snapshot = {.generation = 1, .number = 1},
                             .worker = system_.spawn<GoldenDevice>({}, snapshot)});
    for (int i = 0; i < 20'000 && figures_->stored.load() == 0; ++i) std::this_thread::sleep_for(1ms);
    return figures_->stored.load() == 1;
  }
  std::uint64_t refused(Refusal why) const { return figures_->refused[static_cast<std::size_t>(why)].load(); }
  std::string log() {
    const std::lock_guard lock(mutex_);
    return log_;
  }

 private:
  std::mutex mutex_;
  std::string log_;  // guarded by mutex_
  std::shared_ptr<actors::TierFigures> figures_ = std::make_shared<actors::TierFigures>();
  runtime::System system_{{.workers = 2}};
  runtime::RefOf<actors::StoreTier> tier_;
};

class GoldenSnapshots : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = fs::temp_directory_path() / "reprise-golden-XXXXXX";
    scratch_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override { fs::remove_all(scratch_); }

  /// A copy of the golden folder of a version: tiers write where they read.
  fs::path copy_of(int version) const {
    const fs::path to = scratch_ / ("v" + std::to_string(version));
    fs::copy(golden_folder(version) / "folder", to, fs::copy_options::recursive);
    return to;
  }
  static StateKind of_another_build() {
    StateKind kind = kGolden.kind();
    kind.arithmetic ^= 1;
    return kind;
  }

  fs::path scratch_;
};

/// The one snapshot of a folder.
std::optional<Manifest> golden_in(const fs::path& folder, const Key& key) {
  const std::vector<ListedSnapshot> listed = list_snapshots(SnapshotFolder(folder), key);
  EXPECT_EQ(listed.size(), 1U) << folder;
  if (listed.size() != 1) return std::nullopt;
  EXPECT_TRUE(listed[0].manifest) << folder << ": " << name_of(listed[0].refused.why) << ": "
                                  << listed[0].refused.message;
  return listed[0].manifest;
}

void expect_golden(const char* name, const char* secret, const GoldenSnapshot& snapshot) {
  const SnapshotFolder folder(golden_folder(kToday) / name);
  const Key key = key_of(secret);
  const std::optional<Manifest> manifest = golden_in(folder.path(), key);
  ASSERT_TRUE(manifest);
  EXPECT_EQ(manifest->name_space, GoldenSnapshot::kNamespace);
  EXPECT_EQ(manifest->kind, snapshot.kind());
  EXPECT_EQ(manifest->stored, GoldenSnapshot::kStored);
  EXPECT_EQ(manifest->logical, GoldenSnapshot::kStored);
  EXPECT_EQ(manifest->origin, "prompt_end");
  EXPECT_EQ(manifest->tokens, GoldenSnapshot::tokens());
  EXPECT_TRUE(check_folder(folder, key)->is_whole());
  const auto state = read_state(folder, key, *manifest);
  ASSERT_TRUE(state.ok()) << state.error().message;
  EXPECT_TRUE(*state == snapshot.state());
}

TEST_F(GoldenSnapshots, OfTodayAreListedAndVerified) {
  expect_golden("folder", "secret", kGolden);
  expect_golden("export", "export.secret", kGoldenExport);
}

TEST_F(GoldenSnapshots, OfTodayAreUsedByTheirBuildAndANamedMissToAnother) {
  Tier tier(copy_of(kToday));
  const protocol::Fetched missed = tier.fetch(of_another_build());
  EXPECT_FALSE(missed.state);
  EXPECT_EQ(missed.reason, protocol::MissReason::kOtherArithmetic);
  const protocol::Fetched found = tier.fetch(kGolden.kind());
  ASSERT_TRUE(found.state);
  EXPECT_EQ(found.state->stored, GoldenSnapshot::kStored);
  EXPECT_EQ(found.origin, protocol::Origin::kPromptEnd);
  EXPECT_TRUE(std::ranges::equal(found.state->bytes, kGolden.state()));
  EXPECT_EQ(tier.log(), "");
}

TEST_F(GoldenSnapshots, OfEarlierVersionsAreMissesThatSaySo) {
  for (int version = 1; version < kToday; ++version) {
    SCOPED_TRACE("version " + std::to_string(version));
    const std::string says = "it has the unknown version " + std::to_string(version);
    for (const auto& [name, secret] : {std::pair("folder", "secret"), std::pair("export", "export.secret")}) {
      const std::vector<ListedSnapshot> listed =
          list_snapshots(SnapshotFolder(golden_folder(version) / name), key_of(secret));
      ASSERT_EQ(listed.size(), 1U);
      EXPECT_FALSE(listed[0].manifest);
      EXPECT_EQ(listed[0].refused.why, Refusal::kVersion);
      EXPECT_EQ(listed[0].refused.message, says);
    }
    const fs::path folder = copy_of(version);
    const Files before = files_of(SnapshotFolder(folder));
    EXPECT_GE(before.size(), 5U);
    {
      Tier tier(folder);
      for (const StateKind& kind : {kGolden.kind(), of_another_build()}) {
        const protocol::Fetched missed = tier.fetch(kind);
        EXPECT_FALSE(missed.state);
        EXPECT_EQ(missed.reason, protocol::MissReason::kNeverSeen);
      }
      EXPECT_EQ(tier.refused(Refusal::kVersion), 1U);
      EXPECT_NE(tier.log().find("is not used (version): m"), std::string::npos) << tier.log();
      EXPECT_NE(tier.log().find(says), std::string::npos) << tier.log();
    }
    EXPECT_TRUE(files_of(SnapshotFolder(folder)) == before) << "they stay for the program that wrote them";
  }
}

// -- what is written today

/// A manifest's contents but for the time at which it was written.
std::string without_time(const Bytes& contents) {
  const std::string text(reinterpret_cast<const char*>(contents.data()), contents.size());
  return std::regex_replace(text, std::regex("\"created\":[0-9]{10}"), "\"created\":0");
}

/// The same files, whose records are the same but for nonces, what these change, and the time.
void expect_same_records(const Files& golden, const Files& today, const Key& key, const Manifest& manifest) {
  const NamespaceKeys keys = keys_of(key, manifest.kind.model, manifest.name_space);
  for (const auto& [name, record] : golden) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(today.contains(name)) << "it is not written any more, or has another name";
    const Bytes& written = today.at(name);
    const auto was = read_head(record, record.size()), is = read_head(written, written.size());
    ASSERT_TRUE(was.ok() && is.ok());
    const bool packed = was->form == RecordForm::kPacked;  // how short zstd makes it is not ours to say
    EXPECT_TRUE(packed || record.size() == written.size());
    constexpr std::size_t kLength = 16, kName = 24, kNonce = 40;  // where they begin
    EXPECT_EQ(std::memcmp(record.data(), written.data(), packed ? kLength : kNonce), 0) << "another head";
    EXPECT_EQ(std::memcmp(record.data() + kName, written.data() + kName, kNonce - kName), 0)
        << "another name";
    EXPECT_EQ(was->references, is->references);
    if (was->kind == RecordKind::kManifest) {
      const auto a = open_record(keys, was->kind, was->id, record, 1u << 20);
      const auto b = open_record(keys, is->kind, is->id, written, 1u << 20);
      ASSERT_TRUE(a.ok() && b.ok());
      EXPECT_TRUE(without_time(a->contents) == without_time(b->contents)) << "another manifest";
      continue;
    }
    const auto reference = std::find(manifest.references.begin(), manifest.references.end(), was->id);
    ASSERT_NE(reference, manifest.references.end());
    const std::size_t bytes =
        manifest.chunk(static_cast<std::size_t>(reference - manifest.references.begin())).bytes;
    Bytes a(bytes), b(bytes);
    ASSERT_TRUE(open_record(keys, was->kind, was->id, record, std::span(a)).ok());
    ASSERT_TRUE(open_record(keys, is->kind, is->id, written, std::span(b)).ok());
    EXPECT_TRUE(a == b) << "another chunk";
  }
  EXPECT_EQ(golden.size(), today.size()) << "more is written";
}

RedisSettings settings_for(const test::RedisServer& server) {
  return {.address = {.host = "127.0.0.1", .port = server.port()}, .limits = {.connect = 2s, .answer = 10s}};
}

RedisAnswer ask(RedisConnection& connection, const RedisConnection::Command& command) {
  const auto answers = connection.ask({&command, 1});
  EXPECT_TRUE(answers.ok()) << command[0];
  return answers.ok() ? answers->front() : RedisAnswer{};
}

/// All keys, with the value of each that is a text, and the members of each set.
std::map<std::string, std::vector<std::string>> all_of(const test::RedisServer& server) {
  const RedisSettings settings = settings_for(server);
  RedisConnection connection(settings.address, "", settings.limits);
  std::map<std::string, std::vector<std::string>> all;
  for (const std::string& key : ask(connection, {"KEYS", "*"}).list) {
    const RedisAnswer value = ask(connection, {"GET", key});
    all[key] = value.kind == RedisAnswer::Kind::kText ? std::vector{value.text}
                                                      : ask(connection, {"ZRANGE", key, "0", "-1"}).list;
  }
  return all;
}

/// Puts the records of a folder into a server, as an engine does: the manifests last.
void store_records(const SnapshotFolder& folder, const test::RedisServer& server) {
  RedisStore store(settings_for(server), std::make_shared<StoreBreaker>());
  for (const FileKind kind : {FileKind::kChunk, FileKind::kManifest}) {
    const auto scanned = folder.scan();
    if (!scanned.ok()) throw std::runtime_error(scanned.error().message);
    for (const FolderFile& file : *scanned) {
      if (file.kind != kind) continue;
      const auto record = folder.read(file.folder, kind, file.id, 8u << 20);
      ASSERT_TRUE(record.ok());
      ASSERT_FALSE(store.write(file.folder, kind, file.id, *record));
    }
  }
}

/// A folder that this build wrote.
void write_folder(const fs::path& folder, const GoldenSnapshot& snapshot) {
  ASSERT_TRUE(Tier(folder).write(snapshot));
  fs::remove(folder / "lock");
}

/// The same, exported.
void write_export(const fs::path& scratch, const fs::path& folder) {
  const Key key = key_of("secret");
  ASSERT_NO_FATAL_FAILURE(write_folder(scratch, kGoldenExport));
  const std::optional<Manifest> manifest = golden_in(scratch, key);
  ASSERT_TRUE(manifest);
  const SnapshotFolder to(folder);
  ASSERT_FALSE(to.prepare());
  ASSERT_FALSE(
      copy_snapshot(SnapshotFolder(scratch), key, *manifest, to, key_of("export.secret"), std::nullopt));
  fs::remove(folder / "lock");
}

TEST_F(GoldenSnapshots, AreWhatIsWrittenToday) {
  const fs::path folder = scratch_ / "folder", exported = scratch_ / "export";
  ASSERT_NO_FATAL_FAILURE(write_folder(folder, kGolden));
  ASSERT_NO_FATAL_FAILURE(write_export(scratch_ / "to be exported", exported));
  const fs::path golden = golden_folder(kToday);
  if (std::getenv("REPRISE_WRITE_GOLDEN") != nullptr) {
    ASSERT_FALSE(fs::exists(golden)) << "golden files of a version that was published are not changed";
    fs::create_directories(golden);
    for (const fs::path& from : {folder, exported}) {
      fs::copy(from, golden / from.filename(), fs::copy_options::recursive);
    }
    const test::RedisServer server({"--dir", golden, "--dbfilename", "dump.rdb"});
    ASSERT_NO_FATAL_FAILURE(store_records(SnapshotFolder(folder), server));
    RedisConnection connection(settings_for(server).address, "", settings_for(server).limits);
    EXPECT_EQ(ask(connection, {"SAVE"}).text, "OK");
  }
  for (const auto& [made, secret] : {std::pair(folder, "secret"), std::pair(exported, "export.secret")}) {
    const Files kept = files_of(SnapshotFolder(golden / made.filename()));
    EXPECT_GE(kept.size(), 5U) << "manifest, two pages, tail, slot";
    const std::optional<Manifest> manifest = golden_in(golden / made.filename(), key_of(secret));
    ASSERT_TRUE(manifest);
    expect_same_records(kept, files_of(SnapshotFolder(made)), key_of(secret), *manifest);
  }
}

class GoldenDump : public GoldenSnapshots {
 protected:
  void SetUp() override {
    GoldenSnapshots::SetUp();
    if (!test::RedisServer::is_installed()) REPRISE_SKIP_WITHOUT("redis", "no redis-server in PATH");
  }
  /// A server with the dump of a version in it.
  std::vector<std::string> with_dump(int version) const {
    fs::copy(golden_folder(version) / "dump.rdb", scratch_ / "dump.rdb",
             fs::copy_options::overwrite_existing);
    return {"--dir", scratch_.string(), "--dbfilename", "dump.rdb"};
  }
};

TEST_F(GoldenDump, OfTodayHasTheRecordsOfTheFolderUnderTodaysKeys) {
  const test::RedisServer golden(with_dump(kToday));
  const SnapshotFolder folder(golden_folder(kToday) / "folder");
  RedisStore store(settings_for(golden), std::make_shared<StoreBreaker>());
  const auto scanned = folder.scan();
  if (!scanned.ok()) throw std::runtime_error(scanned.error().message);
  for (const FolderFile& file : *scanned) {
    const auto record = store.read(file.folder, file.kind, file.id, 8u << 20);
    ASSERT_TRUE(record.ok()) << record.error().message;
    EXPECT_TRUE(*record == read_file(folder.path() + "/" + file.folder.hex() + "/" + file.name));
    if (file.kind != FileKind::kManifest) continue;
    EXPECT_EQ(store.manifests(file.folder), std::vector<RecordId>{file.id});
    EXPECT_TRUE(open_manifest(key_of("secret"), file.folder, file.id, *record).ok());
  }
  const test::RedisServer today;
  ASSERT_NO_FATAL_FAILURE(store_records(folder, today));
  EXPECT_EQ(all_of(golden).size(), 8U) << "six records, the names of manifests, the count of changes";
  EXPECT_TRUE(all_of(golden) == all_of(today));
}

TEST_F(GoldenDump, OfEarlierVersionsIsRefusedByName) {
  for (int version = 1; version < kToday; ++version) {
    const test::RedisServer golden(with_dump(version));
    RedisStore store(settings_for(golden), std::make_shared<StoreBreaker>());
    std::size_t manifests = 0;
    const auto scanned = SnapshotFolder(golden_folder(version) / "folder").scan();
    if (!scanned.ok()) throw std::runtime_error(scanned.error().message);
    for (const FolderFile& file : *scanned) {
      const auto record = store.read(file.folder, file.kind, file.id, 8u << 20);
      ASSERT_TRUE(record.ok()) << record.error().message;
      if (file.kind != FileKind::kManifest) continue;
      ++manifests;
      const auto opened = open_manifest(key_of("secret"), file.folder, file.id, *record);
      ASSERT_FALSE(opened.ok());
      EXPECT_EQ(opened.error().why, Refusal::kVersion);
    }
    EXPECT_EQ(manifests, 1U);
  }
}

}  // namespace
}  // namespace reprise::tools
