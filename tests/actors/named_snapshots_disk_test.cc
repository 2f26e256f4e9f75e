// Snapshot names in a folder: restored after a restart, with the same secret only.

#include <ctime>

#include "protocol/named_snapshots.h"
#include "tests/actors/tier_fixture.h"

namespace reprise::actors {
namespace {

using protocol::NamedSnapshot;
using protocol::NamedSnapshots;
using protocol::NameOwner;

class NamedSnapshotsDiskTest : public TierFixture {
 protected:
  NamedSnapshot snapshot(const std::string& name, std::int64_t life = 1000) const {
    return {.name = name,
            .model = "m",
            .beginning = Json{{"prompt", "Once"}},
            .tokens = 3,
            .created = now_,
            .expires = now_ + life};
  }
  bool wait_for_records(EngineHarness& engine, std::size_t count) {
    return engine.eventually([&] { return files('n').size() == count; });
  }

  const NameOwner owner_{"tenant", "salt"};
  const std::int64_t now_ = std::time(nullptr);
};

TEST_F(NamedSnapshotsDiskTest, AreThereAgainUnderTheirTenantAndSalt) {
  {
    EngineHarness engine(disk_options());
    const std::shared_ptr<NamedSnapshots> names = engine.engine().named_snapshots();
    ASSERT_FALSE(names->put(owner_, snapshot("kept"), now_));
    ASSERT_TRUE(wait_for_records(engine, 1));
    ASSERT_FALSE(names->put(owner_, snapshot("kept", 500), now_));  // put again
    ASSERT_FALSE(names->put({"tenant"}, snapshot("kept"), now_));
    ASSERT_TRUE(wait_for_records(engine, 2));
    EXPECT_EQ(engine.ask(prompt_).cache.restored_tokens, 0U) << "names are no states";
  }
  {
    EngineHarness engine(disk_options());
    const std::shared_ptr<NamedSnapshots> names = engine.engine().named_snapshots();
    const auto found = names->find(owner_, "kept", now_);
    ASSERT_TRUE(found) << "at once, not when somebody has read the folder";
    EXPECT_EQ(found->expires, now_ + 500);
    EXPECT_EQ(found->beginning.dump(), R"({"prompt":"Once"})");
    EXPECT_TRUE(names->all({"tenant", "other"}, now_).empty());
    EXPECT_TRUE(names->all({"other", "salt"}, now_).empty());
    EXPECT_EQ(names->all({"tenant"}, now_).size(), 1U);
    EXPECT_TRUE(names->drop(owner_, "kept", now_));
    ASSERT_TRUE(wait_for_records(engine, 1));
  }
  EngineHarness engine(disk_options());
  EXPECT_FALSE(engine.engine().named_snapshots()->find(owner_, "kept", now_))
      << "what was deleted stays away";
  EXPECT_TRUE(engine.engine().named_snapshots()->find({"tenant"}, "kept", now_));
}

TEST_F(NamedSnapshotsDiskTest, AnotherSecretOpensNone) {
  {
    EngineHarness engine(disk_options());
    ASSERT_FALSE(engine.engine().named_snapshots()->put(owner_, snapshot("kept"), now_));
    ASSERT_TRUE(wait_for_records(engine, 1));
  }
  EngineHarness engine(disk_options({"cpu", "qwen3_5_text"}, "another secret for the tests"));
  EXPECT_TRUE(engine.engine().named_snapshots()->all(owner_, now_).empty());
}

TEST_F(NamedSnapshotsDiskTest, ARecordUnderAnotherNameIsLeftOut) {
  {
    EngineHarness engine(disk_options());
    ASSERT_FALSE(engine.engine().named_snapshots()->put(owner_, snapshot("kept"), now_));
    ASSERT_TRUE(wait_for_records(engine, 1));
  }
  const std::filesystem::path record = files('n').front();
  std::filesystem::rename(record, record.parent_path() / ("n" + std::string(32, '0')));
  EngineHarness engine(disk_options());
  EXPECT_TRUE(engine.engine().named_snapshots()->all(owner_, now_).empty());
}

}  // namespace
}  // namespace reprise::actors
